package mqtt

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
)

// saveEvery is how often what was acknowledged is stored. What was acknowledged since
// is sent again after the node has died, for QoS 1.
const saveEvery = time.Second

// idleSaves is after how many of these a session is stored to which nothing happened but
// that the log went on: until then the log is kept for it.
const idleSaves = 30

// touch has the session stored soon. The lock is held.
func (s *session) touch() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// keepSaved stores the session when something waits for that, and every saveEvery if it
// has changed.
func (s *session) keepSaved(c *conn) {
	b := s.srv.hub.NewBatch()
	ticker := time.NewTicker(saveEvery)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-c.stored.ctx.Done():
			return
		case <-s.dirty:
		case <-ticker.C:
			s.mu.Lock()
			changed := s.changed || n%idleSaves == 0 && s.next < s.srv.plane.Position()
			s.mu.Unlock()
			if !changed {
				continue
			}
		}
		cut, err := s.saveTo(time.Time{})
		if errors.Is(err, packets.ErrSessionTakenOver) { // this node did not hear of it
			s.srv.serving.Go(func() { c.Kick(packets.ErrSessionTakenOver) })
			return
		}
		if err != nil {
			s.mu.Lock()
			s.touch() // it is tried again; what waits goes on waiting
			s.mu.Unlock()
			select {
			case <-c.stored.ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		b.Begin(live.Now())
		s.sendSaved(b, cut)
		b.End()
	}
}

// sendSaved sends what waited until it was stored: messages, and PUBREL.
func (s *session) sendSaved(b *engine.Batch, saved snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return
	}
	still := func(u waiting) *slot {
		at := s.slotOf(u.id)
		if at == nil || !at.unsaved || at.order != u.order || at.released != u.released {
			return nil
		}
		return at
	}
	for _, u := range saved.unsaved {
		if at := still(u); at != nil {
			at.done() // the session owes it to the client now, also if there is no room for it in the outbox
		}
	}
	for _, u := range saved.unsaved {
		at := still(u)
		if at == nil {
			continue
		}
		if at.released {
			at.unsaved = false
			s.conn.ack(b, packets.Pubrel, u.id, packets.CodeSuccess)
			continue
		}
		switch s.conn.publish(b, &outgoing{m: &at.kept.Message, qos: at.qos, retain: at.retain, id: u.id, ids: at.ids}) {
		case sent:
			at.unsaved = false
		case never:
			s.complete(u.id)
		case full: // catchUp has it sent when there is room
			s.held = true
			return
		}
	}
}

// snapshot is which slots wait for what was stored.
type snapshot struct{ unsaved []waiting }

type waiting struct {
	id       uint16
	order    uint64
	released bool
}

// save stores the session, if it is one that is. until is when it expires, zero while
// the client is connected.
func (s *session) save(until time.Time) error {
	_, err := s.saveTo(until)
	return err
}

func (s *session) saveTo(until time.Time) (snapshot, error) {
	if !s.durable {
		return snapshot{}, nil
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	out, in, waits := s.snapshot()
	out.Until, out.Writer, out.Revision = until, s.writer, s.revision
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	var err error
	if out.State, err = json.Marshal(in); err == nil {
		err = s.srv.plane.SaveSession(ctx, s.id, out)
	}
	s.revision = out.Revision
	switch {
	case errors.Is(err, backplane.ErrTaken):
		return waits, packets.ErrSessionTakenOver
	case err != nil:
		s.srv.log.Warn("a session cannot be stored", "error", err)
		return waits, errStore
	}
	return waits, nil
}

// snapshot returns what to store.
func (s *session) snapshot() (*backplane.Session, *stored, snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = false
	in := &stored{Owner: s.owner, Next: s.next, Subscriptions: s.filters, Numbers: map[uint16]numbered{}}
	if !s.reading {
		in.Next = max(in.Next, s.srv.plane.Position())
		s.next = in.Next
	}
	room := maxRetained
	owes := func(q *queued, id uint16) {
		r := retained{q.kept.Topic.Name(), q.qos, id}
		if as, _ := json.Marshal(r); room >= len(as) { // it never fails
			room -= len(as) + 1 // and a comma
			in.Retained = append(in.Retained, r)
		}
	}
	first := true
	for i := range s.queue.n {
		q := &s.queue.ring[(s.queue.first+i)%len(s.queue.ring)]
		switch at := q.kept.Position; {
		case at == 0:
			owes(q, 0)
		case first:
			in.Next, first = min(in.Next, at-1), false
		}
	}
	for id, n := range s.numbers {
		n.Stored = s.inbound[id].state == received
		in.Numbers[id] = n
	}
	floor := in.Next
	for _, n := range in.Numbers {
		if !n.Stored { // it may have to be looked for
			floor = min(floor, n.At)
		}
	}
	var waits snapshot
	for i := range s.slots {
		at := &s.slots[i]
		if at.qos == 0 || at.qos == 1 && at.owed != nil { // of a pool, which has it until the client does
			continue
		}
		u := under{ID: uint16(i + 1), QoS: at.qos, Released: at.released}
		if at.unsaved {
			waits.unsaved = append(waits.unsaved, waiting{u.ID, at.order, at.released})
		}
		if at.kept != nil {
			switch u.Position = at.kept.Position; {
			case u.Position > 0:
				floor = min(floor, u.Position-1)
			case u.QoS == 2: // it is not in the log, and cannot be read again; its identifier is free after PUBREL
				u.Released = true
			default:
				owes(&at.queued, u.ID)
				continue
			}
		}
		in.Under = append(in.Under, u)
	}
	slices.SortFunc(in.Under, func(a, b under) int { return int(int64(s.slots[a.ID-1].order) - int64(s.slots[b.ID-1].order)) })
	slices.SortFunc(waits.unsaved, func(a, b waiting) int { return int(int64(a.order) - int64(b.order)) })
	out := &backplane.Session{Floor: floor, Expiry: s.expiry}
	for _, f := range s.filters {
		if group, filter, err := splitShared(f.Name); err == nil && group != "" {
			out.Groups = append(out.Groups, backplane.GroupOf(group, filter))
		}
	}
	return out, in, waits
}

// keepSubscriptions stores what the client subscribes to, after a change.
func (s *session) keepSubscriptions(c *conn) error {
	if !s.durable {
		return nil
	}
	c.batch.End()
	at := s.srv.plane.Offered()
	s.mu.Lock()
	had := map[string]subscribed{}
	for _, f := range s.filters {
		had[f.Name] = f
	}
	s.filters = make([]subscribed, 0, len(s.subs)) // what was stored before is not changed
	s.subscribed++
	for name, sub := range s.subs {
		f := subscribed{Name: name, QoS: sub.QoS, NoLocal: sub.NoLocal, AsPublished: sub.AsPublished, ID: sub.ID, Since: at}
		if old, ok := had[name]; ok {
			f.Since = old.Since
		}
		s.filters = append(s.filters, f)
	}
	slices.SortFunc(s.filters, func(a, b subscribed) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	s.mu.Unlock()
	return c.saved()
}
