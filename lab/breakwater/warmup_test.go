package breakwater

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

// Whichever experiment asks, SEDA and Protego have their cold start behind them, and
// every policy is measured for the same time.
func TestPoliciesAreMeasuredForTheSameTimeAtTheirLevel(t *testing.T) {
	const warmup, length = 50 * time.Millisecond, 150 * time.Millisecond
	slow := map[string]bool{"seda": true, "protego": true}
	seen := 0
	for _, p := range append(contenders.Peers(setting()), contenders.Spillgate(setting())) {
		c := testbed(1, p, worlds.Exponential, clients, 1, warmup, length)
		if got := c.World.Length - c.World.Warmup; got != length-warmup {
			t.Errorf("%s is measured for %v, want %v", p.Name, got, length-warmup)
		}
		want := warmup
		if slow[p.Name] {
			want += slowStart
			seen++
		}
		if c.World.Warmup != want {
			t.Errorf("%s has %v to warm up, want %v", p.Name, c.World.Warmup, want)
		}
	}
	if seen != len(slow) {
		t.Errorf("%d of the policies that start slowly take part, want %d", seen, len(slow))
	}
}

// What SEDA reaches at 1.2 times the capacity after its warm-up is its level: as much again
// changes less than a tenth, and without it the figure would be of its cold start.
func TestSlowStartEndsTheColdStart(t *testing.T) {
	goodput := func(more time.Duration) float64 {
		c := testbed(1, contenders.SEDA(setting()), worlds.Exponential, clients, 1.2, 50*time.Millisecond, 150*time.Millisecond)
		c.World.Warmup, c.World.Length = c.World.Warmup+more, c.World.Length+more
		reports, err := experiment.Run(context.Background(), experiment.Options{}, []experiment.Cell{c})
		if err != nil {
			t.Fatal(err)
		}
		return reports[0].Goodput() / capacity()
	}
	cold, level, later := goodput(-slowStart), goodput(0), goodput(slowStart)
	t.Logf("cold %.3f, after the warm-up %.3f, after as much again %.3f", cold, level, later)
	if cold > 0.8*level {
		t.Errorf("goodput %.3f without and %.3f with the slow start: expected less without, else nothing needs it", cold, level)
	}
	if later > 1.1*level || later < 0.9*level {
		t.Errorf("goodput %.3f after the warm-up and %.3f after as much again, expected within a tenth", level, later)
	}
}
