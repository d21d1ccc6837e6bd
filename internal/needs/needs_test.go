package needs

import (
	"fmt"
	"runtime"
	"testing"
)

// recorder stands in for a test and keeps how it ended.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper() {}
func (r *recorder) Fatalf(format string, args ...any) {
	r.ended = "fatal: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (r *recorder) Skipf(format string, args ...any) {
	r.ended = "skip: " + fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// run calls f as a test of its own and returns how it ended, "" if it went on.
func run(f func(t testing.TB)) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.ended
}

func TestNeeds(t *testing.T) {
	const advice = " is not installed; make deps installs what tests need"
	for _, test := range []struct {
		name, ci string
		f        func(t testing.TB)
		want     string
	}{
		{"second of two", "true", func(t testing.TB) { Program(t, "no-such-program", "go") }, ""},
		{"directory", "true", func(t testing.TB) { Dir(t, "no-such-directory", ".") }, ""},
		{"missing", "", func(t testing.TB) { Program(t, "no-such-a", "no-such-b") }, "skip: no-such-a or no-such-b" + advice},
		{"missing directory, a file", "", func(t testing.TB) { Dir(t, "needs.go") }, "skip: needs.go" + advice},
		{"missing in CI", "true", func(t testing.TB) { Program(t, "no-such-a") }, "fatal: no-such-a" + advice},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("CI", test.ci)
			if got := run(test.f); got != test.want {
				t.Errorf("ended %q, want %q", got, test.want)
			}
		})
	}
}
