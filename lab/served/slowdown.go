package served

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/arena"
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

func slowSetting() arena.Setting {
	return arena.Setting{Name: "sleep", Station: "sleep", Slots: 40, Mean: 10 * time.Millisecond, Objective: 200 * time.Millisecond}
}

func runSlowdown(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	s := slowSetting()
	slow, hold, settle, repeats := 5*time.Second, 10*time.Second, 5*time.Second, 2
	hand := []string{semaphore, "semaphore/short", "semaphore/shortest", "semaphore/half", "fifo"}
	rivals := []string{"gradient2", "gradient2/1s", "vegas", "vegas/1s", "aimd", "codel"}
	if o.Quick {
		slow, hold, settle, repeats = 1500*time.Millisecond, 4*time.Second, 2500*time.Millisecond, 1
		hand, rivals = []string{"semaphore/shortest", "fifo"}, nil
	}
	fast := slow + hold
	length := fast + hold
	rate := 0.8 * float64(s.Slots) / s.Mean.Seconds()

	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Goodput after each change, medians", Columns: []table.Column{{Name: "policy"}, {Name: "fast at first", Unit: "/s"},
		{Name: "4x slower", Unit: "/s"}, {Name: "of the best hand-set", Format: "%.3f"}, {Name: "fast again", Unit: "/s"}, {Name: "of the best hand-set", Format: "%.3f"}, {Name: "p99 slow"}}}
	chart := &plot.Chart{Title: "Goodput through a slowdown", X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "goodput", Unit: "requests/s"},
		Spans: []plot.Span{{Name: "4 times slower", From: slow.Seconds(), To: fast.Seconds()}}}

	var machine experiment.Machine
	type phases struct{ first, slow, again []float64 }
	names := append(append([]string{ours}, hand...), rivals...)
	found, p99 := make([]phases, len(names)), make([]time.Duration, len(names))
	for n := range repeats * len(names) {
		i := n % len(names) // interleaved
		step(o, n, repeats*len(names), names[i])
		got, void, err := measured(ctx, arena.Job{Controller: names[i], Setting: s, Seed: o.Seed + uint64(n/len(names)),
			Profile: openloop.Steady(rate, length), From: slow,
			Changes: []arena.Change{{At: slow, Slowness: 4}, {At: fast, Slowness: 1}}})
		if err != nil {
			return nil, err
		}
		if void != "" {
			why := fmt.Sprintf("%s: %s", names[i], void)
			switch {
			case i == 0:
				machine.Ours = append(machine.Ours, why)
			case i <= len(hand):
				machine.Theirs = append(machine.Theirs, why)
			default:
				r.Notes = append(r.Notes, "Disturbed, and in no bar: "+why)
			}
		}
		goodput := func(from, to time.Duration) float64 {
			return between(got.Result.Windows, from, to, good) / (to - from).Seconds()
		}
		p := &found[i]
		p.first = append(p.first, goodput(slow/2, slow))
		p.slow = append(p.slow, goodput(slow+settle, fast))
		p.again = append(p.again, goodput(fast+settle, length))
		for _, w := range got.Result.Windows {
			if w.From >= slow+settle && w.To <= fast {
				p99[i] = max(p99[i], w.Latency.P99)
			}
		}
		if n < len(names) {
			chart.Series = append(chart.Series, goodputLine(names[i], got.Result.Windows))
		}
	}
	step(o, 1, 1, "done")
	bestSlow, bestAgain := 0.0, 0.0
	for i := range hand {
		bestSlow = max(bestSlow, median(found[1+i].slow))
		bestAgain = max(bestAgain, median(found[1+i].again))
	}
	for i, name := range names {
		p := found[i]
		t.Add(name, median(p.first), median(p.slow), median(p.slow)/bestSlow, median(p.again), median(p.again)/bestAgain, p99[i].Round(time.Millisecond))
	}
	r.On(machine, func() {
		r.Floor(fmt.Sprintf("goodput from %v after the slowdown", settle), " of the best hand-set", 0.9, 0.05, median(found[0].slow)/bestSlow)
		r.Floor(fmt.Sprintf("goodput from %v after recovery", settle), " of the best hand-set", 0.9, 0.05, median(found[0].again)/bestAgain)
	})
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}

func goodputLine(name string, windows []measure.Span) plot.Series {
	line := plot.Series{Name: name}
	for _, w := range windows {
		line.X = append(line.X, w.To.Seconds())
		line.Y = append(line.Y, w.Goodput)
	}
	return line
}

// median of a list that is not empty; of an even number the lower one.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[(len(list)-1)/2]
}
