package check_test

import (
	"flag"
	"testing"

	"github.com/spillgate/spillgate/internal/sim/check"
)

var (
	seeds = flag.Int("seeds", 100, "how many random worlds TestSwarm runs")
	first = flag.Uint64("seed", 1, "the first seed of TestSwarm; with -seeds=1 a failure is repeated")
)

// TestSwarm runs random worlds with every invariant on.
func TestSwarm(t *testing.T) {
	good := 0
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		w, watch, err := check.Random(seed).Start()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for w.Step() && watch.Err() == nil {
		}
		if _, err := w.Report(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := watch.Err(); err != nil {
			t.Errorf("seed %d: %v\n  repeat with: go test ./internal/sim/check -run TestSwarm -seed %d -seeds 1", seed, err, seed)
			continue
		}
		offered, ended := 0, 0
		for _, g := range w.Measured().Groups {
			offered += g.Offered
			ended += g.Good + g.Late + g.Refused + g.Expired + g.Failed
			good += g.Good
		}
		if offered != ended+w.Inside() {
			t.Errorf("seed %d: %d requests offered, %d ended and %d inside", seed, offered, ended, w.Inside())
		}
	}
	if good == 0 {
		t.Error("no world gave a single good answer: nothing was tested")
	}
}
