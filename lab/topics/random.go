package topics

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/spillgate/spillgate/internal/placement"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// draw returns nodes with loads and topics, all by chance. Together the topics need up to two thirds of what the
// nodes have to spare.
func draw(rng *rand.Rand) (nodes []node, topics []traffic) {
	nodes = idle(3 + rng.IntN(6))
	room := 0.0
	for i := range nodes {
		nodes[i].load = 60_000 * rng.Float64()
		room += 1 - nodes[i].busy()
	}
	room *= 2. / 3
	for range 1 + rng.IntN(4) {
		t := traffic{publishers: 100 + rng.IntN(1900), rate: 2 + 8*rng.Float64(), batch: []int{1, 10}[rng.IntN(2)], periodic: rng.IntN(3) == 0, phases: rng.Uint64()}
		if t.group = []int{0, 5, 10, 25}[rng.IntN(4)]; t.group > 0 && rng.IntN(2) == 0 {
			t.spread = 4e-3 * rng.Float64()
		}
		if room -= t.total() * t.cost(); room < 0 {
			break
		}
		topics = append(topics, t)
	}
	return nodes, topics
}

// cost is the seconds of a node that its messages take.
func (t traffic) cost() float64 { return plain().cost(t) }

// fewest returns the fewest nodes on which an even split, groups spread, meets the objective clearly, 0 if
// none does: whatever the placement does, it can be no worse than that.
func (s setting) fewest(judged []burst) int {
	for k := 1; k <= len(s.nodes); k++ {
		quotas, rest := placement.Quotas(s.brokers(), s.traffic.total(), k)
		if rest > 0 {
			continue
		}
		at := placement.Assign(s.traffic.list(), quotas)
		if o := s.judge(judged, at); o.lost == 0 && o.p99 <= 0.9*objective {
			return o.brokers
		}
	}
	return 0
}

// broken returns what of a placement does not hold.
func (s setting) broken(at []int) (why string) {
	load := make([]float64, len(s.nodes))
	for p, b := range at {
		if b < placement.Nowhere || b >= len(s.nodes) {
			return fmt.Sprintf("publisher %d is at node %d of %d", p, b, len(s.nodes))
		}
		if b != placement.Nowhere {
			load[b] += s.traffic.rate
		}
	}
	if len(at) != s.traffic.publishers {
		return fmt.Sprintf("%d publishers of %d", len(at), s.traffic.publishers)
	}
	for b, n := range s.nodes {
		if busy := n.busy() + load[b]*s.traffic.cost(); load[b] > 0 && busy > 1+1e-9 {
			return fmt.Sprintf("node %d is busy for %.3f of its time", b, busy)
		}
	}
	return ""
}

// met allows a tenth, since a placement is judged with other chance than it was found with.
func (o outcome) met() bool { return o.lost == 0 && o.p99 <= objective*1.1 }

// tally is what a contender did in all worlds.
type tally struct {
	placed, possible, met, missed int // topics
	more                          int // nodes beyond the fewest, in all
	worst                         float64
}

// take counts a topic.
func (t *tally) take(o outcome, fewest int) {
	t.placed++
	if o.met() {
		t.met++
	}
	if fewest == 0 {
		return
	}
	t.possible++
	t.worst = max(t.worst, o.p99)
	if !o.met() {
		t.missed++
	}
	t.more += o.brokers - fewest
}

// worlds is srtm/random.
func worlds() experiment.Experiment {
	return experiment.Experiment{Name: "srtm/random", Title: "Topics, groups and brokers by chance", Run: runRandom,
		About: "Three to eight brokers with loads by chance; topics by chance arrive one after the other, and find the load of those before; then the broker that holds the largest part of the last one dies, and that topic is placed anew. " +
			"Where an even split over some number of brokers meets 0.9 of the objective on the very messages that all are judged on, a placement exists: Spillgate, which has not seen these, must meet the objective there to within a tenth."}
}

// trial is srtm/random at work.
type trial struct {
	contenders []contender
	tallies    []tally
	seconds    float64
	broken     int
	notes      []string
}

// topic has every contender place a topic, and returns the placement of the last one, which is ours.
func (t *trial) topic(name string, s setting, seed uint64) (ours []int) {
	judged := s.traffic.play(judging(seed), t.seconds)
	fewest := s.fewest(judged)
	last := len(t.contenders) - 1
	for k, c := range t.contenders {
		at, _ := c.place(s, seed)
		q := s.judge(judged, at)
		t.tallies[k].take(q, fewest)
		if k < last {
			continue
		}
		if why := s.broken(at); why != "" {
			t.broken++
			t.notes = append(t.notes, name+": "+why)
		}
		if fewest > 0 && !q.met() {
			t.notes = append(t.notes, fmt.Sprintf("%s: %+v on %d of %d nodes, p99 %.2f ms, %d without a place; %d nodes would do", name, s.traffic, q.brokers, len(s.nodes), q.p99*ms, q.lost, fewest))
		}
		ours = at
	}
	return ours
}

func runRandom(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	r := &experiment.Result{Quick: o.Quick}
	n, run := 20, trial{contenders: named("even over all", "concentrate", "max-min", "Spillgate"), seconds: 60}
	if o.Quick {
		n, run.seconds = 10, 30
	}
	run.tallies = make([]tally, len(run.contenders))
	for w := range n {
		seed := o.Seed + uint64(w)*0x9e3779b9
		nodes, topics := draw(chance(seed, 0x7264))
		for i, t := range topics {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			s := setting{traffic: t, bucket: t.bucket(chance(seed, 0x62+uint64(i)), nil), nodes: nodes}
			if i == len(topics)-1 && len(nodes) > 3 { // it also finds one node less
				s = s.without(s.largest(run.contenders[len(run.contenders)-1], seed))
			}
			nodes = s.loaded(run.topic(fmt.Sprintf("world %d, topic %d", w, i), s, seed))
		}
		o.Step(w+1, n, fmt.Sprintf("world %d", w))
	}
	t := &table.Table{Title: fmt.Sprintf("%d worlds", n), Columns: []table.Column{{Name: "contender"}, {Name: "topics"}, {Name: "met"}, {Name: "a placement exists"}, {Name: "of these missed"}, {Name: "nodes beyond the fewest"}, {Name: "worst p99", Unit: "ms", Format: "%.2f"}}}
	for k, c := range run.contenders {
		q := run.tallies[k]
		t.Add(c.name, q.placed, q.met, q.possible, q.missed, float64(q.more)/float64(max(1, q.possible)), q.worst*ms)
	}
	ours := run.tallies[len(run.tallies)-1]
	r.Ceiling("missed though a placement exists", "", 0, 0, float64(ours.missed))
	r.Ceiling("invariants broken", "", 0, 0, float64(run.broken))
	r.Ceiling("nodes beyond the fewest, mean", "", 0.5, 0, float64(ours.more)/math.Max(1, float64(ours.possible)))
	r.Floor("topics for which a placement exists", "", float64(n)/2, 0, float64(ours.possible))
	r.Table, r.Notes = []*table.Table{t}, run.notes
	return r, nil
}

// largest returns the node that gets the most of a topic.
func (s setting) largest(c contender, seed uint64) int {
	at, _ := c.place(s, seed)
	count := make([]int, len(s.nodes))
	for _, b := range at {
		if b != placement.Nowhere {
			count[b]++
		}
	}
	return slices.Index(count, slices.Max(count))
}

// without returns the setting after a node has died. What others had there is gone with it.
func (s setting) without(node int) setting {
	s.nodes = slices.Delete(slices.Clone(s.nodes), node, node+1)
	return s
}

// loaded returns the nodes with the topic.
func (s setting) loaded(at []int) []node {
	nodes := slices.Clone(s.nodes)
	for _, b := range at {
		if b != placement.Nowhere {
			nodes[b].load += s.traffic.rate * s.traffic.cost() / (traffic{batch: 10}).cost()
		}
	}
	return nodes
}
