package grpcgate

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// TestClassShares: a gate learns by itself that the requests of a workflow whose
// handlers call on are interactive; the next service is told so, and believes it.
func TestClassShares(t *testing.T) {
	var mu sync.Mutex
	classes := map[string]work.Class{} // that the next service saw last, by workflow
	back := newGate(t, fixed(4))
	next := serve(t, back, &echo{handle: func(ctx context.Context, req string) (string, error) {
		tags := live.TagsFrom(ctx)
		mu.Lock()
		classes[tags.Workflow] = tags.Class
		mu.Unlock()
		return req, nil
	}}, trusting)
	gate, err := live.NewGate(live.GateConfig{
		Config: admission.Config{Objective: 10 * time.Second}, Service: "front",
		ClassShares: &live.SharesConfig{Config: share.Config{Period: time.Hour}, Classifier: share.ClassifierConfig{Few: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	down, _ := dialGated(t, next.addr, nil)
	front := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
		if req == "goes on" {
			return call1(ctx, down, req)
		}
		return req, nil
	}}, trusting)
	conn := dial(t, front.addr)
	for range 5 {
		for workflow, req := range map[string]string{"buy": "goes on", "look": "ends"} {
			if _, err := call1(withTags(within(t), wire.Tags{Workflow: workflow}), conn, req); err != nil {
				t.Fatal(err)
			}
		}
	}
	key := func(workflow string) share.Key {
		return share.Key{Caller: workflow, Callee: "front", Method: echoMethod}
	}
	buy, look := gate.Shares().Explain(key("buy")), gate.Shares().Explain(key("look"))
	if buy.Class != work.Interactive || buy.Why != share.ByHops || look.Class != work.Default {
		t.Errorf("buy is %+v and look %+v, want buy alone to be interactive", buy, look)
	}
	mu.Lock()
	defer mu.Unlock()
	if classes["buy"] != work.Interactive {
		t.Errorf("the next service saw %v", classes)
	}
	if s := gate.Shares().Stats(); s.Admitted[work.Interactive] == 0 || s.Admitted[work.Interactive]+s.Admitted[work.Default] != 10 || s.Keys != 2 {
		t.Errorf("%+v, want 10 requests of 2 kinds", s)
	}
	if back.Shares() != nil {
		t.Error("a gate has class shares that nobody asked for")
	}
}
