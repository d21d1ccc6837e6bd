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
		got, wanted := append(Others(u.Path, u.RawPath), Canonical(u.Path)), strings.Fields(want)
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
		all := append([]string{Canonical(u.Path)}, Others(u.Path, u.RawPath)...)
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
