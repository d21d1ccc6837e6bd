package place

import (
	"strings"
	"testing"
)

// A shift takes as many of each group, no more than it may, and what is planned later does
// not bring back what was moved, until the node has recovered.
func TestShift(t *testing.T) {
	s := cluster(t, 60_000, 60_000)
	wide := limits(10_000)
	wide.Objective = 1
	must(t, s.SetTopic("t", wide))
	must(t, s.Join("t", joins(0, 1000, 40)...))
	parts, _, err := s.Parts("t")
	must(t, err)
	from, to := parts[0].Node, "n1"
	if from == to {
		to = "n2"
	}
	if moved := s.Shift("t", from, to, 2500, "it is slow"); moved != 2500 {
		t.Errorf("%v moved, want 2500", moved)
	}
	sound(t, s)
	groups := map[string]int{}
	for _, p := range s.Topics["t"].Publishers {
		if p.Node == to {
			groups[p.Group]++
		}
	}
	for g, n := range groups {
		if n != 10 {
			t.Errorf("%d of 40 of %s moved, want 10", n, g)
		}
	}
	if last := s.Moves[len(s.Moves)-1]; len(s.Moves) != 250 || last.Why != "it is slow" || last.From != from || last.To != to {
		t.Errorf("%d moves, the last %+v", len(s.Moves), last)
	}
	must(t, s.SetTopic("t", wide))
	sound(t, s) // which knows what was measured
	if n := s.Nodes[from]; n.Measured != 7500 || n.Condition() != "measured: 7500/s" {
		t.Errorf("the node is %+v (%s)", n, n.Condition())
	}
	must(t, s.Recovered(from))
	if n := s.Nodes[from]; n.usable() != 60_000 {
		t.Errorf("recovered, it may be given %v", n.usable())
	}
	for _, none := range []float64{s.Shift("u", from, to, 100, ""), s.Shift("t", "n9", to, 100, ""), s.Shift("t", from, "n9", 100, ""), s.Shift("t", from, to, 5, "")} {
		if none != 0 {
			t.Errorf("%v moved, want 0", none)
		}
	}
}

// From a node that is down everything moves, and the moves say why.
func TestDown(t *testing.T) {
	s := cluster(t, 60_000, 60_000)
	must(t, s.SetTopic("t", limits(10_000)))
	must(t, s.Join("t", joins(0, 1000, 0)...))
	from := s.Topics["t"].Publishers["p00000"].Node
	must(t, s.SetDown(from, true))
	sound(t, s)
	if n := len(s.Moves); n != 1000 || !strings.Contains(s.Moves[0].Why, "silent") || s.Nodes[from].Condition() != "down" {
		t.Errorf("%d moves, the first %+v", n, s.Moves[0])
	}
	must(t, s.SetDown(from, false))
	sound(t, s)
	if s.SetDown("n9", true) == nil {
		t.Error("a node that does not exist is down")
	}
}
