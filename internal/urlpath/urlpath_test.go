package urlpath

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for p, want := range map[string]string{
		"": "", "*": "*", "/": "/", "/a": "/a", "/a/": "/a/", "/a/b.c": "/a/b.c", "/.well-known/x": "/.well-known/x", "/..a/...": "/..a/...",
		"/pkg.Service/Method":      "/pkg.Service/Method",
		"/internal/../expensive":   "/expensive",
		"/checkout/../bulk":        "/bulk",
		"/internal/..;x=1/bulk":    "/bulk",
		`/internal\..\bulk`:        "/bulk",
		`\internal`:                "/internal",
		"//internal//bulk":         "/internal/bulk",
		"/a/./b":                   "/a/b",
		"/a/b;jsession=1":          "/a/b",
		"/a;x/b;y":                 "/a/b",
		"/a/.":                     "/a/",
		"/a/..":                    "/",
		"/a/b/..":                  "/a/",
		"/a//":                     "/a/",
		"/../../a":                 "/a",
		"/..":                      "/",
		"/.":                       "/",
		"/;":                       "/",
		"/a/.;x/..;y/../b":         "/b",
		"/a/%2e%2e/b":              "/a/%2e%2e/b",
		"/a/b/../../../../c/./d//": "/c/d/",
	} {
		if got := Canonical(p); got != want {
			t.Errorf("Canonical(%q) = %q, expected %q", p, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Canonical("/a/b.c/.well-known/d") }); n > 0 {
		t.Errorf("%v allocations for a canonical path, expected none", n)
	}
}

func TestWant(t *testing.T) {
	for p, good := range map[string]bool{"/": true, "/a/": true, "/users/*/cart": true, "": false, "a": false, "*": false, "/a/../b": false, "/a;b": false, "//": false} {
		if got := Want(p); (got == "") != good {
			t.Errorf("Want(%q) = %q", p, got)
		}
	}
}

// A request target's decoded path keeps nothing that a server could read otherwise.
func FuzzCanonical(f *testing.F) {
	for _, p := range []string{"/a/%2e%2e/b", "/a/..%2fb", "/a/.%2e/%5c..//;/..;/b", "/", "*", "/a/./"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip()
		}
		c := Canonical(u.Path)
		if again := Canonical(c); again != c {
			t.Errorf("%q became %q and then %q", u.Path, c, again)
		}
		if !strings.HasPrefix(u.Path, "/") {
			return
		}
		if !strings.HasPrefix(c, "/") || strings.ContainsAny(c, `\;`) {
			t.Errorf("%q became %q", u.Path, c)
		}
		// The standard library agrees, but for what it does not know and the last slash.
		if want := strings.TrimSuffix(c, "/"); path.Clean(c) != max(want, "/") {
			t.Errorf("%q became %q, which is still %q", u.Path, c, path.Clean(c))
		}
		if !strings.ContainsAny(u.Path, `\;`) && path.Clean(u.Path) != path.Clean(c) {
			t.Errorf("%q became %q, expected %q", u.Path, c, path.Clean(u.Path))
		}
	})
}
