package breakwaterlive

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

func spike() experiment.Experiment {
	return experiment.Experiment{
		Name:  "breakwater/spike-live",
		Title: "time to converge over fastrpc after demand jumps from 0.7 to 1.4 times the capacity",
		About: `100 connections send at 0.7 times the capacity, then at 1.4 times, then at 0.7 times again. The service takes 10 µs,
exponential. Converged is the time from the jump until the goodput, averaged over 5 ms, is 90 % of its mean in the second half of the
spike. The paper (§5.3): Breakwater below 20 ms, DAGOR 500 ms, SEDA 1.58 s.`,
		Live: true,
		Run:  runSpike,
	}
}

// spikeBin is the resolution of a spike, and window over how many bins goodput is averaged.
const (
	spikeBin = time.Millisecond
	window   = 5
)

func runSpike(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	calm, jumped := time.Second, 3*time.Second
	if o.Quick {
		calm, jumped = 500*time.Millisecond, 1500*time.Millisecond
	}
	s := &setting{mean: 10 * time.Microsecond, shape: worlds.Exponential}
	measured, err := s.measure(ctx, o.Seed, time.Second)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "A demand spike of 1.4 times the capacity", Columns: []table.Column{{Name: "policy"}, {Name: "converged", Unit: "ms"},
		{Name: "goodput in the spike", Unit: "of capacity", Format: "%.3f"}, {Name: "goodput after it", Unit: "of offered", Format: "%.3f"}, {Name: "p99"}, {Name: "disturbed"}}}
	chart := &plot.Chart{Title: "Goodput around the spike", X: plot.Axis{Label: "time since the jump", Unit: "ms"}, Y: plot.Axis{Label: "goodput", Unit: "of capacity"}}
	for i, policy := range policies() {
		o.Step(i, len(policies()), policy)
		p, err := s.play(ctx, policy, crowdOrder{Seed: o.Seed, Clients: 100, Bin: spikeBin, Steps: []step{{0.7 * s.Capacity, calm}, {1.4 * s.Capacity, jumped}, {0.7 * s.Capacity, calm}}})
		if err != nil {
			return nil, err
		}
		p.disturbed = append(p.disturbed, measured.disturbed...)
		up, down := int(calm/spikeBin), int((calm+jumped)/spikeBin)
		in, after := sum(p.Bins[up:down]), sum(p.Bins[down:])
		took := converged(p.Bins, up, down)
		var ms any = took
		if took < 0 {
			ms = "never"
		}
		spiked := float64(in.Good) / jumped.Seconds() / s.Capacity
		t.Add(policy, ms, spiked, float64(after.Good)/max(float64(after.Offered), 1), p.P99, len(p.disturbed) > 0)
		chart.Series = append(chart.Series, line(policy, p.Bins, up, s.Capacity))
		if policy == spilling {
			if took < 0 {
				took = down - up
			}
			r.On(experiment.Machine{Ours: p.disturbed}, func() {
				r.Ceiling("converged after the jump", " ms", 20, 5, float64(took))
				r.Floor("goodput in the spike", " of capacity", leastGoodput, 0.02, spiked)
			})
		}
	}
	r.Table, r.Chart = []*table.Table{t}, []*plot.Chart{chart}
	return r, nil
}

func sum(bins []bin) (all bin) {
	for _, b := range bins {
		all.Offered, all.Good = all.Offered+b.Offered, all.Good+b.Good
	}
	return all
}

// converged is how many bins after the jump the goodput has come to its level, negative if
// it never does or there is no level.
func converged(bins []bin, up, down int) int {
	level := float64(sum(bins[(up+down)/2:down]).Good) / float64(down-(up+down)/2)
	for k := up; k+window <= down && level > 0; k++ {
		if float64(sum(bins[k:k+window]).Good)/window >= 0.9*level {
			return k - up + window
		}
	}
	return -1
}

// line is the goodput over time, averaged over the window.
func line(name string, bins []bin, up int, capacity float64) plot.Series {
	s := plot.Series{Name: name}
	for k := 0; k+window <= len(bins); k += window {
		s.X = append(s.X, float64(k+window/2-up)*spikeBin.Seconds()*1e3)
		s.Y = append(s.Y, float64(sum(bins[k:k+window]).Good)/(window*spikeBin).Seconds()/capacity)
	}
	return s
}
