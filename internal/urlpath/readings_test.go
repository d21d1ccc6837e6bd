package urlpath

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestOthers(t *testing.T) {
	for target, want := range map[string]string{
		"/a/b.c": "/a/b.c", "/a%20b": "/a b", "/a%c3%a9": "/aé", "/a/": "/a/", "/": "/",
		"/bulk/..%2fcheckout/x": "/checkout/x /bulk/../checkout/x /bulk/..%2Fcheckout/x",
		"/a%2fb":                "/a/b /a%2Fb",
		`/bulk/..\checkout`:     `/checkout /bulk/../checkout /bulk/..\checkout`,
		"/bulk/..;x/checkout":   "/checkout /bulk/../checkout /bulk/..;x/checkout",
		"/bulk//../checkout":    "/checkout /bulk/checkout /bulk/../checkout /bulk//../checkout",
		"/bulk/../checkout":     "/checkout /bulk/../checkout",
		"/bulk/%2e%2e/checkout": "/checkout /bulk/../checkout",
		"//checkout":            "/checkout //checkout",
		"/cart;id=1":            "/cart /cart;id=1",
		"/a/..":                 "/ /a/..",
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		others, all := Others(u.Path, u.RawPath)
		if !all {
			t.Errorf("%s: not all readings", target)
		}
		got, wanted := append(others, Canonical(u.Path)), strings.Fields(want)
		if target == "/a%20b" {
			wanted = []string{"/a b"}
		}
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: %q, expected %q", target, got, wanted)
		}
	}
}

// What a server may resolve before it decodes, and another one after that, may be any path; so may what is long.
func TestPathsThatMayBeAny(t *testing.T) {
	for target, all := range map[string]bool{
		"/a/..;/b/..%3b/a": false, "/a/..;/b/..%3B/a": false, `/a\b%5cc`: false, "/a/../b/%2e%2e/a": false, "/a/./b/.%2E/a": false,
		"/a;v=1/b;v=2": true, "/a;v=1%3b2/b": true, "/a%3bv/b%3B": true, "/a%5cb%5C": true, "/a/../b/..": true, "/a/%2e%2e/b": true, "/a.%2e/b": true, "/a;%20": true,
		"/" + strings.Repeat("a;", 1<<10): false, "/" + strings.Repeat("ab", 1<<12): true, "/" + strings.Repeat("a;", 1<<9): true,
		"/" + strings.Repeat("%2f", 1<<12): false,
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := Others(u.Path, u.RawPath); got != all {
			t.Errorf("%.40s: all readings: %v, expected %v", target, got, all)
		}
	}
}

// The dearest path that is read in several ways.
func BenchmarkOthers(b *testing.B) {
	for name, target := range map[string]string{
		"plain": "/orders/1/items", "parameter": "/orders;v=1/items",
		"dearest":  "/" + strings.Repeat(`a;\..//.%2f`, longest/9-1),
		"too long": "/" + strings.Repeat(`a;\..//.%2f`, 6000),
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Others(u.Path, u.RawPath)
			}
		})
	}
}

// A URL has few readings, each once and each beginning as a path does.
func FuzzOthers(f *testing.F) {
	for _, p := range []string{"/a/%2e%2e/b", "/a/..%2fb", "/a/.%2e/%5c..//;/..;/b", "/", "*", "/a/./", "/a//", `/\%2f`} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Skip()
		}
		others, whole := Others(u.Path, u.RawPath)
		if !whole {
			t.Skip()
		}
		all := append([]string{Canonical(u.Path)}, others...)
		if len(all) > 32 {
			t.Errorf("%q: %d readings", target, len(all))
		}
		for i, p := range all {
			if slices.Contains(all[:i], p) {
				t.Errorf("%q has the reading %q twice", target, p)
			}
			if strings.HasPrefix(u.Path, "/") && !strings.HasPrefix(p, "/") {
				t.Errorf("%q: a reading %q", target, p)
			}
		}
		kept := keepSlashes(u.RawPath)
		if want, err := url.PathUnescape(kept); kept != "" && (err == nil && strings.Count(u.Path, "%") == 0 && want != u.Path || len(kept) <= len(u.Path)) {
			t.Errorf("%q: %q with its slashes kept, which is %q, expected %q", target, kept, want, u.Path)
		}
		if text, ok := strings.CutPrefix(u.Path, "/"); ok && len(all) == 1 && u.Path != all[0] {
			t.Errorf("%q, which is not canonical, has one reading: %q", text, all)
		}
	})
}
