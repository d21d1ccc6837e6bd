package proxy

import (
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// An upload that has begun when its upstream leaves is answered by the one that took its place.
func TestUploadsOutliveTheirUpstream(t *testing.T) {
	var at [2]string
	for i := range at {
		_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-At", at[i]) }))
		at[i] = "http://" + addr
	}
	p := start(t, to(at[0]))
	old := p.state.Load().upstreams[0]
	c := connectTo(t, p.addr)
	if _, err := c.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf.")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the request to be inside", func() bool { return p.active.Load() == 1 })
	next := p.state.Load().cfg
	next.Upstreams = to(at[1]).Upstreams
	if _, err := p.Reload(next); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old upstream's gate to refuse", func() bool {
		ticket, err := old.gate.Enter(t.Context(), live.Request{})
		if err == nil {
			ticket.Leave(work.Ignored)
		}
		return err != nil
	})
	if _, err := c.Write([]byte("half.")); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if read(t, resp); resp.StatusCode != http.StatusOK || resp.Header.Get("X-At") != at[1] {
		t.Errorf("%s by %q, expected the new upstream's answer", resp.Status, resp.Header.Get("X-At"))
	}
}
