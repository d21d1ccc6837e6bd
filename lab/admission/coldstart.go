package admission

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

func coldstart() experiment.Experiment {
	return experiment.Experiment{
		Name:  "admission/coldstart",
		Title: "refusals of a server that has just started, 100 slots at 0.7 times the capacity",
		About: `From the first instant 100 clients send at 0.7 times the capacity. Nothing needs to be refused. Adaptive
limiters that begin small refuse until they have grown: in Go, peers still refused 46 to 68 % of feasible
requests after 20 to 30 s.`,
		Run: runColdstart,
	}
}

func runColdstart(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	length := 20 * time.Second
	shapes := []worlds.Shape{worlds.Exponential, worlds.Constant, worlds.Bimodal}
	if o.Quick {
		length = 6 * time.Second
	}
	s := setting()
	policies := []mesh.Control{contenders.Spillgate(s), contenders.Gradient2(s), contenders.Vegas(s), contenders.AIMD(s),
		contenders.DAGOR(s), contenders.SEDA(s), contenders.Protego(s), contenders.CoDel(s), contenders.FIFO(s)}
	policies = append(policies, contenders.Windowed(s)...)
	var cells []experiment.Cell
	var shapeOf []worlds.Shape
	for i, p := range policies {
		for _, shape := range shapes {
			if i > 0 && shape != worlds.Exponential {
				continue
			}
			c := server(o.Seed, p, shape, 0.7, length)
			c.Bin = 100 * time.Millisecond
			cells, shapeOf = append(cells, c), append(shapeOf, shape)
		}
	}
	reports, err := experiment.Run(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Cold start at 0.7 times the capacity", Columns: []table.Column{{Name: "policy"}, {Name: "service"},
		{Name: "refused, 1st second", Unit: "of offered", Format: "%.4f"}, {Name: "refused, later", Unit: "of offered", Format: "%.4f"},
		{Name: "good, later", Unit: "of offered", Format: "%.4f"}, {Name: "p99, later", Unit: "ms"}}}
	chart := &plot.Chart{Title: "Refused share after a cold start, exponential service", X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "refused", Unit: "of offered"}}
	for i := range cells {
		rep, shape := reports[i], shapeOf[i]
		first, later := rep.Between(0, time.Second), rep.Between(time.Second, length)
		refused := share(later.AllRefused(), later.Offered)
		t.Add(cells[i].Control.Name, shape.String(), share(first.AllRefused(), first.Offered), refused,
			share(later.Good, later.Offered), later.Latency.Quantile(0.99).Seconds()*1e3)
		if shape == worlds.Exponential {
			line := plot.Series{Name: cells[i].Control.Name}
			for k := range rep.Bins {
				line.X = append(line.X, (time.Duration(k) * rep.BinLength).Seconds())
				line.Y = append(line.Y, share(rep.Bins[k][0].AllRefused(), rep.Bins[k][0].Offered))
			}
			chart.Series = append(chart.Series, line)
		}
		if i < len(shapes) {
			r.Ceiling(fmt.Sprintf("refused after 1 s, %v", shape), " of offered", 0.01, 0, refused)
			r.Ceiling(fmt.Sprintf("p99 after 1 s, %v", shape), " ms", objective.Seconds()*1e3, 0, later.Latency.Quantile(0.99).Seconds()*1e3)
		}
	}
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
