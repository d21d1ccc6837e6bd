package place

import (
	"maps"
	"math"
	"slices"

	"github.com/spillgate/spillgate/internal/placement"
)

// listed is a topic in the form of the placement: publishers by their names, nodes by theirs.
type listed struct {
	ids        []string
	publishers []placement.Publisher
	nodes      []string
	brokers    []placement.Broker
	cost       float64 // seconds that a message takes of the fastest node
}

// list describes a topic and the nodes as they are without it.
func (s *State) list(topic string) listed {
	t := s.Topics[topic]
	l := listed{ids: slices.Sorted(maps.Keys(t.Publishers)), nodes: s.nodes()}
	groups := map[string]uint32{"": 0}
	for _, id := range l.ids {
		p := t.Publishers[id]
		if _, ok := groups[p.Group]; !ok {
			groups[p.Group] = uint32(len(groups))
		}
		l.publishers = append(l.publishers, placement.Publisher{Rate: p.Rate, Group: groups[p.Group]})
	}
	fastest := 0.0
	for _, n := range l.nodes {
		fastest = max(fastest, s.Nodes[n].Capacity) // a node that measured less has less of its time to spare
	}
	loads := s.loads(topic)
	for _, n := range l.nodes {
		b := placement.Broker{Capacity: s.Nodes[n].usable(), Load: loads[n]}
		// A slower node is the fastest one with less of its time to spare.
		b.Busy = max(1-b.Residual()/fastest, 1e-9)
		l.brokers = append(l.brokers, b)
	}
	l.cost = 1 / fastest
	return l
}

// distribution returns the decision about a topic with all of its publishers, nil if there is nothing to decide.
func (s *State) distribution(topic string, l listed) *placement.Distribution {
	if len(l.nodes) == 0 || len(l.ids) == 0 {
		return nil
	}
	t := s.Topics[topic]
	d, err := placement.NewDistribution(placement.Topic{
		Bucket: placement.Bucket{Rate: t.Rate, Burst: t.Burst}, Objective: t.Wanted(), Publishers: l.publishers, Batch: t.Batch,
	}, l.brokers, &placement.Model{Cost: l.cost})
	if err != nil {
		return nil // limits are checked when they are set
	}
	return d
}

// plan decides anew which nodes hold a topic, and moves no publisher that can stay.
func (s *State) plan(topic string) {
	t, l := s.Topics[topic], s.list(topic)
	quotas := make([]float64, len(l.nodes))
	t.Planned = 0
	for _, p := range l.publishers {
		t.Planned += p.Rate
	}
	if d := s.distribution(topic, l); d != nil {
		for i, b := range d.Plan() {
			if b != placement.Nowhere {
				quotas[b] += l.publishers[i].Rate
			}
		}
	}
	s.settle(topic, l, l.thin(t, quotas), quotas)
}

// thin returns the node of each publisher that may stay, as many of each group as of the others where
// some must go, and Nowhere for the rest.
func (l listed) thin(t *Topic, quotas []float64) []int {
	at := make([]int, len(l.ids))
	for i := range at {
		at[i] = placement.Nowhere
	}
	for b, node := range l.nodes {
		var which []int
		var here []placement.Publisher
		total := 0.0
		for i, id := range l.ids {
			if t.Publishers[id].Node == node {
				which, here = append(which, i), append(here, l.publishers[i])
				total += l.publishers[i].Rate
			}
		}
		keep := min(quotas[b], total)
		for k, place := range placement.Assign(here, []float64{keep, total - keep}) {
			if place == 0 && keep > 0 {
				at[which[k]] = b
			}
		}
	}
	return at
}

// settle gives those that are nowhere a place within quotas, and after that wherever there is room.
func (s *State) settle(topic string, l listed, at []int, quotas []float64) {
	left := slices.Clone(quotas)
	room := slices.Clone(l.brokers)
	for i, b := range at {
		if b != placement.Nowhere {
			left[b] -= l.publishers[i].Rate
			room[b].Load += l.publishers[i].Rate
		}
	}
	for b := range left {
		left[b] = max(0, left[b])
	}
	l.assign(at, room, left)
	if free, rate := l.free(at); len(free) > 0 {
		rest, _ := placement.Quotas(room, rate, 0)
		l.assign(at, room, rest)
	}
	s.write(topic, l, at)
}

// free returns the publishers that are nowhere, and their rate.
func (l listed) free(at []int) (which []int, rate float64) {
	for i, b := range at {
		if b == placement.Nowhere {
			which = append(which, i)
			rate += l.publishers[i].Rate
		}
	}
	return which, rate
}

// assign gives those that are nowhere a place by quotas, where the node has room.
func (l listed) assign(at []int, room []placement.Broker, quotas []float64) {
	which, _ := l.free(at)
	some := make([]placement.Publisher, len(which))
	for k, i := range which {
		some[k] = l.publishers[i]
	}
	for k, b := range placement.Assign(some, quotas) {
		if b != placement.Nowhere && some[k].Rate <= room[b].Residual()*(1+1e-9) {
			at[which[k]] = b
			room[b].Load += some[k].Rate
		}
	}
}

// write records where publishers are, and which have moved.
func (s *State) write(topic string, l listed, at []int) {
	t := s.Topics[topic]
	for i, id := range l.ids {
		p, to := t.Publishers[id], ""
		if at[i] != placement.Nowhere {
			to = l.nodes[at[i]]
		}
		if p.Node != to {
			if p.Node != "" {
				s.moved(Move{Topic: topic, Publisher: id, From: p.Node, To: to})
			}
			p.Node = to
			t.Publishers[id] = p
		}
	}
}

// grown is by how much what publishers send must have changed, by ratio, for the number of nodes to be
// decided again: a tenth of what topics usually have to spare.
const grown = 0.01

// place gives publishers without a place one at the nodes that the topic has, each group spread over them as
// the rest is. The topic is planned anew if these have no room, or what it sends has changed.
func (s *State) place(topic string) {
	t, l := s.Topics[topic], s.list(topic)
	used := map[string]bool{}
	total := 0.0
	for i, id := range l.ids {
		total += l.publishers[i].Rate
		if n := t.Publishers[id].Node; n != "" {
			used[n] = true
		}
	}
	quotas, room := make([]float64, len(l.nodes)), 0.0
	for b, node := range l.nodes {
		if used[node] {
			quotas[b] = total / float64(len(used))
			room += l.brokers[b].Residual()
		}
	}
	if math.Abs(total-t.Planned) > grown*t.Planned || room < total {
		s.plan(topic)
		return
	}
	s.settle(topic, l, l.thin(t, everything(len(l.nodes))), quotas)
}

// everything lets all stay.
func everything(n int) []float64 {
	quotas := make([]float64, n)
	for i := range quotas {
		quotas[i] = math.Inf(1)
	}
	return quotas
}

// fill gives a place to publishers that have none, where there is room again.
func (s *State) fill() {
	for _, topic := range slices.Sorted(maps.Keys(s.Topics)) {
		for _, p := range s.Topics[topic].Publishers {
			if p.Node == "" {
				s.place(topic)
				break
			}
		}
	}
}
