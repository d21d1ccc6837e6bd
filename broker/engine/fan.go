package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/spillgate/spillgate/broker/brief"
	"github.com/spillgate/spillgate/internal/mono"
)

// Subscription is one subscription of a session.
type Subscription struct {
	// Who receives, and its number as a Message.Sender, 0 without.
	Who    Subscriber
	Sender uint64
	// QoS is the highest with which it is delivered.
	QoS byte
	// NoLocal leaves out what Who published itself.
	NoLocal bool
	// AsPublished keeps the retain flag as the publisher set it.
	AsPublished bool
	// ID is the subscription identifier that goes with each message, 0 without.
	ID uint32
	// Group is the name of a shared subscription, whose members take turns; empty
	// for one of its own.
	Group string
	// Draws says of a member of a shared subscription that it gets what the Log has stored from there itself, and the hub
	// delivers to it only the rest. Members that do are no group with those that do not.
	Draws bool

	filter string
}

// Target is one subscriber of a topic, with what all its subscriptions that match
// ask for together.
type Target struct {
	Who         Subscriber
	Sender      uint64
	QoS         byte
	NoLocal     bool
	AsPublished bool
	IDs         []uint32
	// Of is the shared subscription that it is a member of; nil: the subscriptions are its own.
	Of *Interest
}

// fan is who receives the messages of a topic.
type fan struct {
	version uint64
	each    []Target
	groups  []*group
}

// group is the members of a shared subscription.
type group struct {
	*Interest
	members []Target
	turn    atomic.Uint32
}

// own reports whether a message is left out because the subscriber has published it itself.
func (t *Target) own(m *Message) bool {
	return t.NoLocal && (t.Who == m.From || m.Sender != 0 && m.Sender == t.Sender)
}

// pick returns the next member for a message that is online, the next if none is; nil if all leave it out.
func (g *group) pick(m *Message) (next *Target) {
	n := uint32(len(g.members))
	from := g.turn.Add(1)
	for i := range n {
		switch t := &g.members[(from+i)%n]; {
		case t.own(m):
		case t.Who.Online():
			return t
		case next == nil:
			next = t
		}
	}
	return next
}

// Subscribe adds s for a filter, which must be right, see CheckFilter. The error
// is ErrSubscriptions.
func (h *Hub) Subscribe(filter string, s *Subscription) error {
	h.subsMu.Lock()
	defer h.subsMu.Unlock()
	if h.subs.n >= h.cfg.Subscriptions {
		return fmt.Errorf("%w: %d", ErrSubscriptions, h.cfg.Subscriptions)
	}
	s.filter = filter
	h.subs.add(s)
	h.version.Add(1)
	if w := h.cfg.Watch; w != nil {
		of := h.interest(s)
		if h.filters[of]++; h.filters[of] == 1 {
			w.Wanted(of)
		}
	}
	return nil
}

// Settle waits until a subscription to a filter counts wherever messages of QoS 1 and 2 are published, or ctx ends.
func (h *Hub) Settle(ctx context.Context, filter string) error {
	if h.cfg.Watch == nil {
		return nil
	}
	return h.cfg.Watch.Settle(ctx, filter)
}

// Unsubscribe removes a subscription that Subscribe has taken.
func (h *Hub) Unsubscribe(s *Subscription) {
	h.subsMu.Lock()
	defer h.subsMu.Unlock()
	h.subs.remove(s)
	h.version.Add(1)
	if w := h.cfg.Watch; w != nil {
		of := h.interest(s)
		if h.filters[of]--; h.filters[of] == 0 {
			delete(h.filters, of)
			w.Unwanted(of)
		}
	}
}

// Interest is what a Watcher tells apart: a filter, and for a shared subscription its Subscription.Group and Draws.
type Interest struct {
	Group, Filter string
	Draws         bool
}

func (h *Hub) interest(s *Subscription) Interest {
	if !h.cfg.Shared {
		return Interest{Filter: s.filter}
	}
	return s.interest()
}

func (s *Subscription) interest() Interest {
	return Interest{s.Group, s.filter, s.Draws && s.Group != ""}
}

// fanOf returns who receives the messages of t now.
func (h *Hub) fanOf(t *Topic) *fan {
	if f := t.fan.Load(); f != nil && f.version == h.version.Load() {
		return f
	}
	h.subsMu.RLock()
	f := &fan{version: h.version.Load()}
	h.subs.match(t.name, f.add)
	h.subsMu.RUnlock()
	t.fan.Store(f)
	return f
}

func (f *fan) add(s *Subscription) {
	if s.Group == "" {
		f.each = merge(f.each, s, nil)
		return
	}
	of := s.interest()
	for _, g := range f.groups {
		if *g.Interest == of {
			g.members = merge(g.members, s, g.Interest)
			return
		}
	}
	g := &group{Interest: &of, members: merge(nil, s, &of)}
	g.turn.Store(rand.Uint32()) // or the same member would get the first message of every topic
	f.groups = append(f.groups, g)
}

// merge adds s to the target of its subscriber.
func merge(all []Target, s *Subscription, of *Interest) []Target {
	at := -1
	for i := range all {
		if all[i].Who == s.Who {
			at = i
			break
		}
	}
	if at < 0 {
		all = append(all, Target{Who: s.Who, Sender: s.Sender, NoLocal: s.NoLocal, Of: of})
		at = len(all) - 1
	}
	t := &all[at]
	t.QoS = max(t.QoS, s.QoS)
	t.NoLocal = t.NoLocal && s.NoLocal
	t.AsPublished = t.AsPublished || s.AsPublished
	if s.ID > 0 {
		t.IDs = append(t.IDs, s.ID)
	}
	return all
}

// release hands a message that has its token to all of its subscribers, or to
// the log, which does so later and tells its Source: then it reports Waits. QueueFull
// says that the log has no room.
func (h *Hub) release(b *Batch, m *Message, id uint16) Verdict {
	if m.Expires <= b.now {
		return Went
	}
	if h.cfg.Log != nil && m.QoS > 0 {
		if h.cfg.Log.Append(m, id) {
			return Waits
		}
		return QueueFull
	}
	if m.Retain {
		h.Retain(m)
	}
	h.deliver(b, m)
	if h.cfg.Forward != nil {
		h.cfg.Forward.Forward(b, m)
	}
	return Went
}

// crowd is how many messages and deliveries a batch may have until what these take, some 5 µs each with the write, is so long that
// the scheduler is to watch. One read may bring 6,000 messages.
const crowd = 100

// deliver hands a message to the subscribers of this node.
func (h *Hub) deliver(b *Batch, m *Message) {
	f := h.fanOf(m.Topic)
	if b.long(len(f.each)) {
		brief.Watch()
	}
	for i := range f.each {
		if t := &f.each[i]; !t.own(m) {
			t.Who.Deliver(b, m, t)
		}
	}
	if h.cfg.Shared {
		return
	}
	for _, g := range f.groups {
		if m.Position == 0 || !g.Draws {
			if t := g.pick(m); t != nil {
				t.Who.Deliver(b, m, t)
			}
		}
	}
}

// DeliverTo hands a message to one member of a shared subscription, which it was sent to
// this node for, or which another member of had and is gone. It takes no token and goes no further. It reports false where no member
// is here any more. A member that leaves out what it has published gets that if it is the only one here: nobody else would.
func (b *Batch) DeliverTo(m *Message, of Interest) (delivered bool) {
	defer m.drop()
	for _, g := range b.hub.fanOf(m.Topic).groups {
		if *g.Interest == of && m.Expires > b.now {
			t := g.pick(m)
			if t == nil {
				t = &g.members[0]
			}
			t.Who.Deliver(b, m, t)
			return true
		}
	}
	return false
}

// Retain keeps m as its topic's last message; an empty one deletes that.
func (h *Hub) Retain(m *Message) {
	t, now := m.Topic, h.now()
	h.retainedMu.Lock()
	defer h.retainedMu.Unlock()
	h.unretain(t)
	if len(m.Payload) == 0 || m.Expires <= now || t.gone.Load() {
		return
	}
	if size := m.size() + retainedOverhead; h.bytes+size > h.cfg.Retained {
		h.unretainExpired(now)
		if h.bytes+size > h.cfg.Retained {
			return
		}
	}
	t.retained = m.Keep()
	h.retained.put(t)
	h.bytes += m.size() + retainedOverhead
}

// unretain forgets a topic's last message, if it has one. retainedMu is held, as below.
func (h *Hub) unretain(t *Topic) {
	if old := t.retained; old != nil {
		h.bytes -= old.size() + retainedOverhead
		t.retained = nil
		h.retained.drop(t)
		old.Release()
	}
}

// unretainExpired forgets the messages that are expired. It looks at all of them, so not for every message that finds no room.
func (h *Hub) unretainExpired(now mono.Time) {
	if h.unretained != 0 && now.Sub(h.unretained) < forgetEvery {
		return
	}
	h.unretained = now
	h.retained.root.each(false, func(t *Topic) {
		if t.retained.Expires <= now {
			h.unretain(t)
		}
	})
}

// RetainedOf returns the retained message of a topic, which the caller releases, nil if there is none.
func (h *Hub) RetainedOf(topic string) *Kept {
	h.retainedMu.RLock()
	defer h.retainedMu.RUnlock()
	now := h.now()
	var kept *Kept
	h.retained.match(topic, func(t *Topic) {
		if t.retained.Expires > now {
			t.retained.refs.Add(1)
			kept = t.retained
		}
	})
	return kept
}

// Retained calls found for the retained message of every topic that filter
// matches. The messages are borrowed.
func (h *Hub) Retained(b *Batch, filter string, found func(*Message)) {
	h.retainedMu.RLock()
	var kept []*Kept
	h.retained.match(filter, func(t *Topic) {
		if t.retained.Expires > b.now {
			t.retained.refs.Add(1)
			kept = append(kept, t.retained)
		}
	})
	h.retainedMu.RUnlock()
	for _, k := range kept {
		m := k.Message
		m.Stored = true
		found(&m)
		k.Release()
	}
}
