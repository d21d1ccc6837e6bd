package proxy

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
)

// A request that calls another service, and then goes on to another upstream because its own broke off, is without a slot at
// neither when it has ended.
func TestAwayAtTheUpstreamThatHasTheRequest(t *testing.T) {
	_, next := serve(t, mirror)
	calls := client(t, 1, nil)
	var egress atomic.Value
	var broke atomic.Int64
	_, breaks := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		out, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), http.MethodGet, "http://"+egress.Load().(string), nil)
		if err != nil {
			t.Error(err)
			return
		}
		out.Header["Traceparent"] = r.Header["Traceparent"]
		if resp, err := calls.Do(out); err == nil {
			resp.Body.Close()
		}
		broke.Add(1)
		panic(http.ErrAbortHandler)
	}))
	_, well := serve(t, mirror)
	cfg := to("http://"+breaks, "http://"+well)
	cfg.Health.Failures = -1
	cfg.Egress = []Egress{{Address: "127.0.0.1:0", URL: "http://" + next}}
	p := start(t, cfg)
	egress.Store(p.EgressAddrs()[0].String())
	c := client(t, 1, nil)
	eventually(t, "the upstream that breaks off to be asked", func() bool {
		if resp, _ := get(t, c, p.url); resp.StatusCode != http.StatusOK {
			t.Fatalf("answered %s", resp.Status)
		}
		return broke.Load() > 0
	})
	if p.exits[0].matched.Load() == 0 {
		t.Error("its call is not known to be the request's")
	}
	eventually(t, "all to have ended", func() bool { return p.traces.count() == 0 })
	for _, u := range p.state.Load().upstreams {
		if n := u.loose.Load(); n != 0 {
			t.Errorf("%d requests are without a slot at %s after all have ended", n, u.name)
		}
	}
}
