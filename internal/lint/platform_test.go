package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The module builds wherever it promises to run. Linux on amd64 is where its tests run, and
// darwin/arm64 has no file that neither of these has.
func TestOtherPlatforms(t *testing.T) {
	for _, on := range []string{"linux/arm64", "darwin/amd64"} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			goos, goarch, _ := strings.Cut(on, "/")
			found, err := Platform(filepath.Join("..", ".."), goos, goarch)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				t.Errorf("%s", f)
			}
		})
	}
}

// A mistake on one platform is found there, in a test too, and with what it means for what imports it.
func TestPlatformFinds(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.org/m\n\ngo 1.26\n",
		"a/a_linux.go":     "package a\n\nimport \"syscall\"\n\nconst Is = syscall.EPOLLIN\n",
		"a/a_darwin.go":    "package a\n\nimport \"syscall\"\n\nconst Is = syscall.EPOLLIN\n",
		"a/b_darwin.go":    "package a\n\nvar Big int32 = 1 << 40\n",
		"a/a_test.go":      "package a\n\nvar _ = Is\n",
		"b/b.go":           "package b\n\nimport \"example.org/m/c\"\n\nvar _ = c.Here\n",
		"b/b_test.go":      "package b_test\n\nimport (\n\t\"testing\"\n\n\t_ \"example.org/m/b\"\n)\n\nfunc TestB(t *testing.T) { late(t) }\n",
		"b/late_test.go":   "//go:build linux\n\npackage b_test\n\nimport \"testing\"\n\nfunc late(*testing.T) {}\n",
		"c/c.go":           "package c\n",
		"c/here_linux.go":  "package c\n\nconst Here = 1\n",
		"c/there_arm64.go": "package c\n\nconst There = 1\n",
	} {
		full := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for on, want := range map[string]string{
		"linux/arm64": "",
		"darwin/amd64": `a/a_darwin.go:5: type: for darwin/amd64: undefined: syscall.EPOLLIN
a/b_darwin.go:3: type: for darwin/amd64: cannot use 1 << 40 (untyped int constant 1099511627776) as int32 value in variable declaration (overflows)
b/b.go:5: type: for darwin/amd64: undefined: c.Here
b/b_test.go:9: type: for darwin/amd64: undefined: late
`,
	} {
		goos, goarch, _ := strings.Cut(on, "/")
		found, err := Platform(root, goos, goarch)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, f := range found {
			got.WriteString(f.String() + "\n")
		}
		if got.String() != want {
			t.Errorf("%s:\n%s\nwant:\n%s", on, got.String(), want)
		}
	}
}
