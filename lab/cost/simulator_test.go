package cost

import (
	"slices"
	"testing"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// Both worlds of a pair offer requests and handle events, all through a turn.
func TestTurnsAreOfWorldsThatGoOn(t *testing.T) {
	for _, build := range []func(uint64) (*timed, error){oneService, graphOf(20, 5)} {
		k, err := build(1)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := k.turn(); err != nil {
				t.Fatal(err)
			}
		}
		for _, list := range [][]float64{k.events, k.request, k.bareEvents, k.bareRequest} {
			if len(list) != 2 || !(slices.Min(list) > 0) || !(slices.Max(list) < 1e9) {
				t.Errorf("%s: two turns measured %v", k.name, list)
			}
		}
	}
}

// Turns beside others do not count if there are enough without; a miss in none but such says nothing.
func TestTheSimulatorIsJudged(t *testing.T) {
	many := func(n int, speed float64) []float64 { return slices.Repeat([]float64{speed}, n) }
	for _, c := range []struct {
		what          string
		events, quiet []float64
		measured      float64
		pass, void    bool
	}{
		{"fast, mostly disturbed", many(40, 3), many(10, 6), 6, true, false},
		{"slow, mostly disturbed", many(40, 3), many(10, 4), 4, false, false},
		{"slow and always disturbed", many(40, 3), many(9, 6), 3, false, true},
		{"fast and always disturbed", many(40, 6), nil, 6, true, false},
	} {
		k := timed{name: c.what, events: c.events, quiet: c.quiet, request: many(40, 1), bareEvents: many(40, 9), bareRequest: many(40, 1)}
		r := &experiment.Result{}
		k.judge(r, &table.Table{Columns: make([]table.Column, 7)})
		if b := r.Bars[0]; b.Measured != c.measured || b.Pass != c.pass || (b.Void != "") != c.void {
			t.Errorf("%s: measured %v, pass %v, void %q", c.what, b.Measured, b.Pass, b.Void)
		}
	}
}
