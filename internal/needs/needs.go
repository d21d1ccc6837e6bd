// Package needs decides what becomes of a test that drives a program from
// outside the module when that program is not installed.
//
//	installed            the test runs
//	missing              the test skips, and says what to install
//	missing, CI=true     the test fails: a check that silently skips is no check
//
// What this package does not do: it installs nothing; `make deps` does.
package needs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Program returns the path of the first of the named programs that is
// installed. A name with a slash is a path. If none is installed the test ends,
// skipped or failed.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, strings.Join(names, " or "))
	return ""
}

// Dir returns the first of the named directories that exists, for programs that
// are a tree of files. If none exists the test ends, skipped or failed.
func Dir(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return name
		}
	}
	missing(t, strings.Join(names, " or "))
	return ""
}

func missing(t testing.TB, what string) {
	t.Helper()
	const advice = "%s is not installed; make deps installs what tests need"
	if os.Getenv("CI") == "true" {
		t.Fatalf(advice, what)
	}
	t.Skipf(advice, what)
}
