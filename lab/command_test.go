package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/lab/experiment"
)

// Every experiment says what it is, has a name of its own, and the simulated ones end with
// their context.
func TestExperiments(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	seen := map[string]bool{}
	for _, e := range Experiments() {
		if e.Name == "" || seen[e.Name] || e.Title == "" || e.About == "" || e.Run == nil || strings.HasSuffix(e.Name, "-live") && !e.Live {
			t.Errorf("%q is not complete, or comes twice", e.Name)
			continue
		}
		seen[e.Name] = true
		if e.Live {
			continue
		}
		if r, err := e.Run(ended, experiment.Options{Quick: true}); r != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, %v, expected no result and the context's error", e.Name, r, err)
		}
	}
}

// The shortest experiments of three kinds reach their bars, and the same seed gives the same
// figures.
func TestRepeated(t *testing.T) {
	for _, name := range []string{"admission/coldstart", "wisp/slack", "atropos/sim-c1"} {
		e, ok := find(name)
		if !ok {
			t.Fatalf("no experiment %s", name)
		}
		var bars [2][]experiment.Bar
		for i := range bars {
			r, err := e.Run(t.Context(), experiment.Options{Seed: 1, Quick: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, bar := range r.Short() {
				t.Errorf("%s: %v", name, bar)
			}
			bars[i] = r.Bars
		}
		if len(bars[0]) == 0 || !slices.Equal(bars[0], bars[1]) {
			t.Errorf("%s: the same seed gave %v and %v", name, bars[0], bars[1])
		}
	}
}
