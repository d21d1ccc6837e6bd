package breakwater

import (
	"context"
	"errors"
	"testing"

	"github.com/spillgate/spillgate/lab/experiment"
)

// TestAblationQuick runs the shortest experiment: it has bars, reaches them, and
// gives the same numbers again.
func TestAblationQuick(t *testing.T) {
	run := func() *experiment.Result {
		r, err := ablation().Run(context.Background(), experiment.Options{Seed: 1, Quick: true})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := run(), run()
	for _, bar := range a.Short() {
		t.Error(bar)
	}
	if len(a.Bars) == 0 || len(a.Bars) != len(b.Bars) {
		t.Fatalf("%d and %d bars", len(a.Bars), len(b.Bars))
	}
	for i := range a.Bars {
		if a.Bars[i] != b.Bars[i] {
			t.Errorf("the same seed gave %v and %v", a.Bars[i], b.Bars[i])
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := spike().Run(ctx, experiment.Options{Quick: true}); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, expected no result and the context's error", r, err)
	}
}
