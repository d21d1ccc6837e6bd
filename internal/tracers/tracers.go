// Package tracers builds the tracers for other languages, so that tests can
// drive them.
//
//	C(t, flags, sources…) ──cc──▶ program
//
// Paths of sources are relative to the module's root. Programs are built in the
// temporary directory of the test. A missing compiler skips or fails the test, as
// package needs decides.
//
// What this package does not do: it installs nothing, and programs that are
// not tests do not import it.
package tracers

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/needs"
)

// patience bounds one build or run of a program on a busy machine.
const patience = 2 * time.Minute

// Root returns the module's root directory.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	if filepath.IsAbs(file) {
		return filepath.Dir(filepath.Dir(filepath.Dir(file)))
	}
	return filepath.Join("..", "..") // built with -trimpath: tests run in their package's directory
}

// C compiles and links sources with the C compiler and returns the program.
func C(t testing.TB, flags []string, sources ...string) string {
	t.Helper()
	return compile(t, needs.Program(t, "cc", "gcc", "clang"), append([]string{"-std=c11"}, flags...), sources)
}

// CPlusPlus does as C does, with the C++ compiler.
func CPlusPlus(t testing.TB, flags []string, sources ...string) string {
	t.Helper()
	return compile(t, needs.Program(t, "c++", "g++", "clang++"), append([]string{"-std=c++11"}, flags...), sources)
}

func compile(t testing.TB, compiler string, flags, sources []string) string {
	t.Helper()
	needs.Dir(t, "/proc/self/ns") // the tracers are for Linux
	program := filepath.Join(t.TempDir(), "program")
	args := []string{"-Wall", "-Wextra", "-Werror", "-g", "-pthread", "-o", program}
	for _, source := range sources {
		args = append(args, filepath.Join(Root(), source))
	}
	Run(t, nil, compiler, append(args, flags...)...) // flags name libraries too, which come after
	return program
}

// Run runs a program with additions to the environment and returns what it
// wrote, of much the last 64 KiB. The test fails if the program does, or takes
// longer than two minutes. On Linux the program ends with the test's process,
// also if that is killed.
func Run(t testing.TB, env []string, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	child, err := proc.Start(ctx, proc.Spec{Path: program, Args: args, Env: env, ReadyTimeout: -1})
	if err == nil {
		err = child.Wait()
	}
	if err != nil {
		t.Fatalf("%q: %v", args, err) // which has the program and what it wrote
	}
	return child.Output()
}
