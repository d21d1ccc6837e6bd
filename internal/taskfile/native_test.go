package taskfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/tracers"
)

// TestVectorsInC has the C library act out, read and refuse the vectors.
func TestVectorsInC(t *testing.T) {
	program := tracers.C(t, []string{"-O1"}, "tracer/c/test/vectors.c")
	nativeVectors(t, program)
}

// nativeVectors runs a program that takes play, dump and judge as
// tracer/c/test/vectors.c does.
func nativeVectors(t *testing.T, command ...string) {
	t.Helper()
	run := func(args ...string) string {
		t.Helper()
		return tracers.Run(t, nil, command[0], append(command[1:len(command):len(command)], args...)...)
	}
	scripts, err := filepath.Glob(vectors + "*.script")
	if err != nil || len(scripts) < 5 {
		t.Fatalf("%d scripts (%v)", len(scripts), err)
	}
	for _, script := range scripts {
		base := strings.TrimSuffix(script, ".script")
		out := filepath.Join(t.TempDir(), "out")
		run("play", script, out)
		if got, want := hexOf([]byte(read(t, out))), read(t, base+".hex"); got != want {
			t.Errorf("%s: acted out it is\n%s\nwant\n%s", script, got, want)
		}
		b, err := bytesOf(read(t, base+".hex"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(out, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, want := run("dump", out), read(t, base+".dump"); got != want {
			t.Errorf("%s: read as\n%s\nwant\n%s", base, got, want)
		}
	}
	judge(t, run)
}

// judge has a program look at all damaged files at once.
func judge(t *testing.T, run func(args ...string) string) {
	t.Helper()
	whole, err := bytesOf(read(t, vectors+"empty.hex"))
	if err != nil {
		t.Fatal(err)
	}
	args, dir := []string{"judge"}, t.TempDir()
	var want []string
	for line := range strings.Lines(read(t, vectors+"refusals.txt")) {
		if line[0] == '#' {
			continue
		}
		word, b := damaged(t, whole, line)
		path := filepath.Join(dir, word+strings.Repeat("x", len(want)))
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		args, want = append(args, path), append(want, word)
	}
	if got := strings.Fields(run(args...)); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("judged %v,\nwant   %v", got, want)
	}
}

// TestVectorsInJava has the Java library act out, read and refuse the vectors.
func TestVectorsInJava(t *testing.T) {
	classpath := tracers.Java(t, "tracer/java/test/spillgate/tracer/Vectors.java")
	nativeVectors(t, tracers.Runtimes(t)[0], "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", classpath, "spillgate.tracer.Vectors")
}
