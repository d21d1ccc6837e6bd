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

func coldstart() experiment.Experiment {
	return experiment.Experiment{
		Name:  "admission/coldstart-live",
		Title: "100 slots that no gate is told, at 0.7x from the first instant, on real gRPC",
		About: `100 workers of 20 ms, exponential, are 5,000/s; the objective is 200 ms. 100 connections are made, and then
3,500/s begin at once. Counted is who is turned away from 1 s on, although there is room for all. Go peers measured
elsewhere still refused 46 to 68 % after 20 to 30 s.`,
		Live: true,
		Run:  runColdstart,
	}
}

func runColdstart(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	w := waits(200*ms, 100, 20*ms, times(0.7))
	w.Warmup, w.Length = second, 10*second
	repeats, rivals := 3, []string{"gradient2", "gradient2:1s", "vegas", "vegas:1s", "aimd"}
	if o.Quick {
		w.Length, repeats, rivals = 4*second, 2, rivals[:1]
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Turned away at 0.7 of the capacity", Columns: []table.Column{{Name: "policy"}, {Name: "seed"},
		{Name: "in the first second", Unit: "%", Format: "%.2f"}, {Name: "after it", Unit: "%", Format: "%.3f"},
		{Name: "not within the objective", Unit: "%", Format: "%.3f"}, {Name: "p99 served"}, {Name: "machine"}}}
	chart := &plot.Chart{Title: "Refused after a cold start", X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "refused", Unit: "% of offered"}}
	all := append(slices.Repeat([]string{ours}, repeats), rivals...)
	mine := &bed.Series{Policy: ours}
	for i, name := range all {
		o.Step(i, len(all), name)
		s := &bed.Series{Policy: name}
		if err := s.Play(ctx, w, o.Seed+uint64(i), retakes); err != nil {
			return nil, err
		}
		if i < repeats {
			mine.Reports = append(mine.Reports, s.Reports[0])
		}
		c := s.Reports[0]
		t.Add(name, int(c.Seed), 100*share(c, 0, second, refused), 100*share(c, second, w.Length, refused), 100*(1-share(c, second, w.Length, good)),
			c.Groups[0].P99.Round(ms), c.Void)
		x, y := line(c, func(b *world.Counts) float64 { return 100 * float64(refused(b)) / float64(max(b.Offered, 1)) })
		chart.Series = append(chart.Series, plot.Series{Name: fmt.Sprintf("%s, seed %d", name, c.Seed), X: x, Y: y})
	}
	o.Step(1, 1, "done")
	// A quiet run counts whatever disturbed the others.
	runs, disturbed := mine.Counted()
	worst := 0.0
	for _, c := range runs {
		worst = max(worst, share(c, second, w.Length, refused))
	}
	r.On(experiment.Machine{Ours: disturbed}, func() {
		r.Ceiling("refused after 1 s, the worst run", " %", 1, 0.5, 100*worst)
	})
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}

// retakes is how often a run that the machine disturbed is made again.
const retakes = 2

// refused counts all who got no answer, for whatever reason.
func refused(c *world.Counts) int { return c.Refused + c.Expired + c.Failed }

// share is between as a share of what was offered.
func share(r *world.Report, from, to time.Duration, f func(*world.Counts) int) float64 {
	return between(r, from, to, f) / max(between(r, from, to, func(c *world.Counts) int { return c.Offered }), 1)
}
