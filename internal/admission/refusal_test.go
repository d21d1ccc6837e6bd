package admission

import (
	"testing"
	"time"
)

// TestRefusalsThatCostLittle: handlers of 100 µs on the only core. A refusal of 250 µs, as over gRPC, is worth no request that it
// makes room for; of one of 10 µs some are, and the more the cheaper they are.
func TestRefusalsThatCostLittle(t *testing.T) {
	g, err := New(Config{Objective: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		g.OnBusy(20*time.Millisecond, 20*time.Millisecond, 1, 0)
	}
	if g.limit.Useful() != 1 {
		t.Fatalf("%d useful slots, want 1: the core is busy", g.limit.Useful())
	}
	g.pace.gap.value = float64(100 * time.Microsecond)
	g.worth.strict = time.Millisecond
	if got := g.tolerated(); got != 0 {
		t.Errorf("with refusals as over gRPC %v of the arrivals may be refused, want none", got)
	}
	before := 0.0
	for _, cost := range []time.Duration{20 * time.Microsecond, 10 * time.Microsecond, 5 * time.Microsecond} {
		g.SetRefusal(cost)
		got := g.tolerated()
		if got <= before || got > 0.5 {
			t.Errorf("with refusals of %v %v of the arrivals may be refused, want more than %v and at most half", cost, got, before)
		}
		before = got
	}
}

// TestCheapRefusalsAreNoShortage: 5,000 refusals/s of 100 µs, as over gRPC, are half of the time of a core, of 10 µs a
// twentieth. What the process uses beside them is its work.
func TestCheapRefusalsAreNoShortage(t *testing.T) {
	for _, test := range []struct {
		cost time.Duration
		busy bool
	}{{0, false}, {10 * time.Microsecond, true}} {
		g, err := New(Config{Objective: 2 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		g.SetRefusal(test.cost)
		for range 40 {
			g.cpu.turned = 100
			g.OnBusy(18*time.Millisecond, 20*time.Millisecond, 1, 0)
		}
		if got := g.limit.Useful() > 0; got != test.busy {
			t.Errorf("refusals of %v: short of processors %v, want %v", test.cost, got, test.busy)
		}
	}
}
