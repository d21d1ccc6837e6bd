package wild

import (
	"context"
	"fmt"
	"math"
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
}

func (g greedy) String() string {
	return fmt.Sprintf("%v of a share, %v; %vx", g.part, g.service, g.times)
}

// capacity is that of the row's server, in requests/s.
func (g greedy) capacity() float64 {
	return base(200*time.Millisecond, g.service, model.Exponential, 0).Server.Capacity()
}

func (g greedy) world(kind model.Kind) model.Config {
	w := base(200*time.Millisecond, g.service, model.Exponential, 0)
	w.Groups = []model.Group{
		{Name: "polite", Clients: 20, Load: model.Constant(g.part * 20 / 21 * g.capacity())},
		{Name: "greedy", Clients: 1, Kind: kind, Load: model.Constant(g.times * g.capacity())},
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
				if g := (greedy{service, part, times}); !quick || part == 0.5 && times == 10 {
					all = append(all, g)
				}
			}
		}
	}
	return all
}

// contender is who stands in front of the server, and how the greedy client behaves: one
// that knows no credits has no window to obey.
type contender struct {
	name   string
	policy model.Policy
	kind   model.Kind
	judged bool
}

func greedyContenders(s contenders.Setting) []contender {
	return []contender{
		{contenders.Name + ", it obeys", contenders.Spillgate(s), model.Honest, true},
		{contenders.Name + ", it floods", contenders.Spillgate(s), model.Flooding, true},
		{"plain clients", plain(s), model.Honest, true},
		{"semaphore", contenders.Semaphore(s, workers, 2*workers), model.Honest, false},
	}
}

func runGreedy(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	seeds, all := fullSeeds, greedyRows(o.Quick)
	if o.Quick {
		seeds = 4
	}
	who := func(g greedy) []contender {
		return greedyContenders(contenders.Setting{Objective: 200 * time.Millisecond, Cores: workers, Service: g.service})
	}
	var cells []experiment.Cell
	for _, g := range all {
		for _, c := range who(g) {
			w := g.world(c.kind)
			w.Policy = c.policy
			for seed := range seeds {
				w.Seed = o.Seed + uint64(seed)
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
	for _, g := range all {
		for _, c := range who(g) {
			least, leastAll := math.Inf(1), math.Inf(1)
			var mean, meanAll float64
			for _, report := range reports[:seeds] {
				served := float64(report.Groups[0].Good) / float64(max(report.Groups[0].Offered, 1))
				all := float64(report.Total.Good) / report.Seconds / g.capacity()
				least, leastAll = min(least, served), min(leastAll, all)
				mean, meanAll = mean+served/float64(seeds), meanAll+all/float64(seeds)
			}
			reports = reports[seeds:]
			t.Add(g.String(), c.name, least, mean, leastAll, meanAll)
			if c.judged {
				r.Floor(fmt.Sprintf("%v, %s: polite served", g, c.name), " of what they send", politeFloor, 0.03, least)
			}
		}
	}
	r.Table = []*table.Table{t}
	return r, nil
}
