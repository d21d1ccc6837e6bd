package mqtt

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"golang.org/x/sync/errgroup"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
)

// load takes what was stored.
func (s *session) load(ctx context.Context, old *backplane.Session) error {
	var in stored
	if err := json.Unmarshal(old.State, &in); err != nil {
		return err
	}
	messages, err := s.underWay(ctx, in.Under)
	if err != nil {
		return err
	}
	for _, f := range in.Subscriptions {
		group, filter, err := splitShared(f.Name)
		if err != nil || !s.conn.who.MaySubscribe(filter) {
			continue
		}
		sub := &engine.Subscription{Who: s, Sender: s.sender, QoS: f.QoS, NoLocal: f.NoLocal, AsPublished: f.AsPublished, ID: f.ID, Group: group}
		sub.Draws = group != ""
		if err := s.srv.hub.Subscribe(filter, sub); err != nil {
			return err
		}
		s.subs[f.Name] = sub
		s.filters = append(s.filters, f)
		if sub.Draws {
			if err := s.srv.share(s, sub, poolKey{group, filter}, math.MaxInt); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = in.Next
	for id, n := range in.Numbers {
		s.numbers[id] = n
		if n.Stored {
			s.inbound[id] = inbound{state: received}
		}
	}
	for i := range in.Under {
		if err := s.again(&in.Under[i], messages[i]); err != nil {
			return err
		}
	}
	for _, r := range in.Retained {
		if err := s.owes(&r); err != nil {
			return err
		}
	}
	for i := range s.slots {
		if s.slots[i].qos == 0 {
			s.free = append(s.free, uint16(i))
		}
	}
	return nil
}

// loadsAtOnce is how many messages of a session are asked for at once. One after the other, as many
// as a window may hold would take longer than storeTime: each takes a round trip.
const loadsAtOnce = 16

// underWay returns the messages that were under way, nil where only a number was, and for one that
// is older than the log. The lock is not held.
func (s *session) underWay(ctx context.Context, all []under) ([]*engine.Kept, error) {
	messages := make([]*engine.Kept, len(all))
	loading, ctx := errgroup.WithContext(ctx)
	loading.SetLimit(loadsAtOnce)
	for i := range all {
		if all[i].Released {
			continue
		}
		loading.Go(func() error {
			m, found, err := s.srv.plane.At(ctx, all[i].Position)
			if found {
				messages[i] = m.Keep()
			}
			return err
		})
	}
	return messages, loading.Wait()
}

// again puts a message that was under way into its slot. The lock is held.
func (s *session) again(u *under, m *engine.Kept) error {
	at := slot{queued: queued{kept: m, qos: u.QoS}, released: u.Released, order: s.sent + 1}
	if u.ID == 0 || u.QoS < 1 || u.QoS > 2 {
		return errors.New("a stored session has a message without a packet identifier or QoS")
	}
	switch {
	case u.Released:
	case m != nil:
		_, at.retain, at.ids, _ = s.wants(&m.Message)
	case u.QoS < 2:
		return nil // it is older than the log
	default:
		at.released = true // as session.skip says
	}
	for len(s.slots) < int(u.ID) {
		s.slots = append(s.slots, slot{})
	}
	s.slots[u.ID-1] = at
	s.sent++
	s.inUse++
	return nil
}

// owes has the session send what is retained of a topic. The lock is held.
func (s *session) owes(r *retained) error {
	m := s.srv.hub.RetainedOf(r.Topic)
	if m == nil {
		return nil
	}
	qos, _, ids, ok := s.wants(&m.Message)
	if qos = min(qos, r.QoS); !ok || qos == 0 || r.ID > 0 && qos != r.QoS {
		m.Release()
		return nil
	}
	if r.ID == 0 {
		if !s.queue.push(queued{kept: m, qos: qos, retain: true, ids: ids}, s.srv.limits.Queue, s.srv.limits.QueueBytes) {
			m.Release()
		}
		return nil
	}
	if err := s.again(&under{ID: r.ID, QoS: qos}, m); err != nil {
		return err
	}
	s.slots[r.ID-1].retain = true
	return nil
}
