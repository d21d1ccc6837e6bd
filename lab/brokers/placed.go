package brokers

import (
	"context"
	"fmt"
	"slices"
	"time"

	brokerplace "github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/placement"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

const (
	// Three nodes and the generator share two processors, so publishers send half of the
	// paper's 10 messages a second, and the objective is twice its 1 ms: what a split
	// bucket adds grows by the same factor.
	fleet         = 1000 // publishers
	fleetRate     = 5.0  // messages/s of each
	fleetNodes    = 3
	objective     = 0.002 // seconds
	together      = 25    // publishers of a group
	grantTime     = 60 * time.Second
	roomForAll    = 20_000.0 // capacity of a node that can hold the topic alone
	placedTopic   = "lab/00"
	fleetLoad     = 1 / 1.1 // of the bucket, as in the paper
	fleetSettling = 4.0     // seconds until the parts of the bucket have followed the traffic
	// forgetting is until the leader, which looks once a second, has seen that the topic is gone: else the next one begins with
	// the parts that followed from the traffic before.
	forgetting = 2500 * time.Millisecond
)

// case of srtm/live: how publishers send, and what a node can hold.
type fleetCase struct {
	name     string
	group    int
	capacity float64
	nodes    int // that the placement should use
}

var fleetCases = []fleetCase{
	{"each on its own, which one node takes", 1, roomForAll, 1},
	{"in groups of 25, which two nodes take in time", together, roomForAll, 2},
}

// way is how publishers come to their nodes.
type way struct {
	name  string
	dealt int // publishers, one after the other, to each node in turn; 0: the placer says
}

// ways returns the contenders, the one that is judged first and the placer last. An even split knows no groups, so those that
// fire together are where a gateway, an address or a name in common brings them: all at one node. Dealt out one by one they are divided
// as evenly as the placer does it, by their order alone: that is shown, and not judged. So would be a split by chance, which over three
// nodes adds between nothing and some tens of ms, by the draw.
func (f fleetCase) ways() []way {
	if f.group == 1 {
		return []way{{"an even split", 1}, {"spillgate place", 0}}
	}
	return []way{{"an even split of the groups", f.group}, {"each group divided in turn", 1}, {"spillgate place", 0}}
}

// limits returns those of the topic: the smallest burst behind which one message in two
// hundred waits, since waits come in clusters that one run may have more of than another, and no more of them do by the arrivals of
// any round. As in the paper, the undivided bucket meets the objective, so that what is late is so by the division.
func (f fleetCase) limits(rounds []order) brokerplace.Limits {
	l := brokerplace.Limits{Rate: fleet * fleetRate / fleetLoad, Burst: float64(f.group) * placement.SmallestBurst(fleetLoad, placement.P99/2), Objective: objective, Each: fleetRate}
	for _, o := range rounds {
		l.Burst = max(l.Burst, placement.Need(o.instants(), l.Rate, placement.P99/2, 0))
	}
	return l
}

// order returns what the generator does in a round.
func (f fleetCase) order(seed uint64, length float64) order {
	return order{Protocol: mqtt5, Seed: seed, Streams: []stream{{fleet * fleetRate, fleet}}, Together: f.group, Warmup: fleetSettling, Measure: length}
}

func runPlaced(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rounds, length := 3, 20.0
	if o.Quick {
		rounds, length = 1, 3.0
	}
	where, _ := cpus()
	c, err := startCluster(ctx, plan{nodes: fleetNodes, capacity: roomForAll, cpus: where})
	if err != nil {
		return nil, err
	}
	defer c.stop()
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "p99 from a publisher's write to the subscriber's read", Columns: []table.Column{{Name: "publishers"}, {Name: "placed by"}, {Name: "nodes"},
		{Name: "p50", Unit: "ms", Format: "%.2f"}, {Name: "p99", Unit: "ms", Format: "%.2f"}, {Name: "p99, most", Unit: "ms", Format: "%.2f"}, {Name: "messages"}, {Name: "sent late, p99", Unit: "µs", Format: "%.0f"}}}
	for _, f := range fleetCases {
		ways := f.ways()
		runs := make([]fleetRun, len(ways))
		var orders []order
		for n := range rounds {
			orders = append(orders, f.order(o.Seed+uint64(n), length))
		}
		limits := f.limits(orders)
		for n, order := range orders {
			for i, w := range ways {
				o.Step(len(ways)*n+i, len(ways)*rounds, f.name+", "+w.name)
				if err := runs[i].measure(ctx, c, f, w, limits, order); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", f.name, w.name, err)
				}
			}
		}
		for i, w := range ways {
			s := &runs[i]
			t.Add(f.name, w.name, s.nodes, median(s.p50), median(s.p99), slices.Max(s.p99), s.messages, median(s.lag))
		}
		even, placed := &runs[0], &runs[len(ways)-1]
		r.On(experiment.Machine{Ours: placed.disturbed}, func() {
			r.Ceiling(fmt.Sprintf("p99 where placed (%s)", f.name), " ms", objective*1e3, 0, median(placed.p99))
			r.Ceiling(fmt.Sprintf("nodes (%s)", f.name), "", float64(f.nodes), 0, float64(placed.nodes))
		})
		r.On(experiment.Machine{Theirs: even.disturbed}, func() {
			r.Floor(fmt.Sprintf("p99 of an even split (%s)", f.name), " ms", objective*1e3, 0, median(even.p99))
		})
	}
	r.Table = append(r.Table, t)
	return r, nil
}

// fleetRun is what was measured of one way to place.
type fleetRun struct {
	p50, p99, lag   []float64
	nodes, messages int
	disturbed       []string
}

// measure places the topic in one of the ways, lets the publishers send, and notes
// what the subscriber saw.
func (s *fleetRun) measure(ctx context.Context, c *cluster, f fleetCase, w way, limits brokerplace.Limits, o order) error {
	if err := c.describe(ctx, f, w, limits); err != nil {
		return err
	}
	// What came before the nodes have their parts would wait for a minute, and another way to place was before this one.
	if err := c.await(ctx, "the bucket is divided", grantTime, func(ctx context.Context) bool { return c.divided(ctx, placedTopic) }); err != nil {
		return err
	}
	o.Addr, o.Dealt, o.Follow = c.nodes[0].cfg.Listen[0], w.dealt, w.dealt == 0
	for _, n := range c.nodes {
		o.Nodes = append(o.Nodes, n.cfg.Listen[0])
	}
	stolen := machine.WatchStolen()
	a, err := load(ctx, o)
	if err != nil {
		return err
	}
	if share := stolen(); share > maxStolen {
		s.disturbed = append(s.disturbed, fmt.Sprintf("the host took %.0f %% of a processor", 100*share))
	}
	if limit := float64(maxLag); a.Lag > limit {
		s.disturbed = append(s.disturbed, fmt.Sprintf("the generator sent %.0f µs late (p99), expected at most %.0f", a.Lag, limit))
	}
	all := a.Latency[0]
	s.p50, s.p99, s.lag = append(s.p50, all.P50/1e3), append(s.p99, all.P99/1e3), append(s.lag, a.Lag)
	s.messages += all.N
	state, _, err := c.placer.Load(ctx)
	if err != nil {
		return err
	}
	parts, nowhere, err := state.Parts(placedTopic)
	if err != nil || nowhere > 0 {
		return fmt.Errorf("%d publishers have no place, %w", nowhere, err)
	}
	s.nodes = max(s.nodes, len(parts))
	return nil
}

// describe tells the placer of the topic, and for an even split where each publisher is.
func (c *cluster) describe(ctx context.Context, f fleetCase, w way, limits brokerplace.Limits) error {
	if _, err := c.placer.Update(ctx, func(s *brokerplace.State) error {
		if s.Topics[placedTopic] == nil {
			return nil
		}
		return s.RemoveTopic(placedTopic)
	}); err != nil {
		return err
	}
	if err := c.await(ctx, "the topic is forgotten", grantTime, func(ctx context.Context) bool { return c.granted(ctx, placedTopic) == 0 }); err != nil {
		return err
	}
	if err := pause(ctx, forgetting); err != nil {
		return err
	}
	_, err := c.placer.Update(ctx, func(s *brokerplace.State) error {
		for _, n := range c.nodes {
			if err := s.SetNode(n.spec.Name, brokerplace.Node{Address: n.cfg.Listen[0], Capacity: f.capacity}); err != nil {
				return err
			}
		}
		if err := s.SetTopic(placedTopic, limits); err != nil {
			return err
		}
		if w.dealt == 0 {
			joins := make([]brokerplace.Join, fleet)
			for i := range joins {
				joins[i] = brokerplace.Join{Publisher: publisher(0, i), Group: groupOf(i, f.group)}
			}
			return s.Join(placedTopic, joins...)
		}
		for i := range fleet {
			s.Topics[placedTopic].Publishers[publisher(0, i)] = brokerplace.Publisher{Rate: fleetRate, Node: c.nodes[i/w.dealt%len(c.nodes)].spec.Name}
		}
		return nil
	})
	return err
}
