package wild

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

// politeFloor is the least share of what the polite clients send that must be answered in
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

// row is the world without clients.
func (g greedy) row() row { return base(200*time.Millisecond, g.service, worlds.Exponential, 0) }

func (g greedy) world(kind world.Kind) *world.World {
	w := g.row().world
	w.Name = g.String()
	polite, one := w.Clients[0], w.Clients[0]
	polite.Name, polite.Load = "polite", worlds.Times(g.part*20/21)
	one.Name, one.Clients, one.Kind, one.Load = "greedy", 1, kind, worlds.Times(g.times)
	w.Clients = []world.Group{polite, one}
	w.Warmup, w.Length = 3*time.Second, 13*time.Second
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
	policy mesh.Control
	kind   world.Kind
	judged bool
}

func greedyContenders(s contenders.Setting) []contender {
	return []contender{
		{contenders.Name + ", it obeys", contenders.Spillgate(s), world.Credits, true},
		{contenders.Name + ", it floods", contenders.Spillgate(s), world.Greedy, true},
		{"plain clients", plain(s), world.Credits, true},
		{"semaphore", contenders.Semaphore(s, workers, 2*workers), world.Credits, false},
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
			for seed := range seeds {
				cells = append(cells, experiment.Cell{Name: g.String(), World: w, Control: c.policy, Seed: o.Seed + uint64(seed)})
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
		world := g.row()
		for _, c := range who(g) {
			least, leastAll := math.Inf(1), math.Inf(1)
			var mean, meanAll float64
			for _, report := range reports[:seeds] {
				served := float64(report.Seen.Groups[0].Good) / float64(max(report.Seen.Groups[0].Offered, 1))
				all := report.Goodput() / world.capacity()
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
