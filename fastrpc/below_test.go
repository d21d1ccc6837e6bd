package fastrpc

import (
	"context"
	"testing"

	"github.com/spillgate/spillgate"
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

// The request that a call is made for hears of the call's refusal, by the server and, once that is known to drain, by the
// client.
func TestRefusalIsToldToOtherProtocols(t *testing.T) {
	gate := newGate(t, spillgate.Config{})
	_, address := serve(t, ServerConfig{Gate: gate}, echoes)
	c := dial(t, ClientConfig{}, address)
	web := &webRequest{Context: within(t)}
	if _, err := c.Method("echo").Call(web, nil, nil); err != nil || web.refused {
		t.Fatalf("%v; a call that was answered counts as refused: %v", err, web.refused)
	}
	gate.Drain()
	for range 2 {
		web.refused = false
		if _, err := c.Method("echo").Call(web, nil, nil); err == nil || !web.refused {
			t.Errorf("%v; the request heard of the refusal: %v, expected true", err, web.refused)
		}
	}
}
