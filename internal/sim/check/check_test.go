package check_test

import (
	"flag"
	"testing"

	"github.com/spillgate/spillgate/internal/sim/check"
	"github.com/spillgate/spillgate/internal/sim/model"
)

var (
	seeds = flag.Int("seeds", 300, "how many random worlds TestSwarm runs")
	first = flag.Uint64("seed", 1, "the first seed of TestSwarm; with -seeds=1 a failure is repeated")
)

// TestSwarm runs random worlds with every invariant on.
func TestSwarm(t *testing.T) {
	good := 0
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		cfg, look := check.Random(seed)
		watch := check.New(look)
		cfg.Hooks = watch.Hooks()
		world, err := model.New(cfg)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for world.Step() && watch.Err() == nil {
		}
		report, err := world.Report()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := watch.Err(); err != nil {
			t.Errorf("seed %d: %v\n  repeat with: go test ./sim/check -run TestSwarm -seed %d -seeds 1", seed, err, seed)
			continue
		}
		all := report.Total
		inside := 0
		world.Clients(func(_ int, c model.ClientView) { inside += c.Inside })
		if ended := all.Good + all.Late + all.AllRefused() + all.Lost + all.Abandoned; all.Offered != ended+inside {
			t.Errorf("seed %d: %d requests offered, %d ended and %d inside", seed, all.Offered, ended, inside)
		}
		good += all.Good
	}
	if good == 0 {
		t.Error("no world gave a single good answer: nothing was tested")
	}
}
