package apache

import (
	"slices"
	"testing"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/internal/culprit"
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

// Requests wait for a worker while all that there may be are taken.
func TestWorkers(t *testing.T) {
	held := func(resource int32) culprit.Hold {
		return culprit.Hold{Resource: resource, HeldSince: 1, WaitingSince: culprit.Unset, Used: 1}
	}
	for _, test := range []struct {
		names []string
		holds []culprit.Hold
		want  int
		all   bool
	}{
		{nil, nil, -1, false},
		{[]string{"lock"}, []culprit.Hold{held(0)}, -1, false},
		{[]string{"workers (2)"}, []culprit.Hold{held(0)}, 0, false},
		{[]string{"workers (2)"}, []culprit.Hold{held(0), held(0)}, 0, true},
		{[]string{"workers (2)", "workers (3)"}, []culprit.Hold{held(0), held(1), held(1)}, 1, false},
		{[]string{"worker threads (1)"}, []culprit.Hold{held(0)}, 0, true},
		{[]string{"workers"}, nil, 0, true},
		{[]string{"workers of mine"}, nil, -1, false},
	} {
		s := culprit.Sample{Holds: test.holds}
		for _, name := range test.names {
			s.Resources = append(s.Resources, culprit.Resource{Name: name})
		}
		if got, all := workers(&s); got != test.want || all != test.all {
			t.Errorf("%v, %d held: %d, %v; expected %d, %v", test.names, len(test.holds), got, all, test.want, test.all)
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
