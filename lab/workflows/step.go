package workflows

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func step() experiment.Experiment {
	return experiment.Experiment{
		Name:  "compose/step",
		Title: "half, twice, half of what three tiers can do: together as good as the best alone",
		About: `The load of a chain of three tiers steps from half of the capacity of its last tier to twice as much and back. All
layers together against each alone. Recovered is when for the last time less than 95 % as many as came in three tenths
of a second were in time after the step down.`,
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			return runSteps(ctx, o, nil)
		},
	}
}

func retries() experiment.Experiment {
	return experiment.Experiment{
		Name:  "compose/retries",
		Title: "the same steps with clients that try again: no metastable state",
		About: `The steps of compose/step, with clients that repeat what was refused up to three times, without a budget worth the
name; then with clients who do so whatever they were told, and ignore credits, prices and levels. A control whose
overload feeds on retries stays down after the load has gone (Bronson et al., HotOS 2021).`,
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			return runSteps(ctx, o, []mesh.Group{
				{Name: "retrying", Retry: mesh.Retry{Max: 3, Budget: 1}},
				{Name: "flooding", Retry: mesh.Retry{Max: 3}, Flood: true},
			})
		},
	}
}

func runSteps(ctx context.Context, o experiment.Options, kinds []mesh.Group) (*experiment.Result, error) {
	up, down, length := 4*time.Second, 19*time.Second, 29*time.Second
	all := seeds(o, 3, 2)
	if o.Quick {
		up, down, length = 2*time.Second, 12*time.Second, 18*time.Second
	}
	controls := []mesh.Control{whole(), mesh.CreditsRates(), mesh.Rates(rates.Config{}), mesh.Credits(), mesh.Priorities(), mesh.Market(), mesh.Timeouts()}
	again := len(kinds) > 0
	if !again {
		kinds = []mesh.Group{{Name: "once"}}
	}
	var cells []cell
	for _, kind := range kinds {
		for _, c := range controls {
			for _, seed := range all {
				w := chain(seed, c, 3, []mesh.Change{{Rate: 0.5 * leafCapacity()}, {At: up, Rate: 2 * leafCapacity()}, {At: down, Rate: 0.5 * leafCapacity()}}, length)
				w.Groups[0].Retry, w.Groups[0].Flood = kind.Retry, kind.Flood
				w.RatesOf = []string{"a"}
				cells = append(cells, cell{name: named(c, seed, kind.Name), world: w})
			}
		}
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Steps, mean of the seeds; recovered is the longest", Columns: []table.Column{{Name: "clients"}, {Name: "control"},
		{Name: "in time before", Unit: "of offered", Format: "%.3f"}, {Name: "goodput", Unit: "of capacity", Format: "%.3f"}, {Name: "p99", Unit: "ms", Format: "%.0f"},
		{Name: "wasted", Unit: "of work", Format: "%.3f"}, {Name: "retries", Unit: "of offered", Format: "%.2f"}, {Name: "swing of the rate", Unit: "of mean", Format: "%.3f"},
		{Name: "recovered", Unit: "s", Format: "%.1f"}}}
	chart := &plot.Chart{Title: "Answers in time", X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "goodput", Unit: "of capacity"},
		Levels: []plot.Level{{Name: "twice the capacity", At: up.Seconds(), Vertical: true}, {Name: "half", At: down.Seconds(), Vertical: true}}}
	for a, kind := range kinds {
		goodput := make([]float64, len(controls))
		for b, c := range controls {
			var before, good, p99, wasted, tries, swing []float64
			var slowest, swings worst
			for k := range all {
				rep := &out[(a*len(controls)+b)*len(all)+k]
				calm, over := rep.Between(time.Second, up, 0), rep.Between(up+time.Second, down, 0)
				before = append(before, per(float64(calm.Good), float64(calm.Offered)))
				good = append(good, float64(over.Good)/(down-up-time.Second).Seconds()/leafCapacity())
				p99 = append(p99, milliseconds(over.Latency.Quantile(0.99)))
				wasted = append(wasted, over.WastedShare())
				tries = append(tries, per(float64(over.Retries), float64(over.Offered)))
				slowest.high(recovery(rep.Report, down, length-500*ms).Seconds())
				if len(rep.Rates) > 0 {
					rate := rateOf(rep.Report, "a", 0)
					third := rate[int((down-(down-up)/3)/(100*ms)):int(down/(100*ms))]
					swing = append(swing, spread(third))
					swings.high(spread(third))
				}
			}
			goodput[b] = mean(good)
			t.Add(kind.Name, c.Name, mean(before), mean(good), mean(p99), mean(wasted), mean(tries), mean(swing), slowest.get())
			if b == 0 {
				r.Ceiling("recovered after the step down, clients "+kind.Name, " s", 2, 0, slowest.get())
				if !again {
					r.Ceiling("swing of the rate at the entry, last third", " of the mean", 0.1, 0.02, swings.get())
				}
			}
			line := plot.Series{Name: c.Name}
			rep := &out[(a*len(controls)+b)*len(all)]
			const smooth = 5
			for k := 0; k+smooth <= len(rep.Bins); k += smooth {
				n := rep.Between(time.Duration(k)*rep.BinLength, time.Duration(k+smooth)*rep.BinLength, 0)
				line.X = append(line.X, float64(k)*rep.BinLength.Seconds())
				line.Y = append(line.Y, float64(n.Good)/(smooth*rep.BinLength.Seconds())/leafCapacity())
			}
			if a == 0 {
				chart.Series = append(chart.Series, line)
			}
		}
		best := 0.0
		for b := range controls {
			if b > 1 {
				best = max(best, goodput[b])
			}
		}
		r.Floor("goodput together, clients "+kind.Name, " of the best alone", 0.9, 0.01, per(goodput[0], best))
	}
	t.Note = "The bars are of " + controls[0].Name + ". The goodput is from one second after the step up on."
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}
