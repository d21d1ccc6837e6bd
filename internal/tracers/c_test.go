package tracers

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/needs"
)

// TestCLibrary runs the library's own checks, plainly and under sanitizers.
func TestCLibrary(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags []string
	}{
		{"plain", []string{"-O2"}},
		{"address and undefined", []string{"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}},
		{"thread", []string{"-O1", "-fsanitize=thread"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			program := C(t, test.flags, "tracer/c/test/check.c")
			// A child of a process with threads starts its watcher.
			Run(t, []string{"TSAN_OPTIONS=die_after_fork=0"}, program, filepath.Join(t.TempDir(), "tasks"))
		})
	}
}

// TestCPackage builds and installs the library with CMake, finds it with
// pkg-config and with CMake, runs a C++ program on it and builds the example.
func TestCPackage(t *testing.T) {
	cmake, pkgconfig := needs.Program(t, "cmake"), needs.Program(t, "pkg-config")
	build, prefix := t.TempDir(), t.TempDir()
	Run(t, nil, cmake, "-S", filepath.Join(Root(), "tracer/c"), "-B", build, "-DCMAKE_INSTALL_PREFIX="+prefix, "-DCMAKE_INSTALL_LIBDIR=lib")
	Run(t, nil, cmake, "--build", build)
	Run(t, nil, cmake, "--install", build)
	found := Run(t, []string{"PKG_CONFIG_PATH=" + filepath.Join(prefix, "lib/pkgconfig")}, pkgconfig, "--cflags", "--libs", "spillgate-tracer")
	program := CPlusPlus(t, strings.Fields(found), "tracer/c/test/scopes.cpp")
	Run(t, nil, program, filepath.Join(t.TempDir(), "tasks"))

	example := filepath.Join(Root(), "examples/culprit-c")
	Run(t, nil, cmake, "-S", example, "-B", filepath.Join(build, "example"), "-DCMAKE_PREFIX_PATH="+prefix)
	Run(t, nil, cmake, "--build", filepath.Join(build, "example"))
}

// BenchmarkC reports what an event costs in the C library, beside half of an
// uncontended lock and unlock.
func BenchmarkC(b *testing.B) {
	program := C(b, []string{"-O2"}, "tracer/c/test/bench.c", "tracer/c/spillgate_tracer.c")
	for b.Loop() {
		report(b, Run(b, nil, program, filepath.Join(b.TempDir(), "tasks"), "10000000"))
	}
}

// report takes lines of a name and nanoseconds for metrics, and adds what an
// event of mode coarse is to half of a lock and unlock.
func report(b *testing.B, lines string) {
	b.Helper()
	ns := map[string]float64{}
	for line := range strings.Lines(lines) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			b.Fatalf("the benchmark printed %q", line)
		}
		ns[name] = number(b, text)
		b.ReportMetric(ns[name], name+"-ns")
	}
	b.ReportMetric(ns["coarse"]/ns["mutex"], "coarse/mutex")
}

func number(b *testing.B, text string) float64 {
	b.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}
