package chains

import (
	"context"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

func lawLive() experiment.Experiment {
	return experiment.Experiment{
		Name:  "d3g/law-live",
		Title: "chains on four Go services: how far each order is from the conservation law",
		About: `Requests that queue at four servers one after the other beside requests that queue at one, on loopback, at equal
rates; service times are exponential and known. While no worker is idle with work at hand, the order only moves waiting
from one class to the other. The distance is by how much all requests waited longer than the same arrivals and service
times would in one queue in order of arrival, which each server computes beside. Static shares, which the paper's
adjustment is if taken literally, leave workers idle and slow both classes down. Theory: packages share and spec.`,
		Live: true,
		Run:  runLawLive,
	}
}

func runLawLive(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	s, length := setting{workers: 1, mean: steady, answer: oneKB}, 20*time.Second
	if o.Quick {
		s.mean, length = steady/2, 4*time.Second
	}
	rate := lawPart * s.capacity()
	model := s.model(rate, rate*servers)
	_, both, _ := model.Separate()
	static, _ := static(lawPart)
	weighted := func(w float64) func() (share.Latency, bool) {
		return func() (share.Latency, bool) { return model.Weighted(w) }
	}
	cases := []struct {
		order  string
		theory func() (share.Latency, bool)
	}{
		{"fifo", model.FIFO}, {"weight 0.65", weighted(0.65)}, {"weight 0.9", weighted(0.9)}, {"lottery 0.9", weighted(0.9)}, {"priority", model.Priority},
		{static, func() (share.Latency, bool) { return share.Latency{Interactive: both, Default: both}, true }}, {"share", nil},
	}
	r, again := &experiment.Result{Quick: o.Quick}, retakes(o, 2, 8)
	t := latencyTable("Orders at 60 % load, both classes at the same rate")
	t.Columns = append(t.Columns, milliColumn("chains, theory"), milliColumn("singles, theory"), table.Column{Name: "from the law", Unit: "%", Format: "%+.1f"})
	w := s.world("law", 0, length, steadily(rate), steadily(rate*servers))
	for i, c := range cases {
		o.Step(i, len(cases), c.order)
		played, void, err := bed.Counted(ctx, again, late(s), []bed.Take{{World: w, Policy: inGo(c.order), Seed: o.Seed}}, Peers()...)
		if err != nil {
			return nil, err
		}
		r.Void = append(r.Void, void...)
		l := played[0].Law()
		distance, ok := l.Distance()
		if !ok {
			distance = math.NaN()
		}
		row := append(latencyRow(c.order, played[0]), "–", "–")
		if c.theory != nil {
			l, _ := c.theory()
			row = append(row[:len(row)-2], 1000*l.Interactive, 1000*l.Default)
		}
		t.Add(append(row, 100*distance)...)
		// A disturbance moves the distance either way.
		r.On(experiment.Machine{Ours: void, Theirs: void}, func() {
			if c.order == static {
				r.Floor("static shares, from the law", " %", 20, 5, 100*distance)
			} else {
				r.Ceiling(c.order+", from the law", " %", 3, 2, 100*math.Abs(distance))
			}
		})
	}
	o.Step(len(cases), len(cases), "done")
	r.Table = []*table.Table{t}
	return r, nil
}
