package brokers

import (
	"context"
	"fmt"
	"slices"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

const (
	topics     = 10
	topicRate  = 1000.0 // messages/s
	publishers = 100    // of a topic
	// margin is a limit's rate by that of its topic, and burst its burst: of Poisson
	// arrivals it delays one message in a thousand (ρ = 1/1.1, by the exact tail of
	// M/D/1), so that the 99th percentile is the broker's and not the bucket's.
	margin = 1.1
	burst  = 38
	// maxLag is the p99, in µs, of how late the generator may send, and maxStolen the
	// share of a processor that the host may take, for a run to count. On two cores
	// that nobody else uses the generator is 100 to 125 µs late (p99), because it writes
	// what comes together one after the other; latencies are from the write on.
	maxLag, maxStolen = 200, 0.05
)

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{
		{Name: "srtm/live", Title: "The broker as a process: throughput and latency with limits, without, and mosquitto's", Live: true, Run: runLive,
			About: `Ten topics of 100 publishers each, one subscriber to all, messages of 100 bytes, QoS 0; the broker has one
processor and the generator another. Throughput: as much as goes, with 2,000 messages under way, one or 32 a
write; the limits are so high that every message takes a token and none waits. Latency: Poisson, 1,000 messages/s a topic; each topic's limit is 1.1
times that with a burst of 38. The contenders take turns; medians of the rounds.`},
		{Name: "srtm/flood", Title: "One topic at ten times its rate: what the others see", Live: true, Run: runFlood,
			About: `The topics, limits and publishers of srtm/live at 1,000 messages/s a topic. In every other run the last topic's
publishers send ten times as much; the p99 of the others is compared with the runs beside. The same without limits, for comparison. Medians of the rounds.`},
	}
}

func streams(last float64) []stream {
	all := make([]stream, topics)
	for i := range all {
		all[i] = stream{topicRate, publishers}
	}
	all[topics-1].Rate *= last
	return all
}

// side is what one contender was measured at, round by round.
type side struct {
	contender
	single, batched, p50, p99, lag []float64
	lost                           int
	disturbed                      []string
}

// measured runs a load and notes what the machine did meanwhile.
func (s *side) measured(ctx context.Context, o order) (answer, error) {
	stolen := machine.WatchStolen()
	o.Addr = s.addr
	a, err := load(ctx, o)
	if share := stolen(); share > maxStolen {
		s.disturbed = append(s.disturbed, fmt.Sprintf("the host took %.0f %% of a processor from a run of %s", 100*share, s.name))
	}
	if a.Lag > maxLag {
		s.disturbed = append(s.disturbed, fmt.Sprintf("the generator sent %.0f µs late (p99) in a run of %s", a.Lag, s.name))
	}
	return a, err
}

func runLive(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rounds, length := 7, 4.0
	if o.Quick {
		rounds, length = 3, 2.0
	}
	sides, err := startLive(ctx)
	if err != nil {
		return nil, err
	}
	for n := range rounds {
		for i, s := range sides {
			o.Step(n*len(sides)+i, rounds*len(sides), s.name)
			if err := s.round(ctx, o.Seed+uint64(n), length); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Throughput and latency", Columns: []table.Column{{Name: "broker"}, {Name: "one a write", Unit: "msg/s", Format: "%.0f"}, {Name: "32 a write", Unit: "msg/s", Format: "%.0f"},
		{Name: "p50", Unit: "µs", Format: "%.0f"}, {Name: "p99", Unit: "µs", Format: "%.0f"}, {Name: "p99, least", Unit: "µs", Format: "%.0f"}, {Name: "p99, most", Unit: "µs", Format: "%.0f"},
		{Name: "sent late, p99", Unit: "µs", Format: "%.1f"}, {Name: "lost"}}}
	for _, s := range sides {
		t.Add(s.name, median(s.single), median(s.batched), median(s.p50), median(s.p99), slices.Min(s.p99), slices.Max(s.p99), median(s.lag), s.lost)
	}
	r.Table = append(r.Table, t)
	// sides: limits for the throughput, none, mosquitto, limits for the latency
	tight, free, peer, loose := sides[0], sides[1], sides[2], sides[3]
	beside := func(ours, theirs *side, bars func()) {
		r.On(experiment.Machine{Ours: ours.disturbed, Theirs: theirs.disturbed}, bars)
	}
	beside(loose, free, func() {
		r.Floor("throughput with limits by that without, one message a write", "", 0.8, 0.05, ratio(loose.single, free.single))
		r.Floor("throughput with limits by that without, 32 a write", "", 0.8, 0.05, ratio(loose.batched, free.batched))
	})
	beside(tight, free, func() {
		r.Ceiling("p99 at 10,000 msg/s with limits by that without", "", 1.3, 0.1, ratio(tight.p99, free.p99))
	})
	beside(tight, peer, func() {
		r.Ceiling("p99 at 10,000 msg/s with limits by mosquitto's", "", 1, 0.1, ratio(tight.p99, peer.p99))
	})
	return r, nil
}

// startLive starts the contenders.
func startLive(ctx context.Context) ([]*side, error) {
	var sides []*side
	for _, c := range []struct {
		name   string
		limits []engine.Limit
	}{{limited, limits(topicRate*margin, burst)}, {bare, nil}, {mosquitto, nil}, {limited + " that never bind", limits(1e8, 1e6)}} {
		var started contender
		var err error
		if c.name == mosquitto {
			started, err = startMosquitto(ctx)
		} else {
			started, err = startOurs(ctx, c.name, c.limits)
		}
		if err != nil {
			return nil, err
		}
		sides = append(sides, &side{contender: started})
	}
	return sides, nil
}

func limits(rate, burst float64) []engine.Limit {
	return []engine.Limit{{Filter: "lab/+", Rate: rate, Burst: burst}}
}

// round measures one contender once. One whose limits bind has no throughput of its
// own.
func (s *side) round(ctx context.Context, seed uint64, length float64) error {
	for _, batch := range []int{1, 32} {
		to := &s.single
		if batch > 1 {
			to = &s.batched
		}
		if s.name == limited {
			*to = append(*to, 0)
			continue
		}
		a, err := s.measured(ctx, order{Seed: seed, Streams: streams(1), Warmup: 0.3, Measure: length / 2, Window: 2000, Batch: batch})
		if err != nil {
			return err
		}
		*to = append(*to, a.Throughput)
		s.lost += a.Lost
	}
	a, err := s.measured(ctx, order{Seed: seed, Streams: streams(1), Warmup: 0.3, Measure: length})
	if err != nil {
		return err
	}
	all := a.Others
	s.p50, s.p99, s.lag = append(s.p50, all.P50), append(s.p99, all.P99), append(s.lag, a.Lag)
	return nil
}

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
		started, err := startOurs(ctx, c.name, c.limits)
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

// ratio returns the median, round by round, of a by b.
func ratio(a, b []float64) float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] / b[i]
	}
	return median(all)
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	if n == 0 {
		return 0
	}
	return (s[n/2] + s[(n-1)/2]) / 2
}
