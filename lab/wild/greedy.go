package wild

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/sim/model"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
)

// politeFloor is the least share of what the polite clients send that is to be answered in
// time, while each sends less than an equal share.
const politeFloor = 0.95

// greedy is a row of wild/greedy: one client beside twenty polite ones, each of which sends
// such a part of an equal share.
type greedy struct {
	service time.Duration
	part    float64
	times   float64 // of the capacity, what the greedy one sends
	kind    model.Kind
}

func (g greedy) String() string {
	how := "obeys"
	if g.kind == model.Flooding {
		how = "floods"
	}
	return fmt.Sprintf("%v of a share, %v; %vx, %s", g.part, g.service, g.times, how)
}

func (g greedy) world() model.Config {
	w := base(200*time.Millisecond, g.service, model.Exponential, 0)
	capacity := w.Server.Capacity()
	w.Groups = []model.Group{
		{Name: "polite", Clients: 20, Load: model.Constant(g.part * 20 / 21 * capacity)},
		{Name: "greedy", Clients: 1, Kind: g.kind, Load: model.Constant(g.times * capacity)},
	}
	w.Warmup = 3 * time.Second
	return w
}

// greedyRows returns the worlds; quick leaves out the milder ones.
func greedyRows(quick bool) []greedy {
	var all []greedy
	for _, service := range []time.Duration{2 * time.Millisecond, 20 * time.Millisecond} {
		for _, part := range []float64{0.2, 0.5} {
			for _, times := range []float64{1, 10} {
				for _, kind := range []model.Kind{model.Honest, model.Flooding} {
					if g := (greedy{service, part, times, kind}); !quick || part == 0.5 && times == 10 {
						all = append(all, g)
					}
				}
			}
		}
	}
	return all
}

func runGreedy(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	seeds, all := fullSeeds, greedyRows(o.Quick)
	if o.Quick {
		seeds = 4
	}
	names := []string{contenders.Name, "plain clients", "semaphore"}
	var cells []experiment.Cell
	for _, g := range all {
		w := g.world()
		s := contenders.Setting{Objective: w.Objective, Cores: workers, Service: g.service}
		for seed := range seeds {
			for _, p := range []model.Policy{contenders.Spillgate(s), plain(s), contenders.Semaphore(s, workers, 2*workers)} {
				w.Seed, w.Policy = o.Seed+uint64(seed), p
				cells = append(cells, experiment.Cell{Name: g.String(), World: w})
			}
		}
	}
	reports, err := experiment.Run(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Twenty polite clients beside a greedy one, worst seed", Columns: []table.Column{{Name: "world"}, {Name: "policy"},
		{Name: "polite served", Unit: "of what they send", Format: "%.3f"}, {Name: "mean of the seeds", Format: "%.3f"},
		{Name: "goodput", Unit: "of the capacity", Format: "%.3f"}, {Name: "its mean", Format: "%.3f"}}}
	for i, g := range all {
		for who, name := range names {
			worst, worstAll := 2.0, 2.0
			var served, goodput float64
			for seed := range seeds {
				report := reports[(i*seeds+seed)*len(names)+who]
				share := float64(report.Groups[0].Good) / float64(max(report.Groups[0].Offered, 1))
				all := float64(report.Total.Good) / report.Seconds / cells[(i*seeds)*len(names)].World.Server.Capacity()
				worst, worstAll = min(worst, share), min(worstAll, all)
				served, goodput = served+share/float64(seeds), goodput+all/float64(seeds)
			}
			t.Add(g.String(), name, worst, served, worstAll, goodput)
			if who < 2 {
				r.Floor(fmt.Sprintf("%v, %s: polite served", g, name), " of what they send", politeFloor, 0.03, worst)
			}
		}
	}
	r.Table = []*table.Table{t}
	return r, nil
}
