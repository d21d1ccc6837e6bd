package mqtt

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
)

// Where messages are stored, a shared subscription is one of the whole cluster (backplane.Group), and waits while no member is there. Each
// node draws as many of its messages as its members take, and gives back what a member has not acknowledged when it goes:
//
//	QoS 0   drawn ─▶ sent: done
//	QoS 1   drawn ─▶ sent ─▶ PUBACK: done; gone before that: back, for another member
//	QoS 2   drawn ─▶ stored with the session: done ─▶ sent, and again when the client is back; without a stored session, sent: done
//
// Messages that are published with QoS 0 come by the hub.

// poolKey names a shared subscription.
type poolKey struct{ group, filter string }

// pool is the members that a shared subscription has at this node.
type pool struct {
	srv  *Server
	key  poolKey
	by   maker // that has made it here
	from *backplane.Group
	more chan struct{} // has one element after a member may take more
	stop context.CancelFunc

	mu      sync.Mutex
	members []member
	turn    int

	drawnMu sync.Mutex                // after a session's lock
	drawn   map[*backplane.Drawn]bool // that no member has acknowledged
}

// maker is who a shared subscription counts for, see Limits.Shared.
type maker struct{ user, client string }

func (s *session) maker() maker {
	if s.owner != "" {
		return maker{user: s.owner}
	}
	return maker{client: s.id}
}

// sharedBy returns how many shared subscriptions somebody has made here. The lock of pools is held.
func (srv *Server) sharedBy(by maker) (n int) {
	for _, p := range srv.pools {
		if p.by == by {
			n++
		}
	}
	return n
}

// member is a session in a pool.
type member struct {
	s   *session
	sub *engine.Subscription
}

// owed is a message that a session owes to the pool it is from until the client has it.
type owed struct {
	pool *pool
	*backplane.Drawn
}

// end tells what became of the message, once.
func (o *owed) end(done bool) {
	o.pool.drawnMu.Lock()
	delete(o.pool.drawn, o.Drawn)
	o.pool.drawnMu.Unlock()
	if done {
		o.Done()
	} else {
		o.Back()
	}
}

// share makes a session a member of a shared subscription, in place of what it was there. It is packets.ErrQuotaExceeded where nobody here is a
// member and the session's maker has made most of them.
func (srv *Server) share(s *session, sub *engine.Subscription, key poolKey, most int) error {
	srv.poolsMu.Lock()
	p, by := srv.pools[key], s.maker()
	var from *backplane.Group
	if p == nil {
		full := srv.sharedBy(by) >= most
		srv.poolsMu.Unlock()
		if full {
			return packets.ErrQuotaExceeded
		}
		ctx, cancel := context.WithTimeout(context.Background(), storeTime)
		defer cancel()
		var err error
		if from, err = srv.plane.OpenGroup(ctx, key.group, key.filter); err != nil {
			srv.log.Warn("a shared subscription cannot be made", "error", err)
			if errors.Is(err, backplane.ErrGroups) {
				return packets.ErrQuotaExceeded
			}
			return packets.ErrUnspecifiedError
		}
		srv.poolsMu.Lock()
		p = srv.pools[key]
	}
	defer srv.poolsMu.Unlock()
	switch {
	case p != nil && from != nil: // another client was faster
		from.Close()
	case p == nil && srv.sharedBy(by) >= most: // others made as many meanwhile
		from.Close()
		return packets.ErrQuotaExceeded
	case p == nil:
		p = &pool{srv: srv, key: key, by: by, from: from, more: make(chan struct{}, 1), drawn: map[*backplane.Drawn]bool{}}
		srv.pools[key] = p
		var ctx context.Context
		ctx, p.stop = context.WithCancel(context.Background())
		srv.serving.Go(func() { p.draw(ctx) })
		srv.serving.Go(func() { p.hold(ctx) })
	}
	p.mu.Lock()
	p.members = append(slices.DeleteFunc(p.members, func(m member) bool { return m.s == s }), member{s, sub})
	p.mu.Unlock()
	s.mu.Lock()
	if !slices.Contains(s.pools, p) {
		s.pools = append(s.pools, p)
	}
	s.mu.Unlock()
	p.wake()
	return nil
}

// unshare ends that a session is a member of a pool.
func (srv *Server) unshare(s *session, p *pool) {
	srv.poolsMu.Lock()
	defer srv.poolsMu.Unlock()
	s.mu.Lock()
	s.pools = slices.DeleteFunc(s.pools, func(have *pool) bool { return have == p })
	s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = slices.DeleteFunc(p.members, func(m member) bool { return m.s == s })
	if len(p.members) == 0 && srv.pools[p.key] == p {
		delete(srv.pools, p.key)
		p.stop()
		p.from.Close()
	}
}

// poolOf returns the pool of a shared subscription that a session is a member of, nil if there is none.
func (s *session) poolOf(key poolKey) *pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		if p.key == key {
			return p
		}
	}
	return nil
}

// part ends the session's part in all pools: what its client has not acknowledged goes back, but for what is stored with the session.
func (s *session) part() {
	s.mu.Lock()
	pools := slices.Clone(s.pools)
	s.mu.Unlock()
	for _, p := range pools {
		s.srv.unshare(s, p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.slots {
		at := &s.slots[i]
		if at.owed == nil {
			continue
		}
		at.owed.end(false)
		at.owed = nil
		s.complete(uint16(i + 1))
	}
}

// wake tells the pool that a member may take more.
func (p *pool) wake() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// hold says of what members have and have not acknowledged that they have it, until ctx ends.
func (p *pool) hold(ctx context.Context) {
	ticker := time.NewTicker(backplane.HoldEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		p.drawnMu.Lock()
		for d := range p.drawn {
			d.Hold()
		}
		p.drawnMu.Unlock()
	}
}

// draw gives members what they take, until ctx ends.
func (p *pool) draw(ctx context.Context) {
	b := p.srv.hub.NewBatch()
	p.from.Feed(ctx, p.more, p.room, func(ctx context.Context, m *engine.Message, d *backplane.Drawn) {
		p.drawnMu.Lock()
		p.drawn[d] = true
		p.drawnMu.Unlock()
		p.give(ctx, b, m, &owed{p, d})
	})
}

// room returns how many messages members take now.
func (p *pool) room(context.CancelFunc) (n int) {
	p.mu.Lock()
	members := slices.Clone(p.members)
	p.mu.Unlock()
	for _, m := range members {
		n += m.s.takes()
	}
	return n
}

// give gives a message to the next member that takes it, as soon as one does, or back when ctx ends.
func (p *pool) give(ctx context.Context, b *engine.Batch, m *engine.Message, o *owed) {
	for {
		p.mu.Lock()
		p.turn++
		turn, members := p.turn, slices.Clone(p.members)
		p.mu.Unlock()
		b.Begin(live.Now())
		for i := range members {
			if to := &members[(turn+i)%len(members)]; to.s.offer(b, m, to.sub, o) {
				b.End()
				return
			}
		}
		b.End()
		select {
		case <-ctx.Done():
			o.end(false)
			return
		case <-p.more:
		}
	}
}

// takes returns how many messages of QoS 1 and 2 the client takes now.
func (s *session) takes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready() {
		return 0
	}
	return max(0, s.window-s.inUse)
}

// offer gives a message to the client if it takes one now.
func (s *session) offer(b *engine.Batch, m *engine.Message, sub *engine.Subscription, o *owed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready() || !slices.Contains(s.pools, o.pool) {
		return false
	}
	q := queued{qos: min(m.QoS, sub.QoS), retain: m.Retain && sub.AsPublished}
	if sub.ID > 0 {
		q.ids = []uint32{sub.ID}
	}
	if q.qos == 0 {
		if s.conn.publish(b, &outgoing{m: m, retain: q.retain, ids: q.ids}) == full {
			return false
		}
		o.end(true)
		return true
	}
	if s.inUse >= s.window {
		return false
	}
	q.kept, q.owed = m.Keep(), o
	if !s.send(b, q) {
		q.kept.Release()
		return false
	}
	return true
}

// ready reports whether the client is to be sent what pools have. The lock is held.
func (s *session) ready() bool {
	return s.online() && !s.joining && len(s.resend) == 0 && s.queue.n == 0
}

// join notes whether SUBACK is yet to go.
func (s *session) join(yet bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joining = yet
	s.roomier()
}

// roomier tells the session's pools that it may take more. The lock is held.
func (s *session) roomier() {
	if s.ready() && s.inUse < s.window {
		for _, p := range s.pools {
			p.wake()
		}
	}
}
