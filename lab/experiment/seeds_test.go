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

// at is the seed number k, from 0, of a run that is given the seed first.
func at(first, k uint64) uint64 { return first + k*experiment.SeedStride }

// Five seeds measure floors of 2 3 0.5 4 5 and ceilings of 0 0.9 0 0 0: the floor is
// missed on the third, and the ceiling is nearest to being missed on the second.
func TestWorstOfSeedsCounts(t *testing.T) {
	floors := map[uint64]float64{7: 2, at(7, 1): 3, at(7, 2): 0.5, at(7, 3): 4, at(7, 4): 5}
	r := judged(t, experiment.Options{Seed: 7}, func(seed uint64) (float64, float64) {
		if seed == at(7, 1) {
			return floors[seed], 0.9
		}
		return floors[seed], 0
	})
	want := []experiment.Spread{{Worst: at(7, 2), Least: 0.5, Median: 3, Most: 5, Stated: 5}, {Worst: at(7, 1), Least: 0, Median: 0, Most: 0.9, Stated: 5}}
	for i, b := range r.Bars {
		if *b.Spread != want[i] {
			t.Errorf("%s: spread %+v, want %+v", b.Name, *b.Spread, want[i])
		}
	}
	if r.Bars[0].Measured != 0.5 || r.Bars[0].Pass || r.Bars[1].Measured != 0.9 || !r.Bars[1].Pass {
		t.Errorf("bars %+v, want the floor missed with 0.5 and the ceiling reached with 0.9", r.Bars)
	}
	if r.Seed != 7 || r.Seeds != 5 || r.Shown != at(7, 2) || r.Table[0].Title != "T, seed 2007" || r.Chart[0].Title != "C, seed 2007" {
		t.Errorf("seeds %d from %d, shown %d, %q, %q; want the tables of seed 2007", r.Seeds, r.Seed, r.Shown, r.Table[0].Title, r.Chart[0].Title)
	}
	if text := r.BarTable().Text(120); !strings.Contains(text, "the worst of 5 seeds, 7, 1007 … 4007") || !strings.Contains(text, "worst seed") {
		t.Errorf("the table of bars does not say of which seeds it is:\n%s", text)
	}
}

// An experiment that runs seeds of its own, from the one it is given on, shares none
// between two judgements.
func TestSeedsDoNotOverlap(t *testing.T) {
	var mu sync.Mutex
	ran := map[uint64]int{}
	judged(t, experiment.Options{Seed: 1}, func(seed uint64) (float64, float64) {
		mu.Lock()
		defer mu.Unlock()
		for own := range uint64(48) { // as many as d3g/dynamic has
			ran[seed+own]++
		}
		return 1, 1
	})
	if len(ran) != 5*48 {
		t.Errorf("%d different seeds, want 240", len(ran))
	}
}

// What is no number is worse than any number, on a ceiling too, where it is written
// as −1.
func TestNoNumberIsTheWorst(t *testing.T) {
	r := judged(t, experiment.Options{Seed: 1}, func(seed uint64) (float64, float64) {
		if seed == at(1, 2) {
			return 1, math.NaN()
		}
		return 1, 50
	})
	if b := r.Bars[1]; b.Pass || b.Spread.Worst != at(1, 2) {
		t.Errorf("%+v, want the third seed as the worst", b)
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
	if text := r.BarTable().Text(120); !strings.Contains(text, "In full: the worst of 5 seeds") {
		t.Errorf("the table of bars does not say that the full form has more seeds:\n%s", text)
	}
}

// A bar that only some seeds state is judged on those.
func TestBarOfSomeSeeds(t *testing.T) {
	e := experiment.Simulated(experiment.Experiment{Run: func(_ context.Context, o experiment.Options) (*experiment.Result, error) {
		r := &experiment.Result{}
		if k := (o.Seed - 1) / experiment.SeedStride; k%2 == 1 {
			r.Floor("odd", "", 1, 0, float64(k))
		}
		r.Floor("all", "", 1, 0, 1)
		return r, nil
	}})
	r, err := e[0].Run(context.Background(), experiment.Options{Seed: 1})
	if err != nil || len(r.Bars) != 2 {
		t.Fatalf("%+v, %v; want two bars", r, err)
	}
	if b := r.Bars[1]; b.Name != "odd" || b.Measured != 1 || b.Spread.Stated != 2 || b.Spread.Most != 3 {
		t.Errorf("%+v, %+v; want the bar of the second and the fourth seed", b, b.Spread)
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
	if _, err, _ := run(at(1, 3)); err == nil || !strings.Contains(err.Error(), "seed 3001: cell: broken") {
		t.Errorf("error %v, want that of seed 3001", err)
	}
}
