package httpgate

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// However a path is written, it is exempt and has an objective as the server behind reads it.
func TestPathsHoweverWritten(t *testing.T) {
	gate := newGate(t, admission.Config{Objective: time.Minute}, nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}), Exempt(Paths("/internal/", "/healthz"))))
	for target, exempt := range map[string]bool{
		"/healthz": true, "/internal/": true, "/internal/a": true, "/internal/a/../b": true,
		"/internal/../expensive": false, "/internal/%2e%2e/expensive": false, "/internal/..%2fexpensive": false, "/internal/..;/expensive": false,
		`/internal/..\expensive`: false, "/healthz/../expensive": false, "/healthz;x": false, "/internal": false, "//internal/a": false, "/x/../healthz": false,
		"/internal%2fa": false, "/internal/a%2fb": true, // a router that does not decode the slash has one segment in place of two
		"/internal/a%2fb/../../expensive": false, "/internal/a%2fb/%2e%2e/%2e%2e/expensive": false, // and goes up beyond it
		"/internal/..;/expensive/..%3b/internal/": false, "/internal/;" + strings.Repeat("a", 2<<10): false,
		"/internal/a%5cb/../../expensive": false, "/internal/a%3b%2fb/../../expensive": false,
	} {
		before := gate.Stats().Served[work.Done]
		c, br := raw(t, s)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", target, resp, err)
		}
		// A request that passed the gate is counted a moment after its answer; the next one
		// through the gate shows whether this one was.
		want := before + 1
		if !exempt {
			want++
		}
		send(t, base(t, 1), request(t, s.url+"/last", wire.Tags{}))
		eventually(t, "the last request to leave", func() bool { n := gate.Stats(); return n.Running == 0 && n.Served[work.Done] > before })
		if got := gate.Stats().Served[work.Done]; got != want {
			t.Errorf("%.60s: the gate served %d, expected %d: exempt %v", target, got-before, want-before, exempt)
		}
	}
	of := ByPath(map[string]time.Duration{"/reports/": time.Hour})
	for target, want := range map[string]time.Duration{
		"/reports/a": time.Hour, "/reports/b/../a": time.Hour, "/reports/a%2fb": time.Hour, "/reports/../a": 0,
		// Of a path that some servers read otherwise it is not known.
		"/x/..%2freports/a": 0, "/x/..;/reports/a": 0, "//reports/a": 0, "/reports/..%2fa": 0,
	} {
		r, err := http.NewRequest("GET", "http://x"+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := of(r); got != want {
			t.Errorf("%s: objective %v, expected %v", target, got, want)
		}
	}
}
