package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// OPTIONS and TRACE go on for as many hops as they say, and no further. Other methods say nothing.
func TestMaxForwards(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Left", strings.Join(r.Header["Max-Forwards"], "|"))
	}))
	p := start(t, to("http://"+addr))
	c := client(t, 1, nil)
	for _, test := range []struct {
		method, left string
		want         int
		passed       string // on; empty: the proxy answered
	}{
		{"OPTIONS", "0", 204, ""},
		{"TRACE", "0", 405, ""},
		{"OPTIONS", "10", 200, "9"},
		{"TRACE", "1", 200, "0"},
		{"OPTIONS", "many", 200, "many"},
		{"GET", "0", 200, "0"},
	} {
		r, _ := http.NewRequest(test.method, p.url+"/x", nil)
		r.Header.Set("Max-Forwards", test.left)
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if got := resp.Header.Get("X-Left"); resp.StatusCode != test.want || got != test.passed {
			t.Errorf("%s with %s hops: answered %d, %q passed on, expected %d and %q", test.method, test.left, resp.StatusCode, got, test.want, test.passed)
		}
		if test.passed == "" && resp.Header.Get("Allow") == "" {
			t.Errorf("%s with %s hops: no Allow", test.method, test.left)
		}
	}
}

// A target that is no path reaches no upstream, whatever it has behind it.
func TestTargetsWithoutPath(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the upstream got %s", r.RequestURI) }))
	p := start(t, to("http://"+addr+"/app/"))
	c := connectTo(t, p.addr)
	for _, line := range []string{"GET x:80", "GET x:internal/admin", "GET *", "POST *", "PRI *"} {
		fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\n\r\n", line)
		if code, err := c.answer(); code != http.StatusBadRequest {
			t.Fatalf("%s: answered %d, %v, expected 400", line, code, err)
		}
	}
	for path, host := range map[string]string{"*": "x", "x:internal/admin": "x", "/a": "x/evil", "/b": "x y", "/c": "x, y", "/d": "x#y"} {
		if status, _ := askedRaw(t, p.addr, path, host); status != "400" {
			t.Errorf("%s of %q over HTTP/2: answered %s, expected 400", path, host, status)
		}
	}
}
