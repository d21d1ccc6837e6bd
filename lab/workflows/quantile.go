package workflows

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func quantile() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wisp/quantile",
		Title: "the smallest, the median and the largest of the rates announced (Wisp, figure 10)",
		About: `180 clients in a closed loop read ten blocks a request, one after another; a lighter workflow shares the extent
nodes. The rates of all processes of a tier are summed over time. Figure 10: with the smallest rate the entry starves the
extent nodes, with the largest the rates swing, with the median they are steady.`,
		Run: runQuantile,
	}
}

func quantileWorld(seed uint64, q float64, length time.Duration) mesh.Config {
	exp := func(d time.Duration) mesh.Step { return mesh.Work(mesh.Exp(d)) }
	flow := func(name string, blocks int, d time.Duration) mesh.Workflow {
		return mesh.Workflow{Name: name, Root: mesh.Stage{Service: "FE", Steps: []mesh.Step{
			mesh.Each(mesh.One("AUTH", exp(ms))),
			mesh.Each(mesh.One("PS", exp(2*ms), mesh.Each(mesh.One("EN", exp(d)).Times(blocks, blocks)))),
		}}}
	}
	if q == 0 {
		q = -1
	}
	return mesh.Config{Seed: seed, Services: mesh.Storage(4), Control: mesh.Rates(rates.Config{Quantile: q}), Length: length, Bin: 100 * ms, RatesOf: []string{"FE", "PS", "EN"},
		Workflows: []mesh.Workflow{flow("scan", 10, 5*ms), flow("light", 2, 5*ms)},
		Groups: []mesh.Group{
			{Name: "scan", Mix: []mesh.Part{{Workflow: "scan", Weight: 1}}, Load: mesh.Closed(180, 100*ms)},
			{Name: "light", Mix: []mesh.Part{{Workflow: "light", Weight: 1}}, Load: mesh.Constant(200)},
		}}
}

func runQuantile(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	length := 120 * time.Second
	if o.Quick {
		length = 60 * time.Second
	}
	quantiles, all := []float64{0, 0.5, 1}, seeds(o, 3, 2)
	var cells []cell
	for _, q := range quantiles {
		for _, seed := range all {
			cells = append(cells, cell{name: fmt.Sprintf("q = %v, seed %d", q, seed), world: quantileWorld(seed, q, length)})
		}
	}
	out, err := runCells(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Scans by quantile, last third", Columns: []table.Column{{Name: "run"}, {Name: "scans", Unit: "/s", Format: "%.1f"},
		{Name: "refused at FE", Unit: "/s", Format: "%.1f"}, {Name: "refused below", Unit: "/s", Format: "%.2f"}, {Name: "use of EN", Format: "%.3f"},
		{Name: "rates at FE", Unit: "/s", Format: "%.0f"}, {Name: "swing at FE", Unit: "of mean", Format: "%.3f"},
		{Name: "swing at PS", Unit: "of mean", Format: "%.3f"}, {Name: "swing at EN", Unit: "of mean", Format: "%.3f"}, {Name: "light in 100 ms", Unit: "of offered", Format: "%.3f"}}}
	scans := make([][]float64, len(quantiles))
	swings := make([][]float64, len(quantiles))
	for i := range cells {
		rep := &out[i]
		last := rep.Between(length*2/3, length, 0)
		seconds := length.Seconds() / 3
		rate := float64(last.Good) / seconds
		third := func(service string) []float64 {
			x := everySecond(rateOf(rep.Report, service, 0))
			return x[len(x)*2/3:]
		}
		front := third("FE")
		light := rep.Between(length*2/3, length-time.Second, 1)
		below := sheds(&rep.Services[2]) + sheds(&rep.Services[3])
		t.Add(cells[i].name, rate, sheds(&rep.Services[0])/length.Seconds(), below/length.Seconds(), rep.Services[3].Use[0],
			mean(front), spread(front), spread(third("PS")), spread(third("EN")), light.Latency.Within(100*ms))
		g := i / len(all)
		scans[g], swings[g] = append(scans[g], rate), append(swings[g], spread(front))
	}
	var steady, starved, most worst
	for k := range all {
		swing := swings[1][k]
		if math.IsNaN(swing) {
			swing = math.Inf(1) // no limit: not what is asked
		}
		steady.high(swing)
		starved.low(scans[1][k] / scans[0][k])
		most.low(scans[1][k] / math.Max(scans[0][k], scans[2][k]))
	}
	t.Note = "Published (a plot): q = 0 starves, q = 1 swings, q = 0.5 is steady. A swing is the standard deviation of the sum of the rates; not a number: some had no limit."
	r.Ceiling("swing of the rates at FE, q = 0.5", " of the mean", 0.1, 0.02, steady.get())
	r.Floor("scans at q = 0.5", " of those at q = 0", 1, 0.01, starved.get())
	r.Floor("scans at q = 0.5", " of the best", 0.97, 0.02, most.get())
	r.Table = []*table.Table{t}
	for _, tier := range []string{"FE", "PS", "EN"} {
		chart := &plot.Chart{Title: "Sum of the rates of scans at " + tier, X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "rate", Unit: "/s"}}
		for g, q := range quantiles {
			line := plot.Series{Name: fmt.Sprint("q = ", q)}
			for k, v := range everySecond(rateOf(out[g*len(all)].Report, tier, 0)) {
				if !math.IsNaN(v) {
					line.X, line.Y = append(line.X, float64(k+1)), append(line.Y, v)
				}
			}
			chart.Series = append(chart.Series, line)
		}
		r.Chart = append(r.Chart, chart)
	}
	return r, nil
}

// everySecond returns the means of ten bins each, as the paper's figure has it.
func everySecond(x []float64) []float64 {
	var means []float64
	for i := 0; i+10 <= len(x); i += 10 {
		means = append(means, mean(x[i:i+10]))
	}
	return means
}
