package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Seeds is how many seeds the full form of a simulated experiment judges: with five,
// a bar that chance alone misses on one seed in five is missed in two runs of three.
// The quick form has one, because it must end within 45 s.
const Seeds = 5

// SeedStride lies between two of these seeds: experiments may use a few consecutive
// seeds of their own from the one they are given, up to 48 today, and runs that two
// judgements shared would make the spread look smaller than it is.
const SeedStride = 1000

// seedAt returns the seed number k, from 0, of a run that is given the seed first.
func seedAt(first uint64, k int) uint64 { return first + uint64(k)*SeedStride }

// Spread is what the seeds of an experiment measured for one bar.
type Spread struct {
	// Worst is the seed that the bar's Measured is of, the first of equals.
	Worst uint64 `json:"worst_seed"`
	// Least, Median and Most are of the seeds that stated the bar, the lower median
	// of an even number.
	Least  float64 `json:"least"`
	Median float64 `json:"median"`
	Most   float64 `json:"most"`
	// Stated is how many seeds stated the bar: some bars ask for a case that does
	// not occur on every seed.
	Stated int `json:"stated"`
}

// Simulated returns the experiments such that each is judged on several seeds: Run of
// those given makes one seed, Run of those returned makes all of them, side by side on
// all processors, and counts the worst of every bar.
func Simulated(list ...Experiment) []Experiment {
	for i, e := range list {
		list[i].Run = func(ctx context.Context, o Options) (*Result, error) {
			return onSeeds(ctx, o, e.Run)
		}
	}
	return list
}

// onSeeds runs one on the seeds of the form and returns the worst of them.
func onSeeds(ctx context.Context, o Options, one func(context.Context, Options) (*Result, error)) (*Result, error) {
	n := Seeds
	if o.Quick {
		n = 1
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.crew = newCrew(o.Progress)
	results, errs := make([]*Result, n), make([]error, n)
	var wait sync.WaitGroup
	for k := range n {
		mine := o
		mine.Seed = seedAt(o.Seed, k)
		wait.Go(func() {
			r, err := one(ctx, mine)
			if err != nil {
				errs[k] = err
				cancel() // the others need not go on
				return
			}
			r.Seed = mine.Seed
			results[k] = r
		})
	}
	wait.Wait()
	for k, err := range errs {
		// What the first error stopped says only that it was stopped.
		if err != nil && !errors.Is(err, context.Canceled) && n > 1 {
			return nil, fmt.Errorf("seed %d: %w", seedAt(o.Seed, k), err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return worstOf(results), nil
}

// worstOf returns one result of those of several seeds: the worst of every bar, and the
// tables, charts and notes of the seed that did worst.
func worstOf(results []*Result) *Result {
	bars, at := merge(results)
	shown := results[at]
	r := *shown
	r.Seed, r.Seeds, r.Shown, r.Bars = results[0].Seed, len(results), shown.Seed, bars
	if len(results) == 1 {
		return &r
	}
	for _, t := range r.Table {
		t.Title += fmt.Sprintf(", seed %d", r.Shown)
	}
	for _, c := range r.Chart {
		c.Title += fmt.Sprintf(", seed %d", r.Shown)
	}
	r.Notes = append(r.Notes, fmt.Sprintf("The tables are of seed %d, which missed the most bars or, among equals, was the worst in the most.", r.Shown))
	return &r
}

// barKey tells bars apart: a name may come with two units.
type barKey struct {
	name, unit string
	atMost     bool
}

// merge returns the worst of every bar, in the order in which they were first stated, and
// the index of the result that missed the most bars, of equals the one that is the
// worst in the most.
func merge(results []*Result) (bars []Bar, shown int) {
	type stated struct {
		bar Bar
		of  int
	}
	var order []barKey
	all := map[barKey][]stated{}
	for k, r := range results {
		for _, b := range r.Bars {
			key := barKey{b.Name, b.Unit, b.AtMost}
			if all[key] == nil {
				order = append(order, key)
			}
			all[key] = append(all[key], stated{b, k})
		}
	}
	missed, worst := make([]int, len(results)), make([]int, len(results))
	for _, key := range order {
		at := 0
		var values []float64
		for i, s := range all[key] {
			values = append(values, s.bar.Measured)
			if !s.bar.Pass {
				missed[s.of]++
			}
			if worse(s.bar, all[key][at].bar) {
				at = i
			}
		}
		slices.Sort(values)
		b := all[key][at].bar
		worst[all[key][at].of]++
		if len(results) > 1 {
			b.Spread = &Spread{Worst: results[all[key][at].of].Seed, Least: values[0], Median: values[(len(values)-1)/2], Most: values[len(values)-1], Stated: len(values)}
		}
		bars = append(bars, b)
	}
	for k := range results {
		if missed[k] > missed[shown] || missed[k] == missed[shown] && worst[k] > worst[shown] {
			shown = k
		}
	}
	return bars, shown
}

// worse reports whether a is farther from what it should be than b. What was no number
// is the worst.
func worse(a, b Bar) bool {
	lacks := func(b Bar) float64 {
		lack := b.Threshold - b.Measured
		if b.AtMost {
			lack = -lack
		}
		if !b.Pass && lack <= b.Tolerance {
			return math.Inf(1) // it passes as a number, so it was none
		}
		return lack
	}
	return lacks(a) > lacks(b)
}
