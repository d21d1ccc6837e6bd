package grpcgate

import (
	"context"
	"testing"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
)

// webRequest is the context of a request that a server of another protocol works on.
type webRequest struct {
	context.Context
	refused bool
}

func (w *webRequest) Value(key any) any {
	if key == (live.ServingKey{}) {
		return w
	}
	return w.Context.Value(key)
}

func (w *webRequest) RefusedBelow() { w.refused = true }

// The request that a call is made for hears of the call's refusal, whatever its own protocol.
func TestRefusalIsToldToOtherProtocols(t *testing.T) {
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{}, nil)
	conn, _ := dialGated(t, s.addr, nil)
	web := &webRequest{Context: within(t)}
	if _, err := call1(web, conn, "x"); err != nil || web.refused {
		t.Fatalf("%v; a call that was answered counts as refused: %v", err, web.refused)
	}
	gate.Drain()
	if _, err := call1(web, conn, "x"); err == nil || !web.refused {
		t.Errorf("%v; the request heard of the refusal: %v, expected true", err, web.refused)
	}
}
