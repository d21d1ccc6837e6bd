package nsq

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/link"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// Why a message for a channel was dropped.
const (
	dropQueue = "channel_queue" // the channel held as many as it may
	dropSize  = "message_size"  // it is empty, or larger than a message may be
)

// again is how long a deferred message that is refused when it is due waits to be
// published again.
const again = time.Second

// Server speaks the TCP protocol of NSQ. Its methods may be called from any
// goroutine.
type Server struct {
	hub    *engine.Hub
	limits Limits
	users  *access.Book
	log    *slog.Logger
	plane  *backplane.Plane // nil: nothing is stored

	room            *link.Room[string]
	refused         atomic.Uint64 // messages
	dropped, closed link.Tally

	mu            sync.Mutex
	channels      map[channelKey]*channel
	deferred      map[*deferral]struct{}
	deferredBytes int
	closing       bool
	drawing       sync.WaitGroup
}

// NewServer returns a server for the clients of hub that users lets in. limits must
// be free of mistakes, see Limits.Check.
func NewServer(hub *engine.Hub, users *access.Book, limits Limits, log *slog.Logger) *Server {
	limits = limits.WithDefaults()
	return &Server{hub: hub, limits: limits, users: users, log: log, room: link.NewRoom[string](limits.Connections),
		channels: map[channelKey]*channel{}, deferred: map[*deferral]struct{}{}}
}

// Serve serves the connections of l until l is closed, and returns why it ended.
// With a TLS configuration clients have to ask for TLS in IDENTIFY.
func (srv *Server) Serve(l net.Listener, secure *tls.Config) error {
	return link.Accept(l, func(nc net.Conn) {
		srv.room.Enter(nc, func(nc net.Conn) link.Guest[string] { return srv.newConn(nc, secure) })
	})
}

// Review disconnects clients whose user is gone or has other rights. Call it after a
// change of users.
func (srv *Server) Review() {
	srv.room.Kick("rights", func(g link.Guest[string]) bool {
		c := g.(*conn)
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.who != nil && srv.users.Stale(c.nc, c.who)
	})
}

// Shutdown disconnects every client, forgets channels and deferred messages, and
// returns when all have gone or ctx has ended. No connection is accepted afterwards.
func (srv *Server) Shutdown(ctx context.Context) error {
	err := srv.room.Close(ctx, "shutdown")
	srv.end()
	srv.drawing.Wait() // soon
	return err
}

// end forgets channels and deferred messages.
func (srv *Server) end() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.closing = true
	for _, ch := range srv.channels {
		srv.forget(ch)
	}
	for d := range srv.deferred {
		d.timer.Stop()
		srv.done(d)
	}
}

// Stats returns the numbers of now.
func (srv *Server) Stats() link.Stats {
	now, turned := srv.room.Count()
	return link.Stats{Connections: now, Turned: turned, Refused: srv.refused.Load(), Dropped: srv.dropped.Get(), Closed: srv.closed.Get()}
}

// join makes c a consumer of a channel, which it makes if there is none.
func (srv *Server) join(c *conn, topic, name []byte) (*channel, error) {
	key := channelKey{string(topic), string(name)}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	ch := srv.channels[key]
	if ch == nil {
		var err error
		if ch, err = srv.make(key, c.who.Name()); err != nil {
			return nil, err
		}
	}
	if ch.expires != nil {
		ch.expires.Stop()
		ch.expires = nil
	}
	ch.users++
	ch.add(c)
	return ch, nil
}

// mayMake returns why a user makes no further channel. The lock is held.
func (srv *Server) mayMake(key channelKey, by string) error {
	if srv.closing {
		return fatal("E_BAD_CHANNEL", "the server ends")
	}
	if n := len(srv.channels); n >= srv.limits.Channels {
		return fatal("E_BAD_CHANNEL", "there are %d channels, as many as may be", n)
	}
	if n := srv.storedOf(by); srv.stores(key) && n >= srv.limits.Stored {
		return fatal("E_BAD_CHANNEL", "the user has %d channels that are stored, as many as may be", n)
	}
	return nil
}

// make makes a channel, unless another client is faster. The lock is held, but not while NATS is asked.
func (srv *Server) make(key channelKey, by string) (*channel, error) {
	if err := srv.mayMake(key, by); err != nil {
		return nil, err
	}
	srv.mu.Unlock()
	from, err := srv.open(key)
	srv.mu.Lock()
	if err != nil {
		return nil, err
	}
	ch := srv.channels[key]
	if ch == nil {
		err = srv.mayMake(key, by) // others may have been faster
	}
	if ch == nil && err == nil {
		ch = newChannel(srv, key)
		ch.by = by
		if from != nil {
			ch.on.Group, ch.on.Draws = groupPrefix+key.name, true
		}
		if err = srv.hub.Subscribe(key.topic, ch.on); err == nil {
			srv.channels[key] = ch
			if from != nil {
				ch.drawFrom(from)
			}
			return ch, nil
		}
		ch, err = nil, fatal("E_BAD_CHANNEL", "%v", err)
	}
	if from != nil {
		from.Close()
	}
	return ch, err
}

// part ends what c has of a channel.
func (srv *Server) part(b *engine.Batch, c *conn, ch *channel) {
	ch.remove(b, c)
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if ch.users--; ch.users > 0 || srv.channels[ch.key] != ch {
		return
	}
	if ch.ephemeral {
		srv.forget(ch)
		return
	}
	ch.expires = time.AfterFunc(srv.limits.ChannelExpiry, func() {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		if ch.users == 0 && srv.channels[ch.key] == ch {
			srv.forget(ch)
		}
	})
}

// forget ends a channel. The lock is held, as below.
func (srv *Server) forget(ch *channel) {
	delete(srv.channels, ch.key)
	if ch.expires != nil {
		ch.expires.Stop()
	}
	srv.hub.Unsubscribe(ch.on)
	ch.close()
}

// deferral is a message to publish later.
type deferral struct {
	srv     *Server
	topic   string
	payload []byte
	timer   *time.Timer
}

// later publishes a message after a delay.
func (srv *Server) later(topic string, payload []byte, after time.Duration) error {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if n := len(srv.deferred); n >= srv.limits.Deferred || n > 0 && srv.deferredBytes+len(payload) > srv.limits.DeferredBytes || srv.closing {
		return mild("E_DPUB_FAILED", "%d messages of %d bytes are deferred, as many as may be", n, srv.deferredBytes)
	}
	d := &deferral{srv: srv, topic: strings.Clone(topic), payload: bytes.Clone(payload)}
	srv.deferred[d] = struct{}{}
	srv.deferredBytes += len(payload)
	d.timer = time.AfterFunc(after, d.publish)
	return nil
}

// done forgets a deferral.
func (srv *Server) done(d *deferral) {
	delete(srv.deferred, d)
	srv.deferredBytes -= len(d.payload)
}

// publish publishes a deferred message, on its timer's goroutine. One that is
// refused is published again later, since its client was told that it is taken.
func (d *deferral) publish() {
	b := d.srv.hub.NewBatch()
	b.Begin(live.Now())
	defer b.End()
	v := engine.OverRate
	if t, err := d.srv.hub.Topic([]byte(d.topic)); err == nil {
		v = b.Publish(&engine.Message{Topic: t, Payload: d.payload, Expires: mono.Never, QoS: 1, From: d}, 0)
	}
	d.srv.mu.Lock()
	defer d.srv.mu.Unlock()
	switch _, open := d.srv.deferred[d]; {
	case !open || v == engine.Waits:
	case v == engine.Went:
		d.srv.done(d)
	default:
		d.timer.Reset(again)
	}
}

// Released implements engine.Source: the message has gone after a wait.
func (d *deferral) Released(*engine.Batch, *engine.Message, uint16) {
	d.srv.mu.Lock()
	defer d.srv.mu.Unlock()
	if _, open := d.srv.deferred[d]; open {
		d.srv.done(d)
	}
}

// Refused is told that the message waited and was not taken.
func (d *deferral) Refused(*engine.Batch, *engine.Message, uint16, error) {
	d.srv.mu.Lock()
	defer d.srv.mu.Unlock()
	if _, open := d.srv.deferred[d]; open {
		d.timer.Reset(again)
	}
}
