package tracers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/needs"
)

// Java compiles the Java tracer, and the given sources with it, and returns the
// class path. The Java compiler is that of the PATH.
func Java(t testing.TB, sources ...string) (classpath string) {
	t.Helper()
	needs.Dir(t, "/proc/self/ns") // the tracers are for Linux
	javac, out := needs.Program(t, "javac"), t.TempDir()
	Run(t, nil, filepath.Join(Root(), "tracer/java/build.sh"), out, javac)
	jar, classes := filepath.Join(out, "spillgate-tracer.jar"), filepath.Join(out, "more")
	args := []string{"--release", "17", "-Xlint:all", "-Werror", "-cp", jar, "-d", classes}
	for _, source := range sources {
		args = append(args, filepath.Join(Root(), source))
	}
	Run(t, nil, javac, args...)
	return jar + string(os.PathListSeparator) + classes
}

// Runtimes returns the java programs that are installed, by what their
// directory is called; that of the PATH comes first.
func Runtimes(t testing.TB) []string {
	t.Helper()
	first := needs.Program(t, "java")
	list, known := []string{first}, map[string]bool{real(first): true}
	more, err := filepath.Glob("/usr/lib/jvm/*/bin/java")
	if err != nil {
		t.Fatal(err)
	}
	for _, java := range more {
		if at := real(java); !known[at] && !tooOld(at) {
			known[at] = true
			list = append(list, java)
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
