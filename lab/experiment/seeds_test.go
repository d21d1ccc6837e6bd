package experiment_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// judged runs an experiment that states a floor of 1 and a ceiling of 1, with what
// measured gives for a seed.
func judged(t *testing.T, o experiment.Options, measured func(seed uint64) (floor, ceiling float64)) *experiment.Result {
	t.Helper()
	e := experiment.Simulated(experiment.Experiment{Run: func(_ context.Context, o experiment.Options) (*experiment.Result, error) {
		r := &experiment.Result{Quick: o.Quick, Table: []*table.Table{{Title: "T"}}, Chart: []*plot.Chart{{Title: "C"}}}
		floor, ceiling := measured(o.Seed)
		r.Floor("floor", "", 1, 0, floor)
		r.Ceiling("ceiling", "", 1, 0, ceiling)
		return r, nil
	}})
	r, err := e[0].Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Seeds 7 to 11 measure floors of 2 3 0.5 4 5 and ceilings of 0 0.9 0 0 0: the floor is
// missed on seed 9, and the ceiling is nearest to being missed on seed 8.
func TestWorstOfSeedsCounts(t *testing.T) {
	floors := map[uint64]float64{7: 2, 8: 3, 9: 0.5, 10: 4, 11: 5}
	r := judged(t, experiment.Options{Seed: 7}, func(seed uint64) (float64, float64) {
		if seed == 8 {
			return floors[seed], 0.9
		}
		return floors[seed], 0
	})
	want := []experiment.Spread{{Worst: 9, Least: 0.5, Median: 3, Most: 5, Stated: 5}, {Worst: 8, Least: 0, Median: 0, Most: 0.9, Stated: 5}}
	for i, b := range r.Bars {
		if *b.Spread != want[i] {
			t.Errorf("%s: spread %+v, want %+v", b.Name, *b.Spread, want[i])
		}
	}
	if r.Bars[0].Measured != 0.5 || r.Bars[0].Pass || r.Bars[1].Measured != 0.9 || !r.Bars[1].Pass {
		t.Errorf("bars %+v, want the floor missed with 0.5 and the ceiling reached with 0.9", r.Bars)
	}
	if r.Seed != 7 || r.Seeds != 5 || r.Shown != 9 || r.Table[0].Title != "T, seed 9" || r.Chart[0].Title != "C, seed 9" {
		t.Errorf("seeds %d from %d, shown %d, %q, %q; want the tables of seed 9", r.Seeds, r.Seed, r.Shown, r.Table[0].Title, r.Chart[0].Title)
	}
	if text := r.BarTable().Text(120); !strings.Contains(text, "the worst of seeds 7 to 11") || !strings.Contains(text, "worst seed") {
		t.Errorf("the table of bars does not say that it is of seeds 7 to 11:\n%s", text)
	}
}

// What is no number is worse than any number, on a ceiling too, where it is written
// as −1.
func TestNoNumberIsTheWorst(t *testing.T) {
	r := judged(t, experiment.Options{Seed: 1}, func(seed uint64) (float64, float64) {
		if seed == 3 {
			return 1, math.NaN()
		}
		return 1, 50
	})
	if b := r.Bars[1]; b.Pass || b.Spread.Worst != 3 {
		t.Errorf("%+v, want seed 3 as the worst", b)
	}
}

func TestQuickFormHasOneSeed(t *testing.T) {
	var seeds []uint64
	r := judged(t, experiment.Options{Seed: 7, Quick: true}, func(seed uint64) (float64, float64) {
		seeds = append(seeds, seed)
		return 1, 1
	})
	if len(seeds) != 1 || seeds[0] != 7 || r.Seeds != 1 || r.Table[0].Title != "T" {
		t.Errorf("ran seeds %v, title %q; want seed 7 alone and the title as it was", seeds, r.Table[0].Title)
	}
	if text := r.BarTable().Text(120); !strings.Contains(text, "One seed; the full form judges the worst of 5") {
		t.Errorf("the table of bars does not say that this is one seed:\n%s", text)
	}
}

// A bar that only some seeds state is judged on those.
func TestBarOfSomeSeeds(t *testing.T) {
	e := experiment.Simulated(experiment.Experiment{Run: func(_ context.Context, o experiment.Options) (*experiment.Result, error) {
		r := &experiment.Result{}
		if o.Seed%2 == 0 {
			r.Floor("even", "", 1, 0, float64(o.Seed))
		}
		r.Floor("all", "", 1, 0, 1)
		return r, nil
	}})
	r, err := e[0].Run(context.Background(), experiment.Options{Seed: 1})
	if err != nil || len(r.Bars) != 2 {
		t.Fatalf("%+v, %v; want two bars", r, err)
	}
	if b := r.Bars[1]; b.Name != "even" || b.Measured != 2 || b.Spread.Stated != 2 || b.Spread.Most != 4 {
		t.Errorf("%+v, %+v; want the bar of seeds 2 and 4", b, b.Spread)
	}
}

// Cells of all seeds share the processors: never more run than Each would run for one
// seed, the progress counts all, and an error on one seed ends the others and names it.
func TestSeedsShareTheProcessors(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	run := func(fail uint64) (*experiment.Result, error, [2]int) {
		var last [2]int
		e := experiment.Simulated(experiment.Experiment{Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			cells := make([]int, 20)
			_, err := experiment.Each(ctx, o, cells, func(*int) (string, float64) { return "cell", 1 }, func(context.Context, *int) (int, error) {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				defer func() { mu.Lock(); running--; mu.Unlock() }()
				if o.Seed == fail {
					return 0, errors.New("broken")
				}
				return 0, nil
			})
			return &experiment.Result{}, err
		}})
		r, err := e[0].Run(context.Background(), experiment.Options{Seed: 1, Progress: func(done, of int, _ string) { last = [2]int{done, of} }})
		return r, err, last
	}
	if _, err, last := run(0); err != nil || last != [2]int{100, 100} {
		t.Errorf("progress %v, error %v; want 100 of 100", last, err)
	}
	if limit := runtime.GOMAXPROCS(0); most > limit {
		t.Errorf("%d cells ran at once, want at most %d", most, limit)
	}
	if _, err, _ := run(4); err == nil || !strings.Contains(err.Error(), "seed 4: cell: broken") {
		t.Errorf("error %v, want that of seed 4", err)
	}
}
