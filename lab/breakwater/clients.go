package breakwater

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

func manyClients() experiment.Experiment {
	return experiment.Experiment{
		Name:  "breakwater/clients",
		Title: "goodput with 100 to 10,000 clients",
		About: `The same total load comes from ever more clients, so that each has a request ready ever more rarely and
what the server knows of demand grows stale. The paper (§5.4) scales to 10,000 clients.`,
		Run: runClients,
	}
}

func runClients(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	numbers := []int{100, 300, 1000, 3000, 10_000}
	loads := []float64{1.2, 2, 4}
	warmup, length := 200*time.Millisecond, 600*time.Millisecond
	if o.Quick {
		numbers = []int{100, 1000, 10_000}
		loads = []float64{1.2, 2}
		warmup, length = 150*time.Millisecond, 300*time.Millisecond
	}
	s := setting()
	policies := []mesh.Control{contenders.Spillgate(s), contenders.DAGOR(s), contenders.SEDA(s), contenders.Protego(s)}
	var cells []experiment.Cell
	for _, p := range policies {
		for _, x := range loads {
			for _, n := range numbers {
				c := testbed(o.Seed, p, worlds.Exponential, n, x, warmup, length)
				c.Name = fmt.Sprintf("%s, %d clients, %gx", p.Name, n, x)
				cells = append(cells, c)
			}
		}
	}
	reports, err := experiment.Run(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Goodput by number of clients", Columns: []table.Column{{Name: "policy"}, {Name: "offered", Unit: "of capacity", Format: "%.1f"}, {Name: "clients"},
		{Name: "goodput", Unit: "of capacity", Format: "%.3f"}, {Name: "p99", Unit: "µs"}, {Name: "refused by server", Unit: "of offered", Format: "%.4f"},
		{Name: "messages", Unit: "of core time", Format: "%.3f"}, {Name: "fairness", Format: "%.2f"}}}
	chart := &plot.Chart{Title: fmt.Sprintf("Goodput by number of clients at %g times the capacity", loads[1]),
		X: plot.Axis{Label: "clients", Log: true}, Y: plot.Axis{Label: "goodput", Unit: "of capacity"}}
	k := 0
	for pi, p := range policies {
		for _, x := range loads {
			at := map[int]float64{}
			line := plot.Series{Name: p.Name}
			for _, n := range numbers {
				rep := reports[k]
				k++
				at[n] = rep.Goodput() / capacity()
				p99 := microseconds(rep.Total.Latency.Quantile(0.99))
				t.Add(p.Name, x, n, at[n], p99, float64(rep.Total.RefusedByServer())/float64(rep.Total.Offered), rep.Messages(), rep.Fairness())
				line.X, line.Y = append(line.X, float64(n)), append(line.Y, at[n])
				if pi == 0 && n >= 1000 {
					r.Floor(fmt.Sprintf("goodput, %d clients, %gx", n, x), " of capacity", 0.97*0.97, 0.01, at[n])
					r.Ceiling(fmt.Sprintf("p99, %d clients, %gx", n, x), " µs", microseconds(objective), 0, p99)
				}
			}
			if x == loads[1] {
				chart.Series = append(chart.Series, line)
			}
			if pi == 0 {
				r.Floor(fmt.Sprintf("goodput with 10,000 clients, %gx", x), " of that with 1,000", 0.97, 0.01, at[10_000]/at[1000])
			}
		}
	}
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}
