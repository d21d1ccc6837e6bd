package live

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/work"
)

// However many targets there are, no more than MaxTargets are told apart.
func TestTargetsAreBounded(t *testing.T) {
	var c Calls
	for i := range 3 * MaxTargets {
		c.Target(fmt.Sprint(i)).Count(Answered, work.None)
	}
	names, total := 0, uint64(0)
	c.Each(func(_ string, target *Target) {
		names++
		target.Counts(func(_ Fate, _ work.Reason, n uint64) { total += n })
	})
	if names != MaxTargets+1 || total != 3*MaxTargets {
		t.Errorf("%d targets and %d requests, expected %d and %d", names, total, MaxTargets+1, 3*MaxTargets)
	}
	c.Target("x").Count(NumFates, work.None)
	c.Target("x").NotSent(errors.New("no refusal"))
	c.Target("x").NotSent(fmt.Errorf("around: %w", &Refusal{Reason: work.WalletFull}))
	got := map[string]uint64{}
	c.Target(TargetRest).Counts(func(f Fate, r work.Reason, n uint64) { got[fmt.Sprint(f, r)] = n })
	if got["unsentwallet_full"]+got["unsent wallet_full"] != 1 || len(got) != 2 {
		t.Errorf("counted %v", got)
	}
}

// The state of a target is the sum over those who watch it, until they stop.
func TestStateOfATarget(t *testing.T) {
	var c Calls
	one := c.Target("x").Watch(func() ClientState { return ClientState{Window: 3, Waiting: 1, Credited: true} })
	two := c.Target("x").Watch(func() ClientState { return ClientState{Waiting: 4} })
	if got := c.Target("x").State(); got != (ClientState{Window: 3, Waiting: 5, Credited: true}) {
		t.Errorf("state %+v", got)
	}
	one()
	if got := c.Target("x").State(); got != (ClientState{Waiting: 4}) {
		t.Errorf("state %+v", got)
	}
	two()
}

// An observer that comes later is told beside the first one.
func TestObserversOfAGate(t *testing.T) {
	var first, second int
	g, err := NewGate(GateConfig{Config: admission.Config{Objective: time.Minute}, Observe: func(Event) { first++ }})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	pass := func() {
		ticket, err := g.Enter(t.Context(), Request{})
		if err != nil {
			t.Fatal(err)
		}
		ticket.Leave(work.Done)
	}
	pass()
	g.Observe(func(Event) { second++ })
	pass()
	g.Drain()
	if _, err := g.Enter(t.Context(), Request{}); err == nil {
		t.Fatal("a draining gate admitted a request")
	}
	if first != 3 || second != 2 {
		t.Errorf("told %d and %d times, expected 3 and 2", first, second)
	}
}
