package mqtt

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
)

// wants returns what the subscriptions that are not shared ask for together about a
// message of the log, or a retained one. The lock is held, or nothing else runs yet.
func (s *session) wants(m *engine.Message) (qos byte, retain bool, ids []uint32, ok bool) {
	local := true
	for i := range s.filters {
		f := &s.filters[i]
		group, filter, err := splitShared(f.Name)
		if err != nil || group != "" || m.Position > 0 && f.Since >= m.Position || !engine.Matches(filter, m.Topic.Name()) {
			continue
		}
		ok = true
		qos = max(qos, f.QoS)
		local = local && f.NoLocal
		retain = retain || f.AsPublished
		if f.ID > 0 {
			ids = append(ids, f.ID)
		}
	}
	return min(qos, m.QoS), retain && m.Retain, ids, ok && !(local && m.Sender == s.sender)
}

// has reports whether a message of a session that is stored need not be delivered: one of the log that was, or is
// read later, and any other before CONNACK. The lock is held.
func (s *session) has(position uint64) bool {
	if !s.durable || position == 0 {
		return s.durable && s.loading
	}
	if s.reading || position <= s.next {
		return true
	}
	s.next, s.changed = position, true
	return false
}

// behind has a message, and all after it, read from the log later, since the queue is
// full. It reports false where that is not possible. The lock is held.
func (s *session) behind(position uint64) bool {
	if !s.durable || position == 0 {
		return false
	}
	s.next, s.reading = position-1, true
	c := s.conn
	if c == nil || c.stored.over {
		return true
	}
	c.stored.running.Go(func() { s.read(c) })
	return true
}

// roomy tells read that the queue got shorter. The lock is held.
func (s *session) roomy() {
	if s.reading {
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
}

// follow starts what a connection runs for a session that is stored.
func (c *conn) follow() {
	s := c.session
	if !s.durable {
		return
	}
	c.stored.running.Go(func() { s.keepSaved(c) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading {
		c.stored.running.Go(func() { s.read(c) })
	}
	s.touch() // what was loaded and not released
}

// read reads from the log until the session is where the node's feed is.
func (s *session) read(c *conn) {
	b := s.srv.hub.NewBatch()
	for c.stored.ctx.Err() == nil {
		if !s.settled(c.stored.ctx) { // or what the feed has does not begin where this ends
			select {
			case <-c.stored.ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		s.mu.Lock()
		after, subscribed := s.next, s.subscribed
		filters := s.own()
		s.mu.Unlock()
		at, err := s.srv.plane.Read(c.stored.ctx, after, filters, func(m *engine.Message) bool { return s.catch(c, b, m, subscribed) })
		if err != nil {
			select {
			case <-c.stored.ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		s.mu.Lock()
		if s.subscribed == subscribed { // else what was passed by may be subscribed to now
			s.next = max(s.next, at)
		}
		if err == nil && s.next >= s.srv.plane.Offered() {
			s.reading, s.changed = false, true
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// settled waits until the node's feed has what the session subscribes to. It reports false where that takes too long.
func (s *session) settled(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	s.mu.Lock()
	filters := s.own()
	s.mu.Unlock()
	for _, filter := range filters {
		if s.srv.hub.Settle(ctx, filter) != nil {
			return false
		}
	}
	return true
}

// own returns the filters of the subscriptions that are not shared. The lock is held.
func (s *session) own() (filters []string) {
	for _, f := range s.filters {
		if group, filter, err := splitShared(f.Name); err == nil && group == "" {
			filters = append(filters, filter)
		}
	}
	return filters
}

// catch takes a message that was read from the log, once there is room for it. It
// reports false when the connection is over, or the client has subscribed anew since the log is read.
func (s *session) catch(c *conn, b *engine.Batch, m *engine.Message, subscribed uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribed != subscribed {
		return false
	}
	qos, retain, ids, ok := s.wants(m)
	q := queued{qos: qos, retain: retain, ids: ids}
	if ok && qos > 0 {
		q.kept = m.Keep()
		for !s.queue.push(q, s.srv.limits.Queue, s.srv.limits.QueueBytes) {
			s.mu.Unlock()
			select {
			case <-s.room:
			case <-c.stored.ctx.Done():
			}
			s.mu.Lock()
			if c.stored.ctx.Err() != nil {
				return false
			}
		}
	}
	b.Begin(live.Now())
	if ok && qos == 0 && s.conn != nil {
		s.conn.publish(b, &outgoing{m: m, retain: retain, ids: ids})
	}
	s.next, s.changed = m.Position, true
	s.pump(b)
	s.mu.Unlock()
	b.End()
	s.mu.Lock()
	return s.conn == c
}
