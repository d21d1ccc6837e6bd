package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// Source is who publishes. Its methods are called while the engine holds locks:
// they must not block and not call the engine, except to append to an Outbox.
type Source interface {
	// Released is told that m, which was published as id and had to wait, was
	// delivered. Messages of QoS 0 are not told.
	Released(b *Batch, m *Message, id uint16)
}

// Subscriber is who receives. The same holds of its methods as of those of a
// Source.
type Subscriber interface {
	Source
	// Deliver takes a message, which is borrowed, for the subscriptions of t.
	Deliver(b *Batch, m *Message, t *Target)
	// Online reports whether it can be sent to, and has room; of a shared subscription those who
	// can are preferred.
	Online() bool
}

// Asker is a Source of a message of QoS 0 that wants an answer, and that nobody here gets.
// Unheard tells it that nobody elsewhere gets it either. The same holds of Unheard as of
// Released; it is called at most once.
type Asker interface{ Unheard() }

// Forwarder takes every message that was released and not stored, for subscribers
// that are not here. The same holds of Forward as of the methods of a Source. It tells an
// Asker whether there were any.
type Forwarder interface {
	Forward(b *Batch, m *Message)
}

// Log stores messages of QoS 1 and 2 before they are acknowledged. The same holds of
// its methods as of those of a Source.
type Log interface {
	// Append takes a message, which is borrowed, and delivers it later, at every node
	// that has subscribers, by Batch.Deliver. When the message is stored its Source is
	// told that it was released; when it cannot be, and the Source is a Refusable, that
	// it was refused. It reports false, and takes nothing, when as much waits to be
	// stored as may.
	Append(m *Message, id uint16) bool
}

// Refusable is a Source that learns of messages that were taken to wait and could
// not be stored. The same holds of Refused as of Released.
type Refusable interface {
	Refused(b *Batch, m *Message, id uint16, err error)
}

// Leaver is a Source that may have gone to another node, where it publishes again what was not acknowledged: of what waits here, messages of QoS 1
// and 2 are given up then. The same holds of Left as of Released.
type Leaver interface{ Left() bool }

// Diverter publishes messages at another node: those of topics whose bucket is not
// here, see Hub.SetShare. The same holds of Divert as of the methods of a Source; for
// QoS 1 and 2 it tells the Source as a Log does. It reports false, and takes nothing,
// when it cannot.
type Diverter interface {
	Divert(b *Batch, m *Message, id uint16) bool
}

// Watcher is told of topic filters that have their first subscription at this node,
// and of those that have none any more: those of one shared subscription apart from the
// others. Both are called with the hub's lock held: they must not block and not call the hub.
type Watcher interface {
	Wanted(Interest)
	Unwanted(Interest)
	// Settle waits until what was Wanted about a filter has its effect on messages that a Log stores from then on, or ctx ends. It
	// is called without a lock.
	Settle(ctx context.Context, filter string) error
}

// errNotStored is told to the Source of a message that waited for its rate and that
// the log did not take.
var errNotStored = errors.New("as many messages wait to be stored as may")

// Config sizes a Hub. Zero fields take the default named in their comment.
type Config struct {
	// Limits are those of topics, the first that matches a topic counts. Default
	// none. Can change while the hub runs.
	Limits []Limit
	// Topics is the most topics at once. Default 100,000. At that limit topics that
	// nobody uses are forgotten, and if there are none, new ones are refused.
	Topics int
	// Subscriptions is the most subscriptions of all sessions. Default 1,000,000.
	Subscriptions int
	// Retained is the most bytes of retained messages, each counted with
	// retainedOverhead. Default 64 MiB. What comes beyond is delivered and not
	// retained.
	Retained int
	// Forward takes what was released; nil takes nothing.
	Forward Forwarder
	// Log stores messages of QoS 1 and 2; nil delivers them without.
	Log Log
	// Divert publishes what belongs to other nodes; nil publishes all of it here.
	Divert Diverter
	// Watch is told what is subscribed to; nil is not.
	Watch Watcher
	// Shared says that shared subscriptions have members at other nodes too. Messages
	// come to those that are here by Batch.DeliverTo alone. It needs Watch.
	Shared bool
}

// retainedOverhead is what a retained message counts beside its bytes.
const retainedOverhead = 128

func (c Config) withDefaults() Config {
	or := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	or(&c.Topics, 100_000)
	or(&c.Subscriptions, 1_000_000)
	or(&c.Retained, 64<<20)
	return c
}

// Errors of a hub that is full.
var (
	ErrTopics        = errors.New("the limit of topics is reached")
	ErrSubscriptions = errors.New("the limit of subscriptions is reached")
)

// rule is a limit and what was measured under it.
type rule struct {
	Limit
	stats stats
	away  bool // of a share: the bucket is at other nodes
	lease *Lease
	floor floor // that counts when the lease is over
}

// floor is what is left of a share.
type floor struct{ Rate, Burst float64 }

// exactBuckets is how many buckets go by the arrival of messages, each of 45 KB.
// Further ones go by the order in which messages are read.
const exactBuckets = 1000

// laneKey names a lane: a filter, and a topic unless all topics share it.
type laneKey struct {
	filter, topic string
	share         bool // it is a part of a bucket, by SetShare
}

// Hub holds topics and subscriptions. Its methods may be called from any
// goroutine.
type Hub struct {
	cfg  Config
	rest stats // of topics without a limit

	// Locks are taken in this order: mu, that of a lane, then one of the others.
	mu     sync.RWMutex
	topics map[string]*Topic
	rules  []*rule
	shares map[string]*rule // of topics whose bucket other nodes have parts of
	lanes  map[laneKey]*lane
	forgot mono.Time // when forget looked last

	subsMu  sync.RWMutex
	subs    tree
	version atomic.Uint64    // of subs
	filters map[Interest]int // subscriptions, where Watch is told

	retainedMu sync.RWMutex
	retained   names     // topics that have a message
	bytes      int       // of retained messages
	unretained mono.Time // when unretainExpired looked last

	stop chan struct{}
	done sync.WaitGroup
}

// New returns a hub; Close ends it. cfg.Limits must be free of mistakes, see
// Limit.Check.
func New(cfg Config) *Hub {
	h := &Hub{cfg: cfg.withDefaults(), topics: map[string]*Topic{}, shares: map[string]*rule{}, filters: map[Interest]int{}, lanes: map[laneKey]*lane{}, stop: make(chan struct{})}
	h.rest.began = h.now()
	h.SetLimits(cfg.Limits)
	h.done.Go(h.watch)
	return h
}

// Close ends the hub's own goroutine. What waits is never delivered.
func (h *Hub) Close() {
	close(h.stop)
	h.done.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lanes {
		l.timer.Stop()
	}
}

func (h *Hub) now() mono.Time { return live.Now() }

// watch ends windows of statistics.
func (h *Hub) watch() {
	ticker := time.NewTicker(statsWindow / 10)
	defer ticker.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-ticker.C:
		}
		now := h.now()
		h.rest.turn(now)
		h.mu.RLock()
		for _, r := range h.rules {
			r.stats.turn(now)
		}
		for _, r := range h.shares {
			r.stats.turn(now)
		}
		h.mu.RUnlock()
	}
}

// Topic is one topic.
type Topic struct {
	name     string
	lane     atomic.Pointer[lane]
	away     atomic.Bool // its bucket is at other nodes
	fan      atomic.Pointer[fan]
	retained *Kept // guarded by retainedMu
	used     atomic.Int64
	gone     atomic.Bool
	by       *Maker // nil: no client
}

// Name returns the topic's name.
func (t *Topic) Name() string { return t.name }

// Gone reports whether the hub has forgotten the topic: ask it again.
func (t *Topic) Gone() bool { return t.gone.Load() }

// Topic returns the topic of a name, which it makes if there is none. The error
// is ErrTopics, or says what is wrong with the name.
func (h *Hub) Topic(name []byte) (*Topic, error) { return h.TopicBy(nil, name) }

// TopicBy is Topic for a client, whose topics by counts: as many as it may make are
// ErrTopics too, unless some of all topics can be forgotten.
func (h *Hub) TopicBy(by *Maker, name []byte) (*Topic, error) {
	h.mu.RLock()
	t := h.topics[string(name)]
	h.mu.RUnlock()
	if t != nil {
		return t, nil
	}
	if err := CheckTopic(string(name)); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[string(name)]; t != nil {
		return t, nil
	}
	now := h.now()
	if len(h.topics) >= h.cfg.Topics || by.full() {
		h.forget(now)
		switch {
		case len(h.topics) >= h.cfg.Topics:
			return nil, fmt.Errorf("%w: %d", ErrTopics, h.cfg.Topics)
		case by.full():
			return nil, fmt.Errorf("%w: %d of one client", ErrTopics, by.most)
		}
	}
	t = &Topic{name: string(name), by: by}
	by.add(1)
	t.used.Store(int64(now))
	h.route(t, now)
	h.topics[t.name] = t
	return t, nil
}

// unusedAfter is how long nothing may have been published to a topic that is
// forgotten.
const unusedAfter = time.Minute

// forgetEvery is how often the hub looks at all topics, at most: a client that is
// refused at once tries again.
const forgetEvery = time.Second

// forget drops topics that were not used for a while and that keep nothing. The
// lock is held.
func (h *Hub) forget(now mono.Time) {
	if h.forgot != 0 && now.Sub(h.forgot) < forgetEvery {
		return
	}
	h.forgot = now
	for name, t := range h.topics {
		l := t.lane.Load()
		if now.Sub(mono.Time(t.used.Load())) < unusedAfter || l != nil && !l.idle(now) {
			continue
		}
		h.retainedMu.Lock()
		if t.retained != nil && t.retained.Expires <= now {
			h.unretain(t)
		}
		if t.retained == nil {
			t.gone.Store(true)
			t.by.add(-1)
			delete(h.topics, name)
			if l != nil && l.key.topic != "" {
				delete(h.lanes, l.key)
			}
		}
		h.retainedMu.Unlock()
	}
}

// laneOf returns the lane of a topic, nil without a limit. The lock is held.
func (h *Hub) laneOf(name string, now mono.Time) *lane {
	if r := h.shares[name]; r != nil {
		return h.laneAt(laneKey{filter: name, topic: name, share: true}, r, now)
	}
	for _, r := range h.rules {
		if !Matches(r.Filter, name) {
			continue
		}
		key := laneKey{filter: r.Filter, topic: name}
		if r.Shared {
			key.topic = ""
		}
		return h.laneAt(key, r, now)
	}
	return nil
}

// laneAt returns the lane of a key, which it makes if there is none. The lock is held.
func (h *Hub) laneAt(key laneKey, r *rule, now mono.Time) *lane {
	l := h.lanes[key]
	if l == nil {
		l = newLane(h, key, r, newPacer(r.Limit, len(h.lanes) < exactBuckets, now))
		h.lanes[key] = l
	}
	return l
}

// SetLimits replaces the limits, which must be free of mistakes. Buckets and
// queues of filters that stay go on; what waits under a limit that is gone goes
// at once.
func (h *Hub) SetLimits(limits []Limit) {
	b := h.NewBatch()
	defer b.End() // without the lock: it writes, and lets others go first
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	had := map[string]*rule{}
	for _, r := range h.rules {
		had[r.Filter] = r
	}
	h.rules = nil
	byFilter := map[string]*rule{}
	for _, l := range limits {
		r := &rule{Limit: l.withDefaults()}
		r.stats.began = now
		if old := had[l.Filter]; old != nil {
			old.stats.mu.Lock()
			r.stats.released, r.stats.waited, r.stats.refused = old.stats.released, old.stats.waited, old.stats.refused
			r.stats.last, r.stats.full = old.stats.last, old.stats.full
			old.stats.mu.Unlock()
		}
		if byFilter[l.Filter] == nil {
			byFilter[l.Filter] = r
			h.rules = append(h.rules, r)
		}
	}
	b.begin(now, now)
	for key, l := range h.lanes {
		if key.share {
			continue
		}
		r := byFilter[key.filter]
		if r != nil && r.Shared != (key.topic == "") {
			r = nil
		}
		l.set(b, r)
		if r == nil {
			delete(h.lanes, key)
		}
	}
	h.requeue()
	for _, t := range h.topics {
		h.route(t, now)
	}
}

// Stats returns those of every limit, in order, then those of the shares, by topic,
// and last those of the topics without a limit.
func (h *Hub) Stats() []Stats {
	h.mu.RLock()
	defer h.mu.RUnlock()
	rules := slices.Clone(h.rules)
	for _, name := range slices.Sorted(maps.Keys(h.shares)) {
		rules = append(rules, h.shares[name])
	}
	all := make([]Stats, len(rules)+1)
	at := map[laneKey]*Stats{}
	for i, r := range rules {
		all[i] = r.stats.told()
		all[i].Limit = h.limitOf(r, i >= len(h.rules))
		at[laneKey{filter: r.Filter, share: i >= len(h.rules)}] = &all[i]
	}
	last := &all[len(all)-1]
	*last = h.rest.told()
	for _, t := range h.topics {
		if l := t.lane.Load(); l != nil {
			at[laneKey{filter: l.key.filter, share: l.key.share}].Topics++
		} else {
			last.Topics++
		}
	}
	for key, l := range h.lanes {
		n, bytes := l.backlog()
		of := at[laneKey{filter: key.filter, share: key.share}]
		of.Backlog += n
		of.BacklogBytes += bytes
	}
	return all
}

// limitOf returns the limit of a rule. The rate and burst of a share change with the lock of its lane alone held. The hub's is held.
func (h *Hub) limitOf(r *rule, share bool) Limit {
	if l := h.lanes[laneKey{filter: r.Filter, topic: r.Filter, share: true}]; share && l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	return r.Limit
}

// Counts are what the hub holds.
type Counts struct{ Topics, Subscriptions, Retained, RetainedBytes int }

// Counts returns what the hub holds now.
func (h *Hub) Counts() Counts {
	h.mu.RLock()
	c := Counts{Topics: len(h.topics)}
	h.mu.RUnlock()
	h.subsMu.RLock()
	c.Subscriptions = h.subs.n
	h.subsMu.RUnlock()
	h.retainedMu.RLock()
	c.Retained, c.RetainedBytes = h.retained.n, h.bytes
	h.retainedMu.RUnlock()
	return c
}
