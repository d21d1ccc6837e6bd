package breakwaterlive

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

func clients() experiment.Experiment {
	return experiment.Experiment{
		Name:  "breakwater/clients-fast",
		Title: "100 to 10,000 connections over fastrpc at twice the capacity",
		About: `A station that spins 100 µs, exponential, at twice its capacity, with more and more connections that share the load. The
capacity is measured with 32 connections. The paper (§5.4): Breakwater scales to 10,000.`,
		Live: true,
		Run:  runClients,
	}
}

func runClients(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	counts, rivals, length := []int{100, 1000, 5000, 10_000}, policies(), 4*time.Second
	if o.Quick {
		counts, rivals, length = []int{100, 1000}, []string{spilling, nothing}, 1500*time.Millisecond
	}
	s := &setting{mean: 100 * time.Microsecond, shape: worlds.Exponential}
	measured, err := s.measure(ctx, o.Seed, time.Second)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Connections at 2x", Columns: []table.Column{{Name: "connections"}, {Name: "policy"}, {Name: "goodput", Unit: "of capacity", Format: "%.3f"},
		{Name: "p99"}, {Name: "refusals known, p99", Unit: "of SLO", Format: "%.2f"}, {Name: "disturbed"}}}
	for i, n := range counts {
		o.Step(i, len(counts), fmt.Sprint(n, " connections"))
		for _, policy := range rivals {
			p, err := s.play(ctx, policy, crowdOrder{Seed: o.Seed, Clients: n, Steps: []step{{2 * s.Capacity, length}}, Warmup: length / 3})
			if err != nil {
				return nil, err
			}
			p.disturbed = append(p.disturbed, measured.disturbed...)
			t.Add(n, policy, p.goodput(s), p.P99, p.toldShare(s), len(p.disturbed) > 0)
			if policy == spilling {
				r.On(experiment.Machine{Ours: p.disturbed}, func() {
					r.Floor(fmt.Sprintf("goodput, %d connections", n), " of capacity", leastGoodput, 0.03, p.goodput(s))
					r.Ceiling(fmt.Sprintf("refusals known, %d connections", n), " of the SLO", mostTold, 0.02, p.toldShare(s))
				})
			}
		}
	}
	r.Table = []*table.Table{t}
	return r, nil
}
