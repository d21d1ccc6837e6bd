package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/work"
)

// TestGrantsSayTheParts: where workflows have weights, an answer says which part of the credits
// is for the workflow of its request; where all are alike it does not.
func TestGrantsSayTheParts(t *testing.T) {
	for _, fair := range []bool{true, false} {
		g := fixed(t, 4, func(cfg *Config) { cfg.Schedule = schedule.Config{Fair: fair} })
		if g.SetShare(1, 3) != fair {
			t.Errorf("fair is %v, and SetShare says otherwise", fair)
		}
		now := at(time.Second)
		c := g.Pool().Register(now)
		var parts [3]float64
		for range 2 { // the first answer of a workflow comes before the others are known
			for flow := 1; flow <= 2; flow++ {
				k := &Ticket{Client: c, Flow: flow}
				k.Deadline, k.Asks = mono.Never, true
				if v := g.Arrive(now, k); v != Run {
					t.Fatalf("%v, want run", v)
				}
				now = now.Add(ms)
				g.Leave(now, k, work.Done)
				grant, _ := g.Reply(now, k)
				parts[flow] = grant.Part
			}
		}
		switch ratio := parts[1] / parts[2]; {
		case fair && !(ratio > 2.99 && ratio < 3.01):
			t.Errorf("the parts are %v, want 3 to 1", parts[1:])
		case !fair && parts != [3]float64{}:
			t.Errorf("the parts are %v without workflows, want none", parts[1:])
		}
	}
}

// TestPeersShareCredits: ten connections of one address and one of another are two parties.
func TestPeersShareCredits(t *testing.T) {
	g := fixed(t, 1)
	now := at(time.Second)
	for i := range 11 {
		k := &Ticket{Client: g.Pool().Register(now), Source: uint64(i + 1), Peer: 1 + uint64(i/10)}
		k.Deadline, k.Demand = mono.Never, 100
		g.Arrive(now, k)
	}
	if n := g.Pool().Parties(); n != 2 {
		t.Errorf("%d parties, want 2", n)
	}
}

// TestObservedRequestsAreAnsweredAsServed: what a gate that refuses nothing would have refused was executed, and its answer
// says nothing that its client knows.
func TestObservedRequestsAreAnsweredAsServed(t *testing.T) {
	g := fixed(t, 4)
	now := at(time.Second)
	c := g.Pool().Register(now)
	answer := func(barred work.Reason) (tells bool) {
		k := &Ticket{Client: c, Barred: barred}
		k.Deadline = mono.Never
		if v, _ := g.Observe(now, k); (v == Shed) != (barred != work.None) {
			t.Fatalf("%v with the reason %v", v, barred)
		}
		now = now.Add(ms)
		g.Leave(now, k, work.Done)
		_, tells = g.Reply(now, k)
		return tells
	}
	for range 3 {
		answer(work.None)
	}
	if answer(work.None) {
		t.Fatal("an answer repeats what the client knows")
	}
	if answer(work.Culprit) {
		t.Error("the answer to a request that was executed is that to a refusal")
	}
}

// TestMonitorKnowsTheDemand: what a gate would say in monitor mode depends on what arrives, as what it decides does.
func TestMonitorKnowsTheDemand(t *testing.T) {
	decides, observes := fixed(t, 4), fixed(t, 4)
	var ran [2][]*Ticket
	for i := range 200 {
		now := at(time.Duration(i+1) * ms)
		for who, g := range []*Gate{decides, observes} {
			k := &Ticket{}
			k.Deadline = mono.Never
			if who == 0 {
				g.Arrive(now, k)
			} else {
				g.Observe(now, k)
			}
			if ran[who] = append(ran[who], k); i >= 2 {
				g.Leave(now, ran[who][i-2], work.Done)
			}
		}
	}
	if a, b := decides.demand.between, observes.demand.between; a != b || a == 0 {
		t.Errorf("%v ns between two arrivals, in monitor mode %v; expected the same", a, b)
	}
	if a, b := decides.worth, observes.worth; a != b {
		t.Errorf("a wait of %v is worth while, in monitor mode of %v; expected the same", a.wait, b.wait)
	}
}
