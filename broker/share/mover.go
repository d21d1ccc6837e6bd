package share

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/placement"
)

const (
	// silentSteps is after how many steps without a report a node counts as down: 5 s by default, long after it has fallen back. What it
	// may let through until its grants are over stays its own.
	silentSteps = 5
	// recovery is for how many windows a node must meet all objectives with room to spare
	// before it may be given more than it was measured to serve: a minute by default.
	recovery = 6
	// maxChanges is how many changes of the state wait to be made. Others are decided
	// again in the next step.
	maxChanges = 64
	// changeTime bounds one change.
	changeTime = 10 * time.Second
)

// change is one change of the state.
type change struct {
	term  uint64
	what  string
	apply func(*place.State) error
	// topic, from, to and rate are of publishers that moved, filled in by apply.
	topic, from, to string
	rate            float64
}

// mover decides, for one term, which publishers leave a node. It runs on the node's
// goroutine.
type mover struct {
	l     *leader
	began mono.Time
	ends  mono.Time // of the window

	nodes   []string // that the migrations tell apart
	topics  map[string]*moving
	calm    map[string]int  // windows, by node with a measured capacity
	waiting map[string]bool // nodes whose change is on its way
}

// moving is what the mover knows of a topic.
type moving struct {
	objective float64
	migration *placement.Migration
	messages  map[string]float64 // of the window, by node
	// under is a migration under way: so much has to move still.
	under    bool
	asked    bool // a slice is on its way
	from, to string
	left     float64
	why      string
}

func newMover(l *leader, now mono.Time) *mover {
	return &mover{l: l, began: now, ends: now.Add(l.n.cfg.Window), topics: map[string]*moving{}, calm: map[string]int{}, waiting: map[string]bool{}}
}

// goOn begins a window of a term that goes on. Whatever kept this node from leading may have kept others from being heard: they have as long as in a
// new term to say something.
func (m *mover) goOn(now mono.Time) {
	m.began, m.ends = now, now.Add(m.l.n.cfg.Window)
	for _, t := range m.topics {
		clear(t.messages)
	}
}

// reported counts what a node saw.
func (m *mover) reported(r report) {
	for _, o := range r.Topics {
		if t := m.topics[o.Topic]; t != nil {
			t.messages[r.Node] += o.Messages
		}
	}
}

// step moves what is to move, and looks for more at the end of a window.
func (m *mover) step(now mono.Time, s *place.State) {
	m.silent(now, s)
	for topic := range m.topics {
		if s.Topics[topic] == nil {
			delete(m.topics, topic)
		}
	}
	nodes, brokers := s.Brokers()
	if !slices.Equal(nodes, m.nodes) { // their numbers are others
		m.nodes, m.topics = nodes, map[string]*moving{}
	}
	for _, topic := range slices.Sorted(maps.Keys(s.Topics)) {
		t := s.Topics[topic]
		wanted := t.Wanted()
		switch old := m.topics[topic]; {
		case old == nil:
			m.topics[topic] = &moving{objective: wanted, migration: placement.NewMigration(wanted, len(nodes)), messages: map[string]float64{}}
		case old.objective != wanted: // what was seen stays, or publishers that ask for one and for another would keep others where they are
			old.objective = wanted
			old.migration.SetObjective(wanted)
		}
	}
	if now >= m.ends {
		m.window(now, s, brokers)
		m.ends = now.Add(m.l.n.cfg.Window)
	}
	for topic, t := range m.topics {
		m.slice(topic, t, s)
	}
}

// silent notes nodes that have not reported for long, or are about to end, and those that do again.
func (m *mover) silent(now mono.Time, s *place.State) {
	for _, node := range slices.Sorted(maps.Keys(s.Nodes)) {
		last := max(m.l.heard[node], m.began)
		down := now.Sub(last) > silentSteps*m.l.stepTime() || m.l.dead(now, node) || m.leaves(node, s)
		if !down && m.l.heard[node] == 0 { // it has had no time to say something
			continue
		}
		if s.Nodes[node].Down == down {
			delete(m.waiting, node)
		} else if !m.waiting[node] {
			m.waiting[node] = m.ask(&change{what: fmt.Sprintf("node %s, down: %v", node, down), apply: func(s *place.State) error { return s.SetDown(node, down) }})
		}
	}
}

// leaves reports whether a node is about to end, and there is another one for what it holds.
func (m *mover) leaves(node string, s *place.State) bool {
	if !m.l.reports[node].Leaving {
		return false
	}
	for name, other := range s.Nodes {
		if name != node && !other.Down && !other.Draining {
			return true
		}
	}
	return false
}

// window judges what nodes measured in the window that is over.
func (m *mover) window(now mono.Time, s *place.State, brokers []placement.Broker) {
	worst := make([]float64, len(m.nodes)) // p99 by objective
	for _, topic := range slices.Sorted(maps.Keys(m.topics)) {
		t := m.topics[topic]
		p99s, rates := make([]float64, len(m.nodes)), make([]float64, len(m.nodes))
		for i, node := range m.nodes {
			rates[i] = t.messages[node] / m.l.n.cfg.Window.Seconds()
			p99s[i] = m.l.reports[node].processing(topic)
			if rates[i] > 0 {
				worst[i] = max(worst[i], p99s[i]/t.objective)
			}
		}
		clear(t.messages)
		if t.under {
			continue
		}
		if move, ok := t.migration.Window(now, p99s, rates, brokers); ok && move.Rate > 0 {
			t.under, t.from, t.to, t.left = true, m.nodes[move.From], m.nodes[move.To], move.Rate
			t.why = fmt.Sprintf("processing p99 %.3g ms at %s, objective %.3g ms", 1e3*p99s[move.From], t.from, 1e3*t.objective)
			m.l.n.log.Info("publishers move", "topic", topic, "from", t.from, "to", t.to, "rate", t.left, "because", t.why)
		}
	}
	m.recover(s, worst)
}

// recover takes back what was measured of nodes that met every objective with room to
// spare for long.
func (m *mover) recover(s *place.State, worst []float64) {
	for i, node := range m.nodes {
		if s.Nodes[node].Measured == 0 || worst[i] > 1-placement.Tolerance {
			delete(m.calm, node)
			continue
		}
		if m.calm[node]++; m.calm[node] >= recovery {
			m.ask(&change{what: "node " + node + " recovered", apply: func(s *place.State) error { return s.Recovered(node) }})
			delete(m.calm, node)
		}
	}
}

// slice has a part of a migration made: as much as leaves no publisher without tokens,
// see placement.Slice, and one publisher at least.
func (m *mover) slice(topic string, t *moving, s *place.State) {
	if !t.under || t.asked {
		return
	}
	of := s.Topics[topic]
	sending, largest := 0.0, 0.0
	for _, p := range of.Publishers {
		sending += p.Rate
		if p.Node == t.from {
			largest = max(largest, p.Rate)
		}
	}
	rate := min(t.left, max(largest, placement.Slice(placement.Bucket{Rate: of.Rate, Burst: of.Burst}, sending)))
	c, why := &change{what: "publishers of " + topic, topic: topic, from: t.from, to: t.to}, t.why
	c.apply = func(s *place.State) error {
		if c.rate = s.Shift(topic, c.from, c.to, rate, why); c.rate == 0 {
			return errNothing
		}
		return nil
	}
	t.asked = m.ask(c)
}

// errNothing is the error of a slice that moves no publisher.
var errNothing = fmt.Errorf("share: no publisher is left to move")

// ask has a change made, and reports whether there was room for it.
func (m *mover) ask(c *change) bool {
	c.term = m.l.leads
	select {
	case m.l.changes <- c:
		return true
	default:
		return false
	}
}

// change makes changes until ctx ends.
func (l *leader) change(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-l.changes:
			try, cancel := context.WithTimeout(ctx, changeTime)
			if _, err := l.n.placer.Update(try, c.apply); err != nil {
				l.n.log.Debug("the state is not changed", "what", c.what, "error", err)
				c.rate = 0
			}
			cancel()
			select {
			case l.made <- c:
			case <-ctx.Done():
				return
			}
		}
	}
}

// follow lets the parts of a bucket go with the publishers that moved.
func (l *leader) follow(now mono.Time, c *change) {
	if c.term != l.leads || l.mover == nil {
		return
	}
	t := l.mover.topics[c.topic]
	if t == nil || !t.under || t.from != c.from || t.to != c.to {
		l.mover.waiting = map[string]bool{} // what was not made is asked for again
		return
	}
	t.asked = false
	if t.left -= c.rate; c.rate == 0 || t.left < math.SmallestNonzeroFloat32 {
		t.under = false
	}
	if s := l.topics[c.topic]; s != nil && c.rate > 0 {
		from, to := slices.Index(s.members, c.from), slices.Index(s.members, c.to)
		if from >= 0 && to >= 0 {
			s.adaptor.Moved(now, from, to, c.rate)
		}
	}
}

// processing is the p99, in seconds, that a node told of a topic.
func (r report) processing(topic string) float64 {
	for _, o := range r.Topics {
		if o.Topic == topic {
			return o.Processing
		}
	}
	return 0
}
