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

func coldstart() experiment.Experiment {
	return experiment.Experiment{
		Name:  "admission/coldstart-live",
		Title: "100 slots that nobody was told of, at 0.7x from the first instant, on real gRPC",
		About: `100 workers of 20 ms, exponential, are 5,000/s; the objective is 200 ms. 100 connections are made, and then
3,500/s begin at once. Counted is who is turned away from 1 s on, although there is room for all. Go peers measured
elsewhere still refused 46 to 68 % after 20 to 30 s.`,
		Live: true,
		Run:  runColdstart,
	}
}

func coldSetting() arena.Setting {
	return arena.Setting{Name: "sleep", Station: "sleep", Slots: 100, Mean: 20 * time.Millisecond, Objective: 200 * time.Millisecond}
}

func runColdstart(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	s := coldSetting()
	length, repeats := 10*time.Second, 3
	rivals := []string{"gradient2", "gradient2/1s", "vegas", "vegas/1s", "aimd"}
	if o.Quick {
		length, repeats, rivals = 4*time.Second, 2, rivals[:1]
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Turned away at 0.7 of the capacity", Columns: []table.Column{{Name: "policy"}, {Name: "run"},
		{Name: "in the first second", Unit: "%", Format: "%.2f"}, {Name: "after it", Unit: "%", Format: "%.3f"},
		{Name: "not within the objective", Unit: "%", Format: "%.3f"}, {Name: "p99 served"}, {Name: "lag p99"}}}
	chart := &plot.Chart{Title: "Refused after a cold start", X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "refused", Unit: "% of offered"}}

	jobs := repeats + len(rivals)
	var quiet, all []float64 // refused after the first second
	var disturbed []string
	for i := range jobs {
		name := ours
		if i >= repeats {
			name = rivals[i-repeats]
		}
		step(o, i, jobs, name)
		got, void, err := measured(ctx, arena.Job{Controller: name, Setting: s, From: time.Second, Cold: true, Seed: o.Seed + uint64(i),
			Profile: openloop.Steady(0.7*float64(s.Slots)/s.Mean.Seconds(), length)})
		if err != nil {
			return nil, err
		}
		first := share(got.Result.Windows, 0, time.Second, refused)
		after := share(got.Result.Windows, time.Second, length, refused)
		t.Add(name, i+1, 100*first, 100*after, 100*(1-got.Counted.Attainment), got.Counted.Latency.P99.Round(time.Millisecond), got.Result.SendLag.P99.Round(10*time.Microsecond))
		line := plot.Series{Name: fmt.Sprintf("%s, run %d", name, i+1)}
		for _, w := range got.Result.Windows {
			if w.Offered > 0 {
				line.X = append(line.X, w.To.Seconds())
				line.Y = append(line.Y, 100*float64(w.Refused)/float64(w.Offered))
			}
		}
		chart.Series = append(chart.Series, line)
		if name != ours {
			continue
		}
		if void == "" {
			quiet = append(quiet, after)
		} else {
			disturbed = append(disturbed, fmt.Sprintf("run %d: %s", i+1, void))
		}
		all = append(all, after)
	}
	step(o, jobs, jobs, "done")
	// A quiet run counts whatever disturbed the others.
	if len(quiet) > 0 {
		r.Void = append(r.Void, disturbed...)
		all, disturbed = quiet, nil
	}
	r.On(experiment.Machine{Ours: disturbed}, func() {
		r.Ceiling("refused after 1 s, the worst run", " %", 1, 0.5, 100*slices.Max(all))
	})
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}

// refused counts all who got no answer, for whatever reason.
func refused(w *measure.Span) float64 {
	return float64(w.Refused + w.TimedOut + w.Failed + w.NotSent)
}

func good(w *measure.Span) float64 { return float64(w.Good) }

// between adds up what f says of the windows from one instant to another.
func between(windows []measure.Span, from, to time.Duration, f func(*measure.Span) float64) float64 {
	total := 0.0
	for i := range windows {
		if w := &windows[i]; w.From >= from && w.To <= to {
			total += f(w)
		}
	}
	return total
}

// share is between as a share of the offered requests.
func share(windows []measure.Span, from, to time.Duration, f func(*measure.Span) float64) float64 {
	offered := between(windows, from, to, func(w *measure.Span) float64 { return float64(w.Offered) })
	return between(windows, from, to, f) / max(offered, 1)
}

// retakes is how often a run that the machine disturbed is made again.
const retakes = 2

// measured makes a run, again if the machine disturbed it, and says why it does
// not count if it never was quiet enough.
func measured(ctx context.Context, j arena.Job) (got arena.Measured, void string, err error) {
	for range 1 + retakes {
		arena.AwaitQuiet(ctx, time.Second)
		got, err = arena.Measure(ctx, j)
		if err != nil || got.Result.Valid {
			return got, "", err
		}
		void = got.Result.Invalid[0]
	}
	return got, void, nil
}

func step(o experiment.Options, done, of int, what string) {
	if o.Progress != nil {
		o.Progress(done, of, what)
	}
}
