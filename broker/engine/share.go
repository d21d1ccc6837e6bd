package engine

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Share is what a node has of the bucket of a topic that several nodes share.
type Share struct {
	// Rate is in messages a second, Burst in messages. A Rate of 0 says that the bucket
	// is at other nodes: what is published here is sent there, see Diverter.
	Rate, Burst float64
	// Lease is until when Rate and Burst count, and FloorRate and FloorBurst from then on, which are
	// above 0. Nil: for good.
	Lease                 *Lease
	FloorRate, FloorBurst float64
}

// SetShare gives the hub a part of a topic's bucket, which counts instead of the rate and burst of the limit
// that matches the topic; nil takes it back. What waits keeps its place, and goes as fast
// as the new rate lets it.
func (h *Hub) SetShare(topic string, s *Share) {
	b := h.NewBatch()
	defer b.End() // without the lock: it writes, and lets others go first
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	b.begin(now, now)
	key := laneKey{filter: topic, topic: topic, share: true}
	l, r := h.lanes[key], h.shares[topic]
	if s == nil {
		delete(h.shares, topic)
		if l != nil {
			l.set(b, nil)
			delete(h.lanes, key)
		}
	} else {
		if r == nil {
			r = &rule{Limit: h.queueOf(topic)}
			r.stats.began = now
			h.shares[topic] = r
		}
		if l != nil {
			l.mu.Lock()
			l.lapse(now) // what waits had that rate no longer than the lease before lasted
		}
		// What waits here stays although the bucket is elsewhere now: it goes at the rate
		// that it had.
		rate, burst := r.Rate, r.Burst
		if s.Rate > 0 {
			rate, burst = s.Rate, s.Burst
		}
		if l != nil {
			l.change(r, rate, burst, now)
		} else {
			r.Rate, r.Burst = rate, burst
		}
		if s.Rate > 0 {
			r.lease, r.floor = s.Lease, floor{s.FloorRate, s.FloorBurst}
		}
		r.away = s.Rate <= 0 && h.cfg.Divert != nil
		if l != nil {
			l.mu.Unlock()
		}
	}
	if t := h.topics[topic]; t != nil {
		h.route(t, now)
	}
}

// queueOf returns the limit of a topic's share without rate and burst: whether it refuses, and how many wait, is as the limit that matches the
// topic says. The lock is held.
func (h *Hub) queueOf(topic string) Limit {
	for _, r := range h.rules {
		if Matches(r.Filter, topic) {
			return Limit{Filter: topic, Police: r.Police, Queue: r.Queue, QueueBytes: r.QueueBytes}
		}
	}
	return Limit{Filter: topic}.withDefaults()
}

// requeue gives the shares other queues where other limits match their topics. The lock is held.
func (h *Hub) requeue() {
	for topic, r := range h.shares {
		q, l := h.queueOf(topic), h.lanes[laneKey{filter: topic, topic: topic, share: true}]
		if l != nil {
			l.mu.Lock()
		}
		r.Police, r.Queue, r.QueueBytes = q.Police, q.Queue, q.QueueBytes
		if l != nil {
			l.mu.Unlock()
		}
	}
}

// route says where the messages of a topic go. The lock is held.
func (h *Hub) route(t *Topic, now mono.Time) {
	r := h.shares[t.name]
	if away := r != nil && r.away; away {
		t.away.Store(true)
		t.lane.Store(nil)
		return
	}
	t.lane.Store(h.laneOf(t.name, now))
	t.away.Store(false)
}

// change gives the rule of a share another rate and burst from an instant on: what was due by then goes all the same. The lane's lock is held.
func (l *lane) change(r *rule, rate, burst float64, at mono.Time) {
	old := r.Rate
	r.Rate, r.Burst = rate, burst
	l.pace(at, rate, burst)
	if rate != old && old > 0 {
		l.queue.stretch(at, old/rate)
		l.armed = mono.Never
		l.arm(l.hub.now())
	}
}

// Seen is what a node saw of a topic that it has a share of, since the last call.
type Seen struct {
	// Messages is how many were published.
	Messages float64
	// Backlog is the most that the queue behind the bucket had, in messages: the burst
	// that would have let all of them through at once.
	Backlog float64
	// Waiting is how many wait for a token now.
	Waiting float64
	// Access and Processing are p99s, as those of Stats.
	Access, Processing time.Duration
}

// Seen returns what was published to a topic since the last call, and begins anew. ok is
// false where the hub has no share of the topic, or nothing was ever published to it.
func (h *Hub) Seen(topic string) (s Seen, ok bool) {
	h.mu.RLock()
	l := h.lanes[laneKey{filter: topic, topic: topic, share: true}]
	h.mu.RUnlock()
	if l == nil {
		return s, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s = Seen{Messages: l.seen.messages, Backlog: l.seen.most, Waiting: float64(l.queue.len())}
	if l.rule != nil {
		s.Access, s.Processing = l.rule.stats.p99()
	}
	l.seen.messages, l.seen.most = 0, 0
	return s, true
}

// seen counts what arrives at a lane.
type seen struct {
	messages float64
	level    float64 // of the queue behind the bucket
	most     float64
	at       mono.Time
}

// count enters a message that arrived at stamp, before its token is taken. The lock is held.
func (l *lane) count(stamp mono.Time) {
	s := &l.seen
	if stamp > s.at {
		if l.rule != nil {
			s.level = max(0, s.level-l.rule.Rate*stamp.Sub(s.at).Seconds())
		}
		s.at = stamp
	}
	s.level++
	s.messages++
	s.most = max(s.most, s.level)
}
