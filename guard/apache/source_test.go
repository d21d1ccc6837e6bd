package apache

import (
	"slices"
	"testing"

	"github.com/spillgate/spillgate/guard/statement"
)

func TestURL(t *testing.T) {
	for text, want := range map[string][]int{
		"apache://127.0.0.1:8080/run/tasks":                   {8080},
		"apache://127.0.0.1/run/tasks?port=443&port=8443":     {80, 443, 8443},
		"apache:///run/tasks":                                 {80},
		"apache://127.0.0.1:80":                               nil,
		"apache://127.0.0.1:80/":                              nil,
		"apache://127.0.0.1:0/run/tasks":                      nil,
		"apache://127.0.0.1/run/tasks?port=x":                 nil,
		"apache://127.0.0.1/run/tasks?user=x":                 nil,
		"http://127.0.0.1/run/tasks":                          nil,
		"apache://127.0.0.1:99999/run/tasks":                  nil,
		"apache://[::1]:81/run/spillgate/apache.tasks?port=1": {81, 1},
	} {
		got, err := parse(text)
		if (err == nil) != (want != nil) || err == nil && !slices.Equal(got.ports, want) {
			t.Errorf("%s: %+v, %v; expected ports %v", text, got, err, want)
		}
	}
}

func TestRoute(t *testing.T) {
	for kind, want := range map[string]struct {
		method, path, host string
		class              statement.Class
	}{
		"GET /list/*":            {"GET", "/list/*", "", statement.Select},
		"POST /buy shop.example": {"POST", "/buy", "shop.example", statement.Write},
		"(keep-alive)":           {"", "", "", statement.Other},
		"(a b)":                  {"", "", "", statement.Other},
		"":                       {"", "", "", statement.Other},
	} {
		method, path, host := route(kind)
		if method != want.method || path != want.path || host != want.host || classOf(kind) != want.class {
			t.Errorf("%q: %q %q %q %v", kind, method, path, host, classOf(kind))
		}
	}
	if got := client(127<<40 | 1<<16 | 8080); got != "127.0.0.1:8080" {
		t.Errorf("client %s", got)
	}
	if got := client(8080); got != ":8080" {
		t.Errorf("client %s", got)
	}
}
