package proxy

import (
	"maps"
	"net/http"
	"reflect"
	"testing"

	"github.com/spillgate/spillgate/classify"
)

// A field that a client names in Connection is for the proxy alone: the server does not see it, and no rule goes by it.
func TestRulesSeeWhatTheServerSees(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.Header.Get("X-Tenant"))
	}))
	cfg := to("http://" + addr)
	cfg.Workflows = map[string]Workflow{"vip": {}}
	cfg.Rules = []classify.Rule{{Match: classify.Match{Header: []classify.Header{{Name: "X-Tenant", Value: "vip"}}}, Set: classify.Set{Workflow: "vip"}}}
	p := start(t, cfg)
	c := client(t, 1, nil)
	for _, connection := range []string{"", "keep-alive", "close, X-Tenant"} {
		resp, _ := ask(t, c, p.url, "X-Tenant", "vip", "Connection", connection)
		if seen, want := resp.Header.Get("X-Seen") == "vip", connection != "close, X-Tenant"; seen != want {
			t.Errorf("with Connection: %q the server sees the field: %v", connection, seen)
		}
	}
	if got := p.Status().Upstreams[0].Workflows; got["vip"].Served != 2 || got["default"].Served != 1 {
		t.Errorf("%+v, expected two requests of vip and one of default", got)
	}
}

// What the proxy heeds, and what says who the client is, stays whatever Connection names.
func TestFieldsForTheProxyAlone(t *testing.T) {
	for connection, want := range map[string]http.Header{
		"Upgrade, X-A":                   {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "X-Real-Ip": {"c"}, "Spillgate": {"t"}},
		"keep-alive, x-real-ip, TE":      {"Connection": {"Keep-Alive, Te"}, "Upgrade": {"websocket"}, "X-A": {"a"}, "X-Real-Ip": {"c"}, "Spillgate": {"t"}},
		"spillgate, x-a, , close, x-a\t": {"Connection": {"Close"}, "Upgrade": {"websocket"}, "X-Real-Ip": {"c"}, "Spillgate": {"t"}},
		"Keep-Alive":                     {"Connection": {"Keep-Alive"}, "Upgrade": {"websocket"}, "X-A": {"a"}, "X-Real-Ip": {"c"}, "Spillgate": {"t"}},
	} {
		h := http.Header{"Connection": {connection}, "Upgrade": {"websocket"}, "X-A": {"a"}, "X-Real-Ip": {"c"}, "Spillgate": {"t"}}
		before := maps.Clone(h)
		if forUs(h); !reflect.DeepEqual(h, want) {
			t.Errorf("%v becomes %v, expected %v", before, h, want)
		}
	}
}
