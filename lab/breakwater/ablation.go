package breakwater

import (
	"context"
	"fmt"
	"time"

	gate "github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

func ablation() experiment.Experiment {
	return experiment.Experiment{
		Name:  "breakwater/ablation",
		Title: "what credits, demand speculation and the delay AQM each contribute",
		About: `No control; credits that follow reported demand alone; with speculation on demand; with the delay AQM
as well, which is Spillgate as it is. The paper (§3, §5.5): credits alone bound the tail and lose throughput
to messages; speculation regains it and lengthens the tail; the AQM gives both.`,
		Run: runAblation,
	}
}

func runAblation(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	loads := []float64{0.5, 0.7, 0.9, 1, 1.2, 1.4, 1.6, 2}
	warmup, length := 100*time.Millisecond, 400*time.Millisecond
	if o.Quick {
		loads = []float64{0.7, 1, 1.4, 2}
		length = 250 * time.Millisecond
	}
	variants := []mesh.Control{
		contenders.None(setting()),
		mesh.Gated("credits only", gate.Config{Objective: objective, NoAQM: true, Credit: credit.Config{NoSpeculation: true}}, credit.WalletConfig{Punctual: true}),
		mesh.Gated("and speculation", gate.Config{Objective: objective, NoAQM: true}, credit.WalletConfig{}),
		mesh.Gated("and AQM", gate.Config{Objective: objective}, credit.WalletConfig{}),
	}
	const none, only, speculation, whole = 0, 1, 2, 3
	played, err := play(ctx, o, sweep{worlds.Exponential, variants, loads, warmup, length})
	if err != nil {
		return nil, err
	}
	reports := played[0]
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Ablation, exponential service", Columns: []table.Column{{Name: "variant"}, {Name: "offered", Unit: "of capacity", Format: "%.1f"},
		{Name: "throughput", Unit: "of capacity", Format: "%.3f"}, {Name: "goodput", Unit: "of capacity", Format: "%.3f"}, {Name: "p99 at client", Unit: "µs"}, {Name: "messages", Unit: "of core time", Format: "%.3f"},
		{Name: "refused by server", Unit: "of offered", Format: "%.4f"}}}
	curves := &plot.Chart{Title: "Goodput of the variants", X: plot.Axis{Label: "offered load", Unit: "of capacity"}, Y: plot.Axis{Label: "goodput", Unit: "of capacity"}}
	tail := &plot.Chart{Title: "p99 response time of the variants", X: plot.Axis{Label: "offered load", Unit: "of capacity"}, Y: plot.Axis{Label: "p99", Unit: "µs", Log: true},
		Levels: []plot.Level{{Name: "SLO 200 µs", At: microseconds(objective)}}}
	through, late := make([][]float64, len(variants)), make([][]float64, len(variants))
	for v, p := range variants {
		g, l := plot.Series{Name: p.Name, X: loads}, plot.Series{Name: p.Name, X: loads}
		for k, x := range loads {
			rep := reports[v][k]
			good, q := goodput(rep), p99(rep)
			done := float64(rep.Total.Good+rep.Total.Late) / rep.Seconds / capacity()
			t.Add(p.Name, x, done, good, q, rep.Messages(), float64(rep.Total.RefusedByServer())/float64(rep.Total.Offered))
			g.Y, l.Y = append(g.Y, good), append(l.Y, q)
			through[v], late[v] = append(through[v], done), append(late[v], q)
			if v == whole && x >= 1 {
				r.Floor(fmt.Sprintf("goodput of the whole, %gx", x), " of capacity", 0.97, 0.01, good)
				r.Ceiling(fmt.Sprintf("p99 of the whole, %gx", x), " µs", microseconds(objective), 0, q)
			}
		}
		curves.Series, tail.Series = append(curves.Series, g), append(tail.Series, l)
	}
	last := len(loads) - 1
	r.Ceiling(fmt.Sprintf("goodput without control, %gx", loads[last]), " of capacity", 0.1, 0, goodput(reports[none][last]))
	r.Floor(fmt.Sprintf("throughput gained by speculation, %gx", loads[last]), " of capacity", 0.01, 0.005, through[speculation][last]-through[only][last])
	r.Floor(fmt.Sprintf("p99 cut by the AQM, %gx", loads[last]), " µs", 0, 15, late[speculation][last]-late[whole][last])
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{curves, tail}
	return r, nil
}
