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

func refusal() experiment.Experiment {
	return experiment.Experiment{
		Name:  "breakwater/refusal",
		Title: "time until a refused client knows",
		About: `A refusal is worth something while the client can still go elsewhere. The time counts from the intended
send to the client's knowing, whether it was refused at home or by the server. The paper (§5.2): before the
SLO is violated. Our bar is a fifth of the SLO at the 99th percentile.`,
		Run: runRefusal,
	}
}

func runRefusal(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	loads := []float64{1.2, 1.4, 2, 4, 10}
	warmup, length := 100*time.Millisecond, 300*time.Millisecond
	if o.Quick {
		loads = []float64{1.4, 4}
		warmup, length = 50*time.Millisecond, 150*time.Millisecond
	}
	s := setting()
	policies := []mesh.Control{contenders.Spillgate(s), contenders.DAGOR(s), contenders.SEDA(s), contenders.Protego(s), contenders.FIFO(s), contenders.CoDel(s)}
	played, err := play(ctx, o, sweep{worlds.Exponential, policies, loads, warmup, length})
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Time until a refused client knows", Columns: []table.Column{{Name: "policy"}, {Name: "offered", Unit: "of capacity", Format: "%.1f"},
		{Name: "refused", Unit: "of offered", Format: "%.3f"}, {Name: "p50", Unit: "µs"}, {Name: "p99", Unit: "µs"}, {Name: "known in time", Unit: "of refused", Format: "%.3f"},
		{Name: "goodput", Unit: "of capacity", Format: "%.3f"}}}
	chart := &plot.Chart{Title: "p99 time until a refused client knows", X: plot.Axis{Label: "offered load", Unit: "of capacity", Log: true}, Y: plot.Axis{Label: "p99", Unit: "µs", Log: true},
		Levels: []plot.Level{{Name: "SLO 200 µs", At: microseconds(objective)}}}
	for v, p := range policies {
		line := plot.Series{Name: p.Name, X: loads}
		for k, x := range loads {
			rep := played[0][v][k]
			known := &rep.Total.Told
			q := microseconds(known.Quantile(0.99))
			t.Add(p.Name, x, float64(rep.Total.AllRefused())/float64(rep.Total.Offered), microseconds(known.Quantile(0.5)), q, known.Within(objective), goodput(rep))
			line.Y = append(line.Y, q)
			if v == 0 {
				r.Ceiling(fmt.Sprintf("p99 until known, %gx", x), " µs", microseconds(objective)/5, microseconds(objective)/50, q)
				r.Floor(fmt.Sprintf("known before the SLO, %gx", x), " of refused", 1, 0.0001, known.Within(objective))
			}
		}
		chart.Series = append(chart.Series, line)
	}
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}
