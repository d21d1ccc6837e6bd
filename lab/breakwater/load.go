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

func load() experiment.Experiment {
	return experiment.Experiment{
		Name:  "breakwater/load",
		Title: "goodput and tail latency from a tenth to ten times the capacity",
		About: `1,000 clients send at 0.1 to 10 times the capacity of a server of 10 cores and 10 µs, with
exponential, constant and bimodal service times. Spillgate knows the SLO of 200 µs and nothing else;
its peers are tuned for this server. Goodput counts answers within the SLO of the intended send time.
The paper (§5.2) shows Breakwater near capacity with a p99 near the SLO up to 1.6 times the capacity.`,
		Run: runLoad,
	}
}

var shapes = []worlds.Shape{worlds.Exponential, worlds.Constant, worlds.Bimodal}

func runLoad(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	loads := []float64{0.1, 0.3, 0.5, 0.7, 0.9, 1, 1.2, 1.5, 2, 3, 4, 6, 10}
	peerLoads := []float64{0.5, 0.7, 0.9, 1, 1.2, 1.5, 2, 4}
	warmup, length := 100*time.Millisecond, 500*time.Millisecond
	peerLength := 250 * time.Millisecond
	if o.Quick {
		loads = []float64{0.5, 0.9, 1, 1.5, 2, 4, 10}
		peerLoads = []float64{0.9, 1, 1.5, 2, 4}
		warmup, length, peerLength = 50*time.Millisecond, 150*time.Millisecond, 120*time.Millisecond
	}
	var cells []experiment.Cell
	add := func(p mesh.Control, shape worlds.Shape, x float64, length time.Duration) int {
		c := testbed(o.Seed, p, shape, clients, x, warmup, length)
		c.Name = fmt.Sprintf("%s, %v, %gx", p.Name, shape, x)
		cells = append(cells, c)
		return len(cells) - 1
	}
	ours := map[worlds.Shape][]int{}
	for _, shape := range shapes {
		for _, x := range loads {
			ours[shape] = append(ours[shape], add(contenders.Spillgate(setting()), shape, x, length))
		}
	}
	peers := contenders.Peers(setting())
	theirs := make([][]int, len(peers))
	for i, p := range peers {
		for _, x := range peerLoads {
			theirs[i] = append(theirs[i], add(p, worlds.Exponential, x, peerLength))
		}
	}
	reports, err := experiment.Run(ctx, o, cells)
	if err != nil {
		return nil, err
	}

	r := &experiment.Result{Quick: o.Quick}
	good := func(i int) float64 { return reports[i].Goodput() / capacity() }
	p99 := func(i int) float64 { return microseconds(reports[i].Total.Latency.Quantile(0.99)) }

	own := &table.Table{Title: "Spillgate", Columns: []table.Column{{Name: "service"}, {Name: "offered", Unit: "of capacity", Format: "%.1f"},
		{Name: "goodput", Unit: "of capacity", Format: "%.3f"}, {Name: "p50", Unit: "µs"}, {Name: "p99", Unit: "µs"},
		{Name: "refused unsent", Unit: "of offered", Format: "%.3f"}, {Name: "refused by server", Unit: "of offered", Format: "%.4f"},
		{Name: "messages", Unit: "of core time", Format: "%.3f"}, {Name: "fairness", Format: "%.2f"}}}
	goodput := &plot.Chart{Title: "Goodput by offered load, exponential service", X: plot.Axis{Label: "offered load", Unit: "of capacity", Log: true},
		Y: plot.Axis{Label: "goodput", Unit: "of capacity"}}
	tail := &plot.Chart{Title: "p99 response time by offered load, exponential service", X: plot.Axis{Label: "offered load", Unit: "of capacity", Log: true},
		Y: plot.Axis{Label: "p99", Unit: "µs", Log: true}, Levels: []plot.Level{{Name: "SLO 200 µs", At: microseconds(objective)}}}
	for _, shape := range shapes {
		for k, x := range loads {
			i := ours[shape][k]
			t := &reports[i].Total
			offered := float64(max(t.Offered, 1))
			own.Add(shape.String(), x, good(i), microseconds(t.Latency.Quantile(0.5)), p99(i),
				float64(t.AllRefused()-t.RefusedByServer())/offered, float64(t.RefusedByServer())/offered, reports[i].Messages(), reports[i].Fairness())
			at := fmt.Sprintf("%v, %gx", shape, x)
			if x >= 1 {
				r.Floor("goodput, "+at, " of capacity", 0.97, 0.01, good(i))
			} else {
				r.Floor("goodput, "+at, " of offered", 0.99, 0.005, good(i)*capacity()*reports[i].Seconds/offered)
			}
			r.Ceiling("p99, "+at, " µs", microseconds(objective), 0, p99(i))
		}
	}
	curve := func(name string, at []float64, index []int) {
		g, l := plot.Series{Name: name, X: at}, plot.Series{Name: name, X: at}
		for _, i := range index {
			g.Y, l.Y = append(g.Y, good(i)), append(l.Y, p99(i))
		}
		goodput.Series, tail.Series = append(goodput.Series, g), append(tail.Series, l)
	}
	curve(contenders.Name, loads, ours[worlds.Exponential])
	side := &table.Table{Title: "Goodput side by side, exponential service", Columns: []table.Column{{Name: "policy"}}}
	for _, x := range peerLoads {
		side.Columns = append(side.Columns, table.Column{Name: fmt.Sprintf("%gx", x), Format: "%.3f"})
	}
	row := []any{contenders.Name}
	for _, x := range peerLoads {
		for k := range loads {
			if loads[k] == x {
				row = append(row, good(ours[worlds.Exponential][k]))
			}
		}
	}
	side.Add(row...)
	for i, p := range peers {
		row := []any{p.Name}
		for _, j := range theirs[i] {
			row = append(row, good(j))
		}
		side.Add(row...)
		curve(p.Name, peerLoads, theirs[i])
	}
	r.Table = []*table.Table{own, side}
	r.Chart = []*plot.Chart{goodput, tail}
	return r, nil
}
