package brokers

import (
	"context"
	"fmt"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func runFlood(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rounds, length := 9, 4.0
	if o.Quick {
		rounds, length = 4, 2.5
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "The others' latency", Columns: []table.Column{{Name: "broker"}, {Name: "calm p50", Unit: "µs", Format: "%.0f"}, {Name: "flood p50", Unit: "µs", Format: "%.0f"},
		{Name: "calm p99", Unit: "µs", Format: "%.0f"}, {Name: "flood p99", Unit: "µs", Format: "%.0f"}, {Name: "moved", Unit: "%", Format: "%.0f"},
		{Name: "flooded topic delivered", Unit: "msg/s", Format: "%.0f"}}}
	for _, c := range []struct {
		name   string
		limits []engine.Limit
	}{{limited, limits(topicRate*margin, burst)}, {bare, nil}} {
		started, err := startOurs(ctx, c.name, mqtt, c.limits)
		if err != nil {
			return nil, err
		}
		calm, flood := &side{contender: started}, &side{contender: started}
		var delivered []float64
		for n := range rounds {
			for i, s := range []*side{calm, flood} {
				o.Step(2*n+i, 2*rounds, c.name)
				a, err := s.measured(ctx, order{Seed: o.Seed + uint64(n), Streams: streams(map[*side]float64{calm: 1, flood: 10}[s]), Warmup: 0.5, Measure: length})
				if err != nil {
					return nil, fmt.Errorf("%s: %w", c.name, err)
				}
				s.p50, s.p99 = append(s.p50, a.Others.P50), append(s.p99, a.Others.P99)
				if s == flood {
					delivered = append(delivered, float64(a.Latency[topics-1].N)/length)
				}
			}
		}
		moved := 100 * (ratio(flood.p99, calm.p99) - 1)
		t.Add(c.name, median(calm.p50), median(flood.p50), median(calm.p99), median(flood.p99), moved, median(delivered))
		if c.name == limited {
			r.On(experiment.Machine{Ours: append(calm.disturbed, flood.disturbed...)}, func() {
				r.Ceiling("what a flood on one topic adds to the others' p99", " %", 10, 5, moved)
			})
		}
	}
	r.Table = append(r.Table, t)
	return r, nil
}
