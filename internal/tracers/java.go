package tracers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/needs"
)

// Java compiles the Java tracer together with the given sources and returns the
// class path. The Java compiler is that of the PATH.
func Java(t testing.TB, sources ...string) (classpath string) {
	t.Helper()
	library, err := filepath.Glob(filepath.Join(Root(), "tracer/java/src/spillgate/tracer/*.java"))
	if err != nil || len(library) == 0 {
		t.Fatalf("the library has %d sources (%v)", len(library), err)
	}
	return javac(t, library, sources)
}

// Jar builds the Java tracer as its users do, compiles the given sources on it
// and returns the class path.
func Jar(t testing.TB, sources ...string) (classpath string) {
	t.Helper()
	out := t.TempDir()
	Run(t, nil, filepath.Join(Root(), "tracer/java/build.sh"), out, needs.Program(t, "javac"))
	jar := filepath.Join(out, "spillgate-tracer.jar")
	return jar + string(os.PathListSeparator) + javac(t, []string{"-cp", jar}, sources)
}

// javac compiles sources, after further arguments, and returns the directory of
// the classes.
func javac(t testing.TB, args, sources []string) string {
	t.Helper()
	needs.Dir(t, "/proc/self/ns") // the tracers are for Linux
	classes := t.TempDir()
	args = append([]string{"--release", "17", "-Xlint:all", "-Werror", "-d", classes}, args...)
	for _, source := range sources {
		args = append(args, filepath.Join(Root(), source))
	}
	Run(t, nil, needs.Program(t, "javac"), args...)
	return classes
}

// Runtimes returns the java programs that are installed; that of the PATH comes
// first.
func Runtimes(t testing.TB) []string {
	t.Helper()
	first := needs.Program(t, "java")
	list, known := []string{real(first)}, map[string]bool{real(first): true}
	more, err := filepath.Glob("/usr/lib/jvm/*/bin/java")
	if err != nil {
		t.Fatal(err)
	}
	for _, java := range more {
		if at := real(java); !known[at] && !tooOld(at) {
			known[at] = true
			list = append(list, at)
		}
	}
	return list
}

func real(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	return path
}

// tooOld reports whether a runtime is of Java 8 or 11, which Debian puts beside
// later ones.
func tooOld(java string) bool {
	return strings.Contains(java, "java-8-") || strings.Contains(java, "java-11-")
}
