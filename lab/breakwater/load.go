package breakwater

import (
	"context"
	"fmt"
	"slices"
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

// shapes are the service times that Spillgate meets. Its peers meet the first one.
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
	var sweeps []sweep
	for _, shape := range shapes {
		sweeps = append(sweeps, sweep{shape, []mesh.Control{contenders.Spillgate(setting())}, loads, warmup, length})
	}
	peers := sweep{worlds.Exponential, contenders.Peers(setting()), peerLoads, warmup, peerLength}
	played, err := play(ctx, o, append(sweeps, peers)...)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	r.Table = []*table.Table{ownTable(r, sweeps, played), sideBySide(loads, played[0][0], peers, played[len(sweeps)])}
	r.Chart = loadCharts(loads, played[0][0], peers, played[len(sweeps)])
	return r, nil
}

// ownTable shows what Spillgate did, and judges it.
func ownTable(r *experiment.Result, sweeps []sweep, played [][][]*experiment.Played) *table.Table {
	t := &table.Table{Title: "Spillgate", Columns: []table.Column{{Name: "service"}, {Name: "offered", Unit: "of capacity", Format: "%.1f"},
		{Name: "goodput", Unit: "of capacity", Format: "%.3f"}, {Name: "p50", Unit: "µs"}, {Name: "p99", Unit: "µs"},
		{Name: "refused unsent", Unit: "of offered", Format: "%.3f"}, {Name: "refused by server", Unit: "of offered", Format: "%.4f"},
		{Name: "messages", Unit: "of core time", Format: "%.3f"}, {Name: "fairness", Format: "%.2f"}}}
	for i, s := range sweeps {
		for k, x := range s.loads {
			rep := played[i][0][k]
			total := &rep.Total
			offered := float64(max(total.Offered, 1))
			t.Add(s.shape.String(), x, goodput(rep), microseconds(total.Latency.Quantile(0.5)), p99(rep),
				float64(total.AllRefused()-total.RefusedByServer())/offered, float64(total.RefusedByServer())/offered, rep.Messages(), rep.Fairness())
			at := fmt.Sprintf("%v, %gx", s.shape, x)
			if x >= 1 {
				r.Floor("goodput, "+at, " of capacity", 0.97, 0.01, goodput(rep))
			} else {
				r.Floor("goodput, "+at, " of offered", 0.99, 0.005, goodput(rep)*capacity()*rep.Seconds/offered)
			}
			r.Ceiling("p99, "+at, " µs", microseconds(objective), 0, p99(rep))
		}
	}
	return t
}

// sideBySide has a row of goodput for each policy, at the loads of the peers.
func sideBySide(loads []float64, ours []*experiment.Played, peers sweep, theirs [][]*experiment.Played) *table.Table {
	t := &table.Table{Title: "Goodput side by side, exponential service", Columns: []table.Column{{Name: "policy"}}}
	row := []any{contenders.Name}
	for _, x := range peers.loads {
		t.Columns = append(t.Columns, table.Column{Name: fmt.Sprintf("%gx", x), Format: "%.3f"})
		if k := slices.Index(loads, x); k >= 0 {
			row = append(row, goodput(ours[k]))
		}
	}
	t.Add(row...)
	for i, p := range peers.controls {
		row := []any{p.Name}
		for _, rep := range theirs[i] {
			row = append(row, goodput(rep))
		}
		t.Add(row...)
	}
	return t
}

// loadCharts draws goodput and tail latency of each policy by offered load.
func loadCharts(loads []float64, ours []*experiment.Played, peers sweep, theirs [][]*experiment.Played) []*plot.Chart {
	good := &plot.Chart{Title: "Goodput by offered load, exponential service", X: plot.Axis{Label: "offered load", Unit: "of capacity", Log: true},
		Y: plot.Axis{Label: "goodput", Unit: "of capacity"}}
	tail := &plot.Chart{Title: "p99 response time by offered load, exponential service", X: plot.Axis{Label: "offered load", Unit: "of capacity", Log: true},
		Y: plot.Axis{Label: "p99", Unit: "µs", Log: true}, Levels: []plot.Level{{Name: "SLO 200 µs", At: microseconds(objective)}}}
	curve := func(name string, at []float64, reports []*experiment.Played) {
		g, l := plot.Series{Name: name, X: at}, plot.Series{Name: name, X: at}
		for _, rep := range reports {
			g.Y, l.Y = append(g.Y, goodput(rep)), append(l.Y, p99(rep))
		}
		good.Series, tail.Series = append(good.Series, g), append(tail.Series, l)
	}
	curve(contenders.Name, loads, ours)
	for i, p := range peers.controls {
		curve(p.Name, peers.loads, theirs[i])
	}
	return []*plot.Chart{good, tail}
}
