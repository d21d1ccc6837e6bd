package nsq

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
)

// Where messages are stored, a channel that is not ephemeral is one of the whole cluster (backplane.Group): each node draws as many of its
// messages as its consumers take, and says of those that it holds them until they are finished.
//
//	drawn ─▶ ready ─▶ in flight ─▶ FIN: done
//	           ▲           │ REQ, or late
//	           └───────────┘       the last consumer gone: back, for another node
//
// The hub delivers to it only what is not stored, messages of QoS 0.

// source is where a channel draws its messages from.
type source struct {
	*backplane.Group
	more chan struct{} // has one element after consumers may take more
	stop context.CancelFunc
	// pause ends the draw at hand; guarded by the channel's lock.
	pause context.CancelFunc
}

const (
	// groupPrefix begins the group of a channel; MQTT has no group with such a name.
	groupPrefix = "#nsq#"
	// openTime bounds how long SUB waits until there is a channel.
	openTime = 10 * time.Second
)

// Join has channels and acknowledged messages outlive the process. It must be called before Serve and before the plane is opened.
func (srv *Server) Join(p *backplane.Plane) { srv.plane = p }

// stores reports whether a channel is one of the cluster.
func (srv *Server) stores(key channelKey) bool {
	return srv.plane != nil && !strings.HasSuffix(key.name, ephemeral)
}

// storedOf returns how many of these a user has made here. The server's lock is held.
func (srv *Server) storedOf(user string) (n int) {
	for _, ch := range srv.channels {
		if ch.from != nil && ch.by == user {
			n++
		}
	}
	return n
}

// open makes a channel of the cluster, unless there is one; nil where nothing is stored.
func (srv *Server) open(key channelKey) (*backplane.Group, error) {
	if !srv.stores(key) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	g, err := srv.plane.OpenGroup(ctx, groupPrefix+key.name, key.topic)
	switch {
	case errors.Is(err, backplane.ErrGroups):
		return nil, fatal("E_BAD_CHANNEL", "%v", err)
	case err != nil:
		srv.log.Warn("a channel cannot be made", "error", err)
		return nil, fatal("E_SUB_FAILED", "the channel cannot be made: %v", err)
	}
	return g, nil
}

// drawFrom begins to draw. The server's lock is held, and nobody has joined yet.
func (ch *channel) drawFrom(g *backplane.Group) {
	ctx, cancel := context.WithCancel(context.Background())
	ch.from = &source{Group: g, more: make(chan struct{}, 1), stop: cancel, pause: func() {}}
	ch.srv.drawing.Go(func() { ch.draw(ctx) })
	ch.srv.drawing.Go(func() { ch.hold(ctx) })
}

// end ends that: what the channel has goes back.
func (s *source) end() {
	s.stop()
	s.Close()
}

// draw gives consumers what they take, until ctx ends.
func (ch *channel) draw(ctx context.Context) {
	b := ch.srv.hub.NewBatch()
	begin := func(end context.CancelFunc) int {
		ch.mu.Lock()
		defer ch.mu.Unlock()
		ch.from.pause = end
		return ch.room()
	}
	ch.from.Feed(ctx, ch.from.more, begin, func(_ context.Context, m *engine.Message, d *backplane.Drawn) {
		b.Begin(live.Now())
		defer b.End()
		ch.take(b, m, d)
	})
}

// room returns how many messages consumers take beside those that are ready, as far as the channel may hold them: none where it has its
// bytes, which the last backplane.MaxDraw messages may exceed. The channel's lock is held, as in all that follows without one.
func (ch *channel) room() (n int) {
	if ch.bytes >= ch.srv.limits.QueueBytes {
		return 0
	}
	for _, c := range ch.consumers {
		n += max(0, c.ready-c.flying)
	}
	return max(0, min(n-(len(ch.ready)-ch.first), ch.srv.limits.Queue-ch.held))
}

// take takes a message that was drawn.
func (ch *channel) take(b *engine.Batch, m *engine.Message, d *backplane.Drawn) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case ch.closed, len(ch.consumers) == 0:
		d.BackSent(d.Sent)
	case !ch.fits(m):
		d.Done()
	default:
		one := ch.enter(m)
		one.drawn, one.attempts = d, uint16(min(d.Sent, 1<<16-2))
		ch.pump(b)
	}
}

// hungry tells draw that consumers may take more.
func (ch *channel) hungry() {
	if ch.from != nil && ch.room() > 0 {
		select {
		case ch.from.more <- struct{}{}:
		default:
		}
	}
}

// hold says of what the channel has that it has it, until ctx ends.
func (ch *channel) hold(ctx context.Context) {
	ticker := time.NewTicker(backplane.HoldEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		ch.mu.Lock()
		for _, m := range ch.slots {
			if m.drawn != nil {
				m.drawn.Hold()
			}
		}
		ch.mu.Unlock()
	}
}

// back gives back what was drawn, when there are no consumers any more, and draws no more: NATS forgets what was given back when it is started
// again, and waits for it.
func (ch *channel) back() {
	ch.from.pause()
	var deferred []*message
	for _, m := range ch.due {
		if m.drawn != nil {
			deferred = append(deferred, m)
		}
	}
	for _, m := range deferred {
		ch.again(m)
	}
	keep := ch.ready[:0]
	for _, m := range ch.ready[ch.first:] {
		if m.drawn == nil {
			keep = append(keep, m)
			continue
		}
		m.drawn.BackSent(uint64(m.attempts))
		ch.leave(m)
	}
	clear(ch.ready[len(keep):])
	ch.ready, ch.first = keep, 0
}
