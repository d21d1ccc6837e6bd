package share

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/mqtt"
	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/placement"
)

// Hub is what a Node needs of an engine.Hub.
type Hub interface {
	SetShare(topic string, s *engine.Share)
	Seen(topic string) (engine.Seen, bool)
}

// Config describes a Node. Zero fields take the default.
type Config struct {
	// Node is the name of this node in the state. Required.
	Node string
	// Window is that of placement.Adaptor. Default 10 s; a report goes in every tenth of
	// it.
	Window time.Duration
	// Holders is told which nodes hold a topic whose bucket is not here, none of one that
	// is; see backplane.Plane.SetHolders. Required.
	Holders func(topic string, nodes []string)
	// Down is told which nodes are not heard, before Holders is told of what follows from that; see backplane.Plane.SetDown. Nil: nobody is.
	Down func(nodes []string)
	// Move sends a client to the address of another node, if it understands that, and
	// reports whether it does. Required.
	Move func(client, address string) bool
	// Connected reports whether a client is connected to any node. Nil: nobody is forgotten.
	Connected func(ctx context.Context, client string) bool
	// Replicas is how many nodes store who leads. Default 1.
	Replicas int
	// Fence is how long after a beat this node obeys what it was granted, if nobody answers. Default three steps, each a tenth of
	// Window. A node that is dead leaves its parts of buckets to the others a step later.
	Fence time.Duration
}

// steps is how many reports go in a window.
const steps = 10

// Node keeps the shares of one node. Its methods may be called from any goroutine.
type Node struct {
	cfg    Config
	hub    Hub
	nc     *nats.Conn
	placer *place.Placer
	log    *slog.Logger
	leader leader
	// witness is by whom this node is backed.
	witness *witness
	// process tells this process from earlier ones of the node.
	process uint64
	topics  atomic.Uint64 // changes with the names of topics in the state

	mu      sync.Mutex
	state   *place.State
	term    uint64
	shares  map[string]*held
	clients map[string]map[string]*publishing // client → topic
	away    map[string]away                   // clients that have left
	asking  chan ask
	again   bool // some are to be asked for that were not placed
	backed  bool // as expire saw it last
	leaves  bool // it is about to end
}

// held is what this node has of a topic.
type held struct {
	bucket  placement.Bucket
	floor   placement.Bucket
	version uint64
	expires mono.Time
	lease   *engine.Lease // of the bucket, which ends then, or with the node's backing; nil for what no leader granted
	fresh   bool          // no grant has come since it got its first publisher; those up to version are old
	leaving bool          // it holds no publisher any more, and messages wait
	told    mono.Time     // when it was reported last
}

// NewNode returns a node that Run drives. nc is a connection that hears what it sends.
func NewNode(cfg Config, hub Hub, nc *nats.Conn, placer *place.Placer, log *slog.Logger) *Node {
	if cfg.Window == 0 {
		cfg.Window = 10 * time.Second
	}
	if cfg.Fence == 0 {
		cfg.Fence = fenceSteps * cfg.Window / steps
	}
	process := 1 + rand.Uint64N(math.MaxUint64)
	return &Node{cfg: cfg, hub: hub, nc: nc, placer: placer, log: log, process: process, witness: newWitness(live.Now(), cfg.Node, process, cfg.Fence, leaseSteps*cfg.Window/steps), state: &place.State{}, shares: map[string]*held{},
		clients: map[string]map[string]*publishing{}, away: map[string]away{}, asking: make(chan ask, maxAsks)}
}

// Run keeps the shares until ctx ends.
func (n *Node) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := make(chan *nats.Msg, 1024)
	heardBeats := make(chan *nats.Msg, 1024)
	for subject, to := range map[string]chan *nats.Msg{grantSubjects + n.cfg.Node: heard, reportSubject: heard, n.absentSubject() + ">": heard, beatSubject: heardBeats} {
		sub, err := n.nc.ChanSubscribe(subject, to)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	states := make(chan *place.State, 1)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { n.placer.Watch(ctx, states, n.log) })
	running.Go(func() { n.ask(ctx) })
	running.Go(func() { n.forget(ctx) })
	if err := n.leader.open(ctx, n); err != nil {
		return err
	}
	running.Go(func() { n.leader.campaign(ctx) })
	running.Go(func() { n.leader.change(ctx) })
	running.Go(func() { n.beat(ctx, heardBeats) })
	step := time.NewTicker(n.cfg.Window / steps)
	defer step.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-states:
			if n.follow(s) {
				n.report(live.Now())
			}
		case m := <-heard:
			switch node, absent := strings.CutPrefix(m.Subject, n.absentSubject()); {
			case absent:
				n.leader.isAbsent(live.Now(), node, m)
			case m.Subject == reportSubject:
				n.leader.reported(live.Now(), m.Data)
			default:
				n.granted(live.Now(), m.Data)
			}
			if n.leader.soon {
				n.leader.step(live.Now())
			}
		case c := <-n.leader.made:
			n.leader.follow(live.Now(), c)
		case <-step.C:
			now := live.Now()
			n.expire(now)
			n.askAgain()
			n.report(now)
			n.leader.step(now)
		}
	}
}

// beat tells all nodes that this one is there, and hears the same of them, until ctx ends: apart from Run, which may be busy for longer.
func (n *Node) beat(ctx context.Context, heard <-chan *nats.Msg) {
	again := time.NewTicker(n.cfg.Window / steps / beats)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-heard:
			b, err := decodeBeat(m.Data)
			if err != nil {
				n.log.Debug("a beat cannot be read", "error", err)
				continue
			}
			n.witness.hear(live.Now(), b)
		case <-again.C:
			now := live.Now()
			data, err := json.Marshal(n.witness.say(now, n.leader.leading(now), n.leader.until()))
			if err == nil {
				err = n.nc.Publish(beatSubject, data)
			}
			if err != nil {
				n.log.Debug("no beat", "error", err)
			}
		}
	}
}

// follow takes a state: which topics are here, and which publishers must move. It reports whether the leader should know at once, as a topic
// has come here or gone.
func (n *Node) follow(s *place.State) (news bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cfg.Down != nil {
		n.cfg.Down(down(s))
	}
	gone := maps.Clone(n.shares)
	for topic, t := range s.Topics {
		nodes := holders(s, topic)
		if len(nodes) == 0 {
			continue
		}
		delete(gone, topic)
		h := n.shares[topic]
		if !slices.Contains(nodes, n.cfg.Node) {
			n.cfg.Holders(topic, nodes)
			switch {
			case h == nil:
				n.shares[topic] = &held{}
				n.hub.SetShare(topic, &engine.Share{})
			case h.bucket.Rate > 0 && !h.leaving:
				h.leaving = true
				n.hub.SetShare(topic, &engine.Share{})
				if seen, _ := n.hub.Seen(topic); seen.Waiting == 0 { // the nodes that hold it now need not wait for the next step
					h.bucket, h.leaving, news = placement.Bucket{}, false, true
				}
			}
			continue
		}
		whole := placement.Bucket{Rate: t.Rate, Burst: t.Burst}
		switch {
		case h == nil || h.bucket.Rate == 0:
			h = &held{version: version(h), fresh: true, floor: whole.Split(reserve / float64(len(nodes)))}
			n.shares[topic], news = h, true
			n.obey(topic, h, h.floor, nil)
		case h.leaving: // it comes back before what waited has gone
			n.obey(topic, h, h.bucket, h.lease)
		}
		h.leaving = false
		n.cfg.Holders(topic, nil) // now that the bucket is here: in between messages have either
	}
	for topic := range gone {
		delete(n.shares, topic)
		n.hub.SetShare(topic, nil)
		n.cfg.Holders(topic, nil)
	}
	if !maps.EqualFunc(s.Topics, n.state.Topics, func(_, _ *place.Topic) bool { return true }) {
		n.topics.Add(1)
		n.allow()
	}
	n.state = s
	n.witness.follow(slices.Sorted(maps.Keys(s.Nodes)))
	n.missing(live.Now())
	n.placeAll()
	return news
}

// down returns the nodes that are not heard, in order.
func down(s *place.State) (nodes []string) {
	for name, n := range s.Nodes {
		if n.Down {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

func version(h *held) uint64 {
	if h == nil {
		return 0
	}
	return h.version
}

// reserve is the part of a bucket that the leader does not grant: nodes that have just
// got their first publisher, and no grant yet, share it. What comes there meanwhile waits.
const reserve = 0.005

// holders returns the nodes that share a topic, in order.
func holders(s *place.State, topic string) (nodes []string) {
	return slices.Sorted(maps.Keys(sharesOf(s, topic)))
}

// obey lets a bucket count, for as long as the lease lasts. The lock is held.
func (n *Node) obey(topic string, h *held, b placement.Bucket, until *engine.Lease) {
	h.bucket, h.lease = b, until
	n.hub.SetShare(topic, &engine.Share{Rate: b.Rate, Burst: b.Burst, Lease: until, FloorRate: min(h.floor.Rate, b.Rate), FloorBurst: min(h.floor.Burst, b.Burst)})
}

// granted takes grants of the leader.
func (n *Node) granted(now mono.Time, data []byte) {
	g, err := decodeGrants(data)
	if err != nil {
		n.log.Debug("grants cannot be read", "error", err)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if g.Term < n.term {
		return
	}
	n.term = g.Term
	if g.Process != n.process || g.At > now { // it goes by a report of an earlier process
		return
	}
	backing, since, backed := n.witness.backed(now)
	if !backed || g.At < since { // a grant from before may be another node's by now
		return
	}
	for _, to := range g.Grants {
		until := g.At.Add(to.Lasts)
		h := n.shares[to.Topic]
		switch {
		case h == nil || h.bucket.Rate == 0 || until <= now:
			continue
		case h.leaving: // it takes no other, but what it obeys is its own for as long as the leader hears that
			if !over(h.lease, now) && until > h.expires && h.lease.Extend(until) {
				h.expires = until
			}
			continue
		case to.Version < h.version || h.fresh && to.Version == h.version:
			continue
		}
		h.fresh = false
		floor := placement.Bucket{Rate: to.FloorRate, Burst: to.FloorBurst}
		same := floor == h.floor && !over(h.lease, now)
		h.expires, h.floor = until, floor
		if b := (placement.Bucket{Rate: to.Rate, Burst: to.Burst}); to.Rate > 0 {
			h.version = to.Version
			if b != h.bucket || !same || !h.lease.Extend(h.expires) {
				n.obey(to.Topic, h, b, backing.Part(h.expires))
			}
		}
	}
}

// expire falls back to the floor where no grant has come for long, and gives up what was
// waited for.
func (n *Node) expire(now mono.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, _, backed := n.witness.backed(now); backed != n.backed {
		n.backed = backed
		switch {
		case len(n.shares) == 0:
		case backed:
			n.log.Info("other nodes hear this one: grants count")
		default:
			n.log.Warn("too few nodes hear this one: topics have the floors of their buckets here")
		}
	}
	for topic, h := range n.shares {
		switch {
		case h.bucket.Rate == 0:
		case h.leaving:
			if seen, ok := n.hub.Seen(topic); !ok || seen.Waiting == 0 {
				h.bucket, h.leaving = placement.Bucket{}, false
			} else if h.lease != nil && over(h.lease, now) { // as the hub has it
				h.bucket, h.lease = placement.Bucket{Rate: min(h.floor.Rate, h.bucket.Rate), Burst: min(h.floor.Burst, h.bucket.Burst)}, nil
			}
		case over(h.lease, now) && h.bucket.Rate > h.floor.Rate:
			n.obey(topic, h, h.floor, nil)
		}
	}
}

// over reports whether nothing counts any more that a lease was of, or there was none.
func over(lease *engine.Lease, now mono.Time) bool {
	if lease == nil {
		return true
	}
	_, over := lease.Over(now)
	return over
}

// report tells the leader what this node saw and obeys.
func (n *Node) report(now mono.Time) {
	n.mu.Lock()
	r := report{Node: n.cfg.Node, Process: n.process, At: now, Term: n.term, Leaving: n.leaves}
	for topic, h := range n.shares {
		o := obeyed{Topic: topic, Rate: h.bucket.Rate, Burst: h.bucket.Burst, Version: h.version, Left: max(h.expires.Sub(now), 0), Fresh: h.fresh}
		if h.bucket.Rate > 0 && !h.leaving {
			seen, _ := n.hub.Seen(topic)
			o.Messages, o.Backlog, o.Waiting = seen.Messages, seen.Backlog, seen.Waiting
			if h.told > 0 {
				o.Span = now.Sub(h.told)
			}
			h.told = now
			o.Access, o.Processing = seen.Access.Seconds(), seen.Processing.Seconds()
		}
		r.Topics = append(r.Topics, o)
	}
	n.mu.Unlock()
	data, err := json.Marshal(r)
	if err == nil {
		err = n.nc.Publish(reportSubject, data)
	}
	if err != nil {
		n.log.Debug("no report", "error", err)
	}
}

// Leave has other nodes hold what this one holds, which is about to end, so that nobody waits until it counts as dead. It returns when they do, at
// once if there are none, or when ctx ends. Messages that come here meanwhile are sent on.
func (n *Node) Leave(ctx context.Context) {
	n.mu.Lock()
	n.leaves = true
	n.mu.Unlock()
	n.report(live.Now())
	for n.holds() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(n.cfg.Window / steps / 100):
		}
	}
}

// holds reports whether this node has parts of buckets that others could have.
func (n *Node) holds() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	others := false
	for name, other := range n.state.Nodes {
		others = others || name != n.cfg.Node && !other.Down && !other.Draining
	}
	for _, h := range n.shares {
		if others && h.bucket.Rate > 0 && !h.leaving {
			return true
		}
	}
	return false
}

// leaving reports whether Leave was called.
func (n *Node) leaving() bool { n.mu.Lock(); defer n.mu.Unlock(); return n.leaves }

// Topics returns a number that changes when other topics are placed: what Publishes did
// not care for it may care for then.
func (n *Node) Topics() uint64 { return n.topics.Load() }

// Gone tells that a client has left this node.
func (n *Node) Gone(client string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left(client)
}

// Where returns the address that a client belongs to that wants to publish to a topic,
// empty for this node, or if that is not known.
func (n *Node) Where(ctx context.Context, client, topic string, says mqtt.Says) string {
	n.mu.Lock()
	known := n.state.Topics[topic] != nil
	n.mu.Unlock()
	if !known {
		return ""
	}
	at, err := n.placer.Place(ctx, topic, join(client, says))
	if err == nil {
		n.placed(client, topic)
	}
	if err != nil || at.Node == "" || at.Node == n.cfg.Node {
		return ""
	}
	return at.Address
}
