package breakwaterlive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

func load() experiment.Experiment {
	return experiment.Experiment{
		Name:  "breakwater/load-live",
		Title: "goodput and refusals over fastrpc, from a tenth to four times the capacity",
		About: `100 connections send over fastrpc to a station that spins 1, 10 or 100 µs, on one core, with exponential, constant and
bimodal service times. The capacity is what the station answers in a closed loop without control. Every policy has the same
transport and arrivals. The SLO is ten times service and round trip together.`,
		Live: true,
		Run:  runLoad,
	}
}

// The bars of the project: of the measured capacity, and of the SLO.
const (
	leastGoodput = 0.95
	mostTold     = 0.2
)

// contest is what meets what.
type contest struct {
	settings []*setting
	loads    []float64
	rivals   []string // at every load; others at 2x alone
	clients  int
	length   time.Duration
}

func runLoad(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	c := contest{loads: []float64{0.1, 0.5, 0.8, 1, 1.2, 1.5, 2, 4}, rivals: policies(), clients: 100, length: 2 * time.Second}
	for _, mean := range []time.Duration{time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond} {
		for _, shape := range []worlds.Shape{worlds.Exponential, worlds.Constant, worlds.Bimodal} {
			c.settings = append(c.settings, &setting{mean: mean, shape: shape})
		}
	}
	if o.Quick {
		c = contest{loads: []float64{0.5, 2, 4}, rivals: []string{spilling}, clients: 100, length: time.Second}
		for _, mean := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond} {
			c.settings = append(c.settings, &setting{mean: mean, shape: worlds.Exponential})
		}
	}
	return c.run(ctx, o)
}

func (c *contest) run(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	r := &experiment.Result{Quick: o.Quick}
	stations := &table.Table{Title: "Stations", Columns: []table.Column{{Name: "service"}, {Name: "capacity", Unit: "requests/s", Format: "%.0f"}, {Name: "SLO"}}}
	t := &table.Table{Title: "Under load", Columns: []table.Column{{Name: "service"}, {Name: "policy"}, {Name: "offered", Unit: "of capacity", Format: "%.1f"},
		{Name: "goodput", Unit: "of capacity", Format: "%.3f"}, {Name: "p50"}, {Name: "p99"}, {Name: "refusals known, p99", Unit: "of SLO", Format: "%.2f"},
		{Name: "unsent", Unit: "of offered", Format: "%.3f"}, {Name: "refused by server", Unit: "of offered", Format: "%.3f"}, {Name: "disturbed"}}}
	for i, s := range c.settings {
		o.Step(i, len(c.settings), s.name())
		measured, err := s.measure(ctx, o.Seed, c.length)
		if err != nil {
			return nil, err
		}
		stations.Add(s.name(), s.Capacity, s.SLO)
		for _, x := range c.loads {
			for _, policy := range policies() {
				if x != 2 && !slices.Contains(c.rivals, policy) {
					continue
				}
				p, err := s.play(ctx, policy, crowdOrder{Seed: o.Seed, Clients: c.clients, Steps: []step{{x * s.Capacity, c.length}}, Warmup: c.length / 4})
				if err != nil {
					return nil, err
				}
				p.disturbed = append(p.disturbed, measured.disturbed...)
				offered := max(float64(p.Offered), 1)
				t.Add(s.name(), policy, x, p.goodput(s), p.P50, p.P99, p.toldShare(s), float64(p.Unsent)/offered, float64(p.Refused)/offered, len(p.disturbed) > 0)
				if policy == spilling {
					p.bars(r, s, x)
				}
			}
		}
	}
	t.Note = "DAGOR, SEDA, the semaphore and the FIFO queue are tuned for the station; Spillgate knows the SLO alone."
	r.Table = []*table.Table{stations, t}
	return r, nil
}

// bars states what Spillgate must reach in overload, where a request takes 10 µs or more.
func (p *played) bars(r *experiment.Result, s *setting, x float64) {
	if x < 2 || s.mean < 10*time.Microsecond {
		return
	}
	at := fmt.Sprintf("%s, %gx", s.name(), x)
	r.On(experiment.Machine{Ours: p.disturbed}, func() {
		r.Floor("goodput, "+at, " of capacity", leastGoodput, 0.02, p.goodput(s))
		r.Ceiling("refusals known, "+at, " of the SLO", mostTold, 0.02, p.toldShare(s))
	})
}
