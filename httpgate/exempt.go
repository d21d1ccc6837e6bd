package httpgate

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// serveExempt serves a request that needs no slot, which came by a connection. It is never refused, but many at once go on
// in turn: a flood of them is work for the server like any other. Those for ProbePaths wait for no others.
func (h *handler) serveExempt(w http.ResponseWriter, r *http.Request, t *Target, from *conn) {
	if s := t.gate.Stats(); s.Mode == live.Enforce && s.Limit > 0 {
		ctx := r.Context()
		line := &t.exempted
		if slices.Contains(probePaths, r.URL.Path) {
			line = &t.probes
		}
		done, ok := line.pass(ctx, t.gate, h.sentBy(r, from))
		if !ok { // nobody waits for it any more
			refusal := &live.Refusal{Reason: work.Canceled, Pushback: -1}
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				refusal.Reason = work.Expired
			}
			h.refuse(w, r, refusal, answer(refusal, wire.Grant{}, false), 0, isGRPC(r.Header))
			return
		}
		defer done()
		if t = h.current(t, r); t == nil {
			h.turnAway(w, r, isGRPC(r.Header))
			return
		}
	}
	t.next.ServeHTTP(w, r)
	h.leaves(w, r)
}
