package place

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/placement"
)

// Limits. What is beyond one is refused and says so.
const (
	maxNodes      = 1000   // of all
	maxTopics     = 10_000 // of all
	maxPublishers = 100_000
	maxName       = 200 // bytes, of a topic, publisher, group or node
	maxMoves      = 1000
	maxObjective  = 3600 // seconds
	// MaxRate is of a publisher, topic or node, in messages a second.
	MaxRate = 1e9
)

// State is everything that is known. Its methods change it, or return an error and leave it as it was.
type State struct {
	Nodes  map[string]Node   `json:"nodes"`
	Topics map[string]*Topic `json:"topics"`
	// Moves are the last ones, the latest last.
	Moves []Move `json:"moves,omitempty"`
}

// Node is a broker.
type Node struct {
	// Address is where clients find it, as host:port. Older versions took any text.
	Address string `json:"address"`
	// Capacity is what it serves within its topics' objectives, in messages a second.
	Capacity float64 `json:"capacity"`
	// Draining nodes hold nothing and get nothing. The same holds of Down ones, which the
	// cluster has not heard of for a while; it says so, and takes it back.
	Draining bool `json:"draining,omitempty"`
	Down     bool `json:"down,omitempty"`
	// Measured is what it served when it was found to miss an objective, less what was
	// moved away then, in messages a second; 0 where none was missed lately.
	Measured float64 `json:"measured_capacity,omitempty"`
}

// usable is what the node may be given, in messages a second.
func (n Node) usable() float64 {
	if n.Measured > 0 {
		return min(n.Capacity, n.Measured)
	}
	return n.Capacity
}

// Limits are what the owner of a topic asks for.
type Limits struct {
	// Rate is the limit in messages a second, Burst how many may come at once.
	Rate  float64 `json:"rate"`
	Burst float64 `json:"burst"`
	// Objective is the p99 from arrival to delivery, in seconds.
	Objective float64 `json:"objective_seconds"`
	// Strictest is the lowest objective that publishers may ask for, in seconds. Default 0: what they ask for
	// counts for nothing, since one of them could take nodes from other topics with it.
	Strictest float64 `json:"strictest_objective_seconds,omitempty"`
	// Batch is how many messages a publisher sends in one go, 0 for 1.
	Batch float64 `json:"batch,omitempty"`
	// Each is what a publisher sends that does not say, in messages a second.
	Each float64 `json:"publisher_rate"`
}

// Topic is a topic with its publishers.
type Topic struct {
	Limits
	Publishers map[string]Publisher `json:"publishers,omitempty"`
	// Planned is what its publishers sent, in messages a second, when the number of nodes was decided last.
	Planned float64 `json:"planned,omitempty"`
}

// Wanted is the objective that counts, in seconds: the lowest that a publisher asks for, between Strictest and
// Objective.
func (t *Topic) Wanted() float64 {
	wanted := t.Objective
	if t.Strictest > 0 {
		for _, p := range t.Publishers { // the order does not matter for the lowest
			if p.Objective > 0 {
				wanted = min(wanted, max(p.Objective, t.Strictest))
			}
		}
	}
	return wanted
}

// Publisher is one of a topic.
type Publisher struct {
	Rate  float64 `json:"rate"`
	Group string  `json:"group,omitempty"`
	// Objective is the p99 that it asks for, in seconds; 0 is that of the topic.
	Objective float64 `json:"objective_seconds,omitempty"`
	// Node is empty while no node has room.
	Node string `json:"node,omitempty"`
	// Client says that a node of the broker has asked for its place: it gives that up when it stays away, also if the node that knew it
	// has ended.
	Client bool `json:"client,omitempty"`
}

// Move is a publisher that was sent elsewhere.
type Move struct {
	At        time.Time `json:"at"`
	Topic     string    `json:"topic"`
	Publisher string    `json:"publisher"`
	From      string    `json:"from,omitempty"`
	To        string    `json:"to,omitempty"`
	// Why is empty if an operator asked for the change.
	Why string `json:"why,omitempty"`

	old bool // made before the change at hand
}

// Mistake is a wrong field of a request.
type Mistake struct {
	Field    string `json:"field"`
	Found    any    `json:"found"`
	Expected string `json:"expected"`
}

func (m *Mistake) Error() string {
	return fmt.Sprintf("%s is %v, expected %s", m.Field, m.Found, m.Expected)
}

// ErrUnknown is of a node or topic that does not exist.
var ErrUnknown = errors.New("not known")

func unknown(kind, name string) error { return fmt.Errorf("%s %q is %w", kind, name, ErrUnknown) }

// checks collects mistakes.
type checks []error

func (c *checks) that(ok bool, field string, found any, expected string) {
	if !ok {
		if f, is := found.(float64); is && (math.IsNaN(f) || math.IsInf(f, 0)) {
			found = fmt.Sprint(f) // JSON has no such numbers
		}
		*c = append(*c, &Mistake{field, found, expected})
	}
}

func (c checks) err() error { return errors.Join(c...) }

func between(x, least, most float64) bool { return x >= least && x <= most }

const aRate = "above 0 and at most 1e9 messages a second"

func goodRate(x float64) bool { return x > 0 && x <= MaxRate }

func (c *checks) name(field, name string) {
	c.that(name != "" && len(name) <= maxName, field, fmt.Sprintf("%.40q (%d bytes)", name, len(name)), fmt.Sprintf("1 to %d bytes", maxName))
}

// capacity returns what all nodes serve that are not drained.
func (s *State) capacity() (sum float64) {
	for _, n := range s.nodes() {
		sum += s.Nodes[n].usable()
	}
	return sum
}

// nodes returns the names of those that may hold something, in order.
func (s *State) nodes() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Nodes)), func(n string) bool { return s.Nodes[n].Draining || s.Nodes[n].Down })
}

// check returns every mistake of the limits of a topic.
func (s *State) check(name string, l Limits) error {
	var c checks
	c.name("topic", name)
	c.that(goodRate(l.Rate), "rate", l.Rate, aRate)
	if all := s.capacity(); goodRate(l.Rate) {
		c.that(l.Rate <= all, "rate", l.Rate, fmt.Sprintf("at most %.6g messages a second, the capacity of all nodes: add a node or lower the rate", all))
	}
	c.that(between(l.Burst, 1, 1e12), "burst", l.Burst, "1 to 1e12 messages")
	c.that(l.Objective > 0 && l.Objective <= maxObjective, "objective", l.Objective, "above 0 and at most 3600 seconds")
	c.that(between(l.Strictest, 0, l.Objective) || !(l.Objective > 0), "strictest objective", l.Strictest, "0 for none, or above 0 and at most the objective, in seconds")
	c.that(l.Batch == 0 || between(l.Batch, 1, 1e6), "batch", l.Batch, "1 to 1e6 messages, or 0 for 1")
	c.that(goodRate(l.Each) && !(l.Each > l.Rate), "publisher rate", l.Each, "above 0 and at most the rate of the topic")
	c.that(s.Topics[name] != nil || len(s.Topics) < maxTopics, "number of topics", len(s.Topics)+1, fmt.Sprintf("at most %d", maxTopics))
	return c.err()
}

// SetNode adds a node or changes it. Topics stay where they are, unless it has become too small for them.
func (s *State) SetNode(name string, n Node) error {
	var c checks
	c.name("node", name)
	c.that(!strings.ContainsAny(name, " \t\r\n*>"), "node", fmt.Sprintf("%.40q", name), "a name without spaces, * and >") // it is part of a subject
	host, port, err := net.SplitHostPort(n.Address)
	c.that(err == nil && host != "" && port != "" && len(n.Address) <= maxName, "address", fmt.Sprintf("%.40q", n.Address), fmt.Sprintf("host:port of 1 to %d bytes such as 10.0.0.1:1883", maxName))
	c.that(goodRate(n.Capacity), "capacity", n.Capacity, aRate)
	c.that(between(n.Measured, 0, MaxRate), "measured capacity", n.Measured, "0 to 1e9 messages a second")
	_, known := s.Nodes[name]
	c.that(known || len(s.Nodes) < maxNodes, "number of nodes", len(s.Nodes)+1, fmt.Sprintf("at most %d", maxNodes))
	if err := c.err(); err != nil {
		return err
	}
	s.setNode(name, n)
	return nil
}

// setNode is SetNode for a node that is as it should be, or was entered by a version that asked for less.
func (s *State) setNode(name string, n Node) {
	s.Nodes[name] = n
	if n.Draining || n.Down || s.loads("")[name] > n.usable() {
		for _, topic := range s.at(name) {
			s.plan(topic)
		}
	}
	s.fill()
}

// Drain moves everything from a node, or, with on false, lets it be used again.
func (s *State) Drain(name string, on bool) error {
	n, ok := s.Nodes[name]
	if !ok {
		return unknown("node", name)
	}
	n.Draining = on
	s.setNode(name, n)
	if on {
		s.because(fmt.Sprintf("node %s is drained", name))
	}
	return nil
}

// SetDown notes that a node is not heard of, which moves everything from it, or that it
// is again.
func (s *State) SetDown(name string, down bool) error {
	n, ok := s.Nodes[name]
	if !ok {
		return unknown("node", name)
	}
	n.Down = down
	s.setNode(name, n)
	if down {
		s.because(fmt.Sprintf("node %s is silent", name))
	}
	return nil
}

// RemoveNode forgets a node that is drained.
func (s *State) RemoveNode(name string) error {
	if n, ok := s.Nodes[name]; !ok {
		return unknown("node", name)
	} else if !n.Draining {
		return &Mistake{"node", name, "a node that is drained: drain it first"}
	}
	delete(s.Nodes, name)
	return nil
}

// SetTopic adds a topic, or changes its limits and places it anew.
func (s *State) SetTopic(name string, l Limits) error {
	if err := s.check(name, l); err != nil {
		return err
	}
	t := s.Topics[name]
	if t == nil {
		t = &Topic{Publishers: map[string]Publisher{}}
		s.Topics[name] = t
	}
	t.Limits = l
	s.plan(name)
	return nil
}

// RemoveTopic forgets a topic and its publishers.
func (s *State) RemoveTopic(name string) error {
	if s.Topics[name] == nil {
		return unknown("topic", name)
	}
	delete(s.Topics, name)
	s.fill()
	return nil
}

// Join is a publisher that wants a place. Rate 0 is the one that is known of it, else what the topic says of those that do
// not say. Without a group and an objective it says neither, and what is known of it stays: a client may say them over HTTP, and
// then connect by a protocol that has no words for them.
type Join struct {
	Publisher, Group string
	Rate             float64
	// Objective is that of a Publisher.
	Objective float64
	// Client is that of a Publisher. One that was a client once remains one.
	Client bool
}

func (j Join) says() bool { return j.Group != "" || j.Objective != 0 }

// Agrees reports whether j says nothing of a publisher but what is known of it.
func (j Join) Agrees(known Publisher) bool {
	return (j.Rate == 0 || j.Rate == known.Rate) && (!j.says() || j.Group == known.Group && j.Objective == known.Objective)
}

// Join gives publishers a place at the nodes of a topic, and places it anew where these have no room. Those that are
// known are changed if they ask for something else.
func (s *State) Join(topic string, joins ...Join) error {
	if err := s.checkJoins(topic, joins); err != nil {
		return err
	}
	t := s.Topics[topic]
	wanted := t.Wanted()
	for _, j := range joins {
		p := t.Publishers[j.Publisher]
		switch {
		case j.Rate > 0:
			p.Rate = j.Rate
		case p.Rate == 0:
			p.Rate = t.Each
		}
		if j.says() {
			p.Group, p.Objective = j.Group, j.Objective
		}
		p.Client = p.Client || j.Client
		t.Publishers[j.Publisher] = p
	}
	if t.Wanted() < wanted {
		s.plan(topic)
	} else {
		s.place(topic)
	}
	return nil
}

// checkJoins returns every mistake of publishers that want a place.
func (s *State) checkJoins(topic string, joins []Join) error {
	t := s.Topics[topic]
	if t == nil {
		return unknown("topic", topic)
	}
	var c checks
	for _, j := range joins {
		c.name("publisher", j.Publisher)
		c.that(len(j.Group) <= maxName, "group", fmt.Sprintf("%.40q", j.Group), fmt.Sprintf("at most %d bytes", maxName))
		c.that(between(j.Objective, 0, maxObjective), "objective", j.Objective, "above 0 and at most 3600 seconds, or 0 for that of the topic")
		c.that(j.Rate == 0 || goodRate(j.Rate) && j.Rate <= t.Rate, "publisher rate", j.Rate, fmt.Sprintf("above 0 and at most the rate of the topic, %.6g", t.Rate))
	}
	c.that(len(t.Publishers)+len(joins) <= maxPublishers, "number of publishers", len(t.Publishers)+len(joins), fmt.Sprintf("at most %d", maxPublishers))
	return c.err()
}

// Leave forgets publishers.
func (s *State) Leave(topic string, publishers ...string) error {
	t := s.Topics[topic]
	if t == nil {
		return unknown("topic", topic)
	}
	for _, p := range publishers {
		delete(t.Publishers, p)
	}
	s.fill()
	return nil
}

// loads returns what each node has been given, without one topic, in messages a second.
func (s *State) loads(without string) map[string]float64 {
	sums := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(s.Topics)) {
		if name == without {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(s.Topics[name].Publishers)) {
			p := s.Topics[name].Publishers[id]
			sums[p.Node] += p.Rate
		}
	}
	return sums
}

// at returns the topics that a node holds publishers of, in order.
func (s *State) at(node string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Topics)), func(name string) bool {
		for _, p := range s.Topics[name].Publishers {
			if p.Node == node {
				return false
			}
		}
		return true
	})
}

// Part is what a node has of a topic.
type Part struct {
	Node       string  `json:"node"`
	Address    string  `json:"address"`
	Publishers int     `json:"publishers"`
	Sending    float64 `json:"sending"`
	// Rate and Burst are its part of the bucket.
	Rate  float64 `json:"rate"`
	Burst float64 `json:"burst"`
}

// Parts returns the parts of a topic, the largest first, and how many publishers have no place.
func (s *State) Parts(topic string) (parts []Part, nowhere int, err error) {
	t := s.Topics[topic]
	if t == nil {
		return nil, 0, unknown("topic", topic)
	}
	by, all := map[string]*Part{}, 0.0
	for _, id := range slices.Sorted(maps.Keys(t.Publishers)) {
		p := t.Publishers[id]
		if p.Node == "" {
			nowhere++
			continue
		}
		if by[p.Node] == nil {
			by[p.Node] = &Part{Node: p.Node, Address: s.Nodes[p.Node].Address}
		}
		by[p.Node].Publishers++
		by[p.Node].Sending += p.Rate
		all += p.Rate
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		p := by[name]
		share := placement.Bucket{Rate: t.Rate, Burst: t.Burst}.Split(p.Sending / all)
		p.Rate, p.Burst = share.Rate, share.Burst
		parts = append(parts, *p)
	}
	slices.SortStableFunc(parts, func(a, b Part) int { return int(math.Copysign(1, b.Sending-a.Sending)) })
	return parts, nowhere, nil
}

// Keeper returns the node that has the bucket of a topic while none of its publishers has a place; empty without nodes. Whoever knows the
// state finds the same one, and another one only when that may hold nothing any more.
func (s *State) Keeper(topic string) (keeper string) {
	some := s.nodes()
	if len(some) == 0 {
		some = slices.DeleteFunc(slices.Sorted(maps.Keys(s.Nodes)), func(n string) bool { return s.Nodes[n].Down })
	}
	if len(some) == 0 {
		some = slices.Sorted(maps.Keys(s.Nodes))
	}
	most := uint64(0)
	for _, name := range some {
		h := fnv.New64a()
		_, _ = h.Write([]byte(topic + "\x00" + name)) // never fails
		if sum := h.Sum64(); keeper == "" || sum > most {
			keeper, most = name, sum
		}
	}
	return keeper
}

// NodeState is a node in a list.
type NodeState struct {
	Name string `json:"name"`
	Node
	// Load is what its publishers send, in messages a second.
	Load   float64  `json:"load"`
	Topics []string `json:"topics,omitempty"`
}

// List returns all nodes, in order.
func (s *State) List() []NodeState {
	all, loads := []NodeState{}, s.loads("")
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		all = append(all, NodeState{Name: name, Node: s.Nodes[name], Load: loads[name], Topics: s.at(name)})
	}
	return all
}

// ListTopics returns all topics, in order.
func (s *State) ListTopics() []Listed {
	all := []Listed{}
	for _, name := range slices.Sorted(maps.Keys(s.Topics)) {
		parts, nowhere, _ := s.Parts(name)
		all = append(all, Listed{Topic: name, Limits: s.Topics[name].Limits, Wanted: s.Topics[name].Wanted(), Parts: parts, Nowhere: nowhere})
	}
	return all
}
