package admissionlive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

func slowdown() experiment.Experiment {
	return experiment.Experiment{
		Name:  "admission/slowdown-live",
		Title: "a real gRPC server that becomes 4 times slower, and fast again, beside limits set by hand",
		About: `40 workers of 10 ms, exponential, are 4,000/s; the objective is 200 ms. 3,200/s are offered: 0.8 of the
capacity while the server is fast, 3.2 times of it while it is 4 times slower, which is for 10 s. Goodput is
counted from 5 s after each change for 5 s and compared with the best that fixed limits, told the number of
workers, reach in the same phase of the same run, each phase on its own. The quick form keeps each speed for 4 s and counts
from 2.5 s after a change for 1.5 s.`,
		Live: true,
		Run:  runSlowdown,
	}
}

func runSlowdown(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	slow, hold, settle, repeats := 5*second, 10*second, 5*second, 2
	hand := []string{"semaphore:40:400", "semaphore:40:160", "semaphore:40:80", "semaphore:20:400", "fifo"}
	rivals := []string{"gradient2", "gradient2:1s", "vegas", "vegas:1s", "aimd", "codel"}
	if o.Quick {
		slow, hold, settle, repeats = 1500*ms, 4*second, 2500*ms, 1
		hand, rivals = []string{"semaphore:40:80", "fifo"}, nil
	}
	fast := slow + hold
	w := waits(200*ms, 40, 10*ms, times(0.8))
	w.Warmup, w.Length = slow, fast+hold
	w.Faults = []world.Fault{{At: slow, For: hold, Service: "station", Slower: 4}}
	phase := func(from, to time.Duration) func(*world.Report) float64 {
		return func(r *world.Report) float64 { return between(r, from, to, good) / (to - from).Seconds() }
	}
	first, slowly, again := phase(slow/2, slow), phase(slow+settle, fast), phase(fast+settle, w.Length)

	chart := &plot.Chart{Title: "Goodput through a slowdown", X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "goodput", Unit: "requests/s"},
		Spans: []plot.Span{{Name: "4 times slower", From: slow.Seconds(), To: fast.Seconds()}}}
	var all []*bed.Series
	for _, name := range slices.Concat([]string{ours}, hand, rivals) {
		all = append(all, &bed.Series{Policy: name})
	}
	for n := range repeats * len(all) {
		s := all[n%len(all)] // interleaved
		o.Step(n, repeats*len(all), s.Policy)
		if err := s.Play(ctx, w, o.Seed+uint64(n/len(all)), retakes); err != nil {
			return nil, err
		}
		if n < len(all) {
			x, y := line(s.Reports[0], func(b *world.Counts) float64 { return float64(b.Good) / s.Reports[0].Bin.Seconds() })
			chart.Series = append(chart.Series, plot.Series{Name: s.Policy, X: x, Y: y})
		}
	}
	o.Step(1, 1, "done")
	bestSlow, bestAgain := 0.0, 0.0
	machine := experiment.Machine{Ours: all[0].Disturbed()}
	for _, s := range all[1 : 1+len(hand)] {
		bestSlow, bestAgain = max(bestSlow, bed.Median(s.Reports, slowly)), max(bestAgain, bed.Median(s.Reports, again))
		machine.Theirs = append(machine.Theirs, s.Disturbed()...)
	}
	t := &table.Table{Title: "Goodput after each change, medians", Columns: []table.Column{{Name: "policy"}, {Name: "fast at first", Unit: "/s"},
		{Name: "4x slower", Unit: "/s"}, {Name: "of the best hand-set", Format: "%.3f"}, {Name: "fast again", Unit: "/s"}, {Name: "of the best hand-set", Format: "%.3f"}, {Name: "p99 from then on"}, {Name: "disturbed runs"}}}
	for _, s := range all {
		p99 := func(r *world.Report) float64 { return float64(r.Groups[0].P99) }
		slowly, again := bed.Median(s.Reports, slowly), bed.Median(s.Reports, again)
		t.Add(s.Policy, bed.Median(s.Reports, first), slowly, slowly/bestSlow, again, again/bestAgain, time.Duration(bed.Median(s.Reports, p99)).Round(ms), len(s.Disturbed()))
	}
	r := &experiment.Result{Quick: o.Quick, Table: []*table.Table{t}, Chart: []*plot.Chart{chart}}
	r.On(machine, func() {
		r.Floor(fmt.Sprintf("goodput from %v after the slowdown", settle), " of the best hand-set", 0.9, 0.05, bed.Median(all[0].Reports, slowly)/bestSlow)
		r.Floor(fmt.Sprintf("goodput from %v after recovery", settle), " of the best hand-set", 0.9, 0.05, bed.Median(all[0].Reports, again)/bestAgain)
	})
	return r, nil
}
