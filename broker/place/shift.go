package place

import (
	"fmt"
	"slices"

	"github.com/spillgate/spillgate/internal/placement"
)

// Brokers describes the nodes that may hold something to a migration, with all that they
// have been given, and returns their names in the same order.
func (s *State) Brokers() (nodes []string, brokers []placement.Broker) {
	nodes = s.nodes()
	loads := s.loads("")
	for _, n := range nodes {
		brokers = append(brokers, placement.Broker{Capacity: s.Nodes[n].usable(), Load: loads[n]})
	}
	return nodes, brokers
}

// Shift moves publishers of a topic from one node to another, as many of each group as of
// the others, up to a rate in messages a second. Nothing is planned for from beyond
// what it keeps until Measured is taken back. Shift returns the rate that moved: none where the nodes or
// the topic are gone meanwhile, or a single publisher is more than the rate.
func (s *State) Shift(topic, from, to string, rate float64, why string) (moved float64) {
	t, source := s.Topics[topic], s.Nodes[from]
	_, ok := s.Nodes[from]
	target, known := s.Nodes[to]
	if t == nil || from == to || !ok || !known || target.Draining || target.Down {
		return 0
	}
	loads := s.loads("")
	rate = min(rate, target.usable()-loads[to])
	l := s.list(topic)
	at := make([]int, len(l.ids))
	for i, id := range l.ids {
		at[i] = placement.Nowhere
		if t.Publishers[id].Node == from {
			at[i] = 0
		}
	}
	for _, i := range (placement.Topic{Publishers: l.publishers}).MovesOf(placement.Move{From: 0, To: 1, Rate: max(rate, 0)}, at) {
		p := t.Publishers[l.ids[i]]
		if moved+p.Rate > rate*(1+1e-9) {
			continue
		}
		moved += p.Rate
		p.Node = to
		t.Publishers[l.ids[i]] = p
		s.moved(Move{Topic: topic, Publisher: l.ids[i], From: from, To: to, Why: why})
	}
	if moved > 0 {
		source.Measured = max(loads[from]-moved, 1)
		s.Nodes[from] = source
	}
	return moved
}

// Recovered takes back what was measured of a node: it may be given all of its capacity
// again, when something is planned.
func (s *State) Recovered(name string) error {
	n, ok := s.Nodes[name]
	if !ok {
		return unknown("node", name)
	}
	n.Measured = 0
	s.Nodes[name] = n
	s.fill()
	return nil
}

// moved notes a move.
func (s *State) moved(m Move) {
	s.Moves = append(s.Moves, m)
	if over := len(s.Moves) - maxMoves; over > 0 {
		s.Moves = slices.Delete(s.Moves, 0, over)
	}
}

// because says why the moves of the change at hand were made.
func (s *State) because(why string) {
	for i := range s.Moves {
		if s.Moves[i].At.IsZero() {
			s.Moves[i].Why = why
		}
	}
}

// Condition says what is particular about a node.
func (n Node) Condition() string {
	switch {
	case n.Down:
		return "down"
	case n.Draining:
		return "draining"
	case n.Measured > 0:
		return fmt.Sprintf("measured: %.6g/s", n.Measured)
	}
	return ""
}
