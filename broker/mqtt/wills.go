package mqtt

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// will is a message to be published when a connection ends without a goodbye.
type will struct {
	Topic      []byte        `json:"topic"`
	Payload    []byte        `json:"payload,omitempty"`
	Properties []byte        `json:"properties,omitempty"`
	Lasts      time.Duration `json:"lasts,omitempty"` // until it expires, once it is published; 0: it does not
	QoS        byte          `json:"qos,omitempty"`
	Retain     bool          `json:"retain,omitempty"`
	// Origin is one of its own, by which the log takes it once, whatever node publishes it; 0 where it is not stored.
	Origin uint64 `json:"origin,omitempty"`
	// Owner is the user that it is of, empty if anonymous; nil where a version stored it that did not say.
	Owner *string `json:"owner,omitempty"`

	delay      time.Duration
	connection string // whose will it is, as it is stored; empty if it is not
}

func willOf(pk *packets.Packet, owner string) *will {
	p := &pk.Connect
	if !p.WillFlag {
		return nil
	}
	return &will{Owner: &owner, Topic: []byte(p.WillTopic), Payload: bytes.Clone(p.WillPayload), Properties: forwarded(&p.WillProperties),
		Lasts: time.Duration(p.WillProperties.MessageExpiryInterval) * time.Second, QoS: p.WillQos, Retain: p.WillRetain,
		delay: time.Duration(p.WillProperties.WillDelayInterval) * time.Second}
}

// publish publishes the will, and reports false where it is refused, also because its user has no right to it any more. from, which may be
// nil, is told what becomes of one of QoS 1 or 2.
func (w *will) publish(srv *Server, from engine.Source) bool {
	t, err := srv.hub.Topic(w.Topic)
	if err != nil || !w.allowed(srv) {
		srv.refused.Add(1)
		return false
	}
	now := live.Now()
	expires := mono.Never
	if w.Lasts > 0 {
		expires = now.Add(w.Lasts)
	}
	b := srv.hub.NewBatch()
	b.Begin(now)
	defer b.End()
	m := &engine.Message{Topic: t, Payload: w.Payload, Properties: w.Properties, Expires: expires, QoS: w.QoS, Retain: w.Retain, From: from}
	if w.Origin > 0 && w.QoS > 0 {
		m.Origin, m.Number = w.Origin, 1
	}
	if v := b.Publish(m, 0); v != engine.Went && v != engine.Waits {
		srv.refused.Add(1)
		return false
	}
	return true
}

// allowed reports whether the will's user has the right to it still.
func (w *will) allowed(srv *Server) bool {
	if srv.users == nil || w.Owner == nil {
		return true
	}
	who := srv.users.Rights(*w.Owner)
	return who != nil && who.MayPublish(string(w.Topic))
}

const (
	// willTime bounds how long a client waits for its will to be stored: often as long as nodes take to elect a leader. Then it is connected, and
	// the will is only in memory until it is stored.
	willTime = 5 * time.Second
	// againTime is until it is tried again to find out about a will, and how long a node that leaves tells others of wills.
	againTime = 2 * time.Second
)

// entrust stores the will of a connection, so that other nodes publish it if this one dies. A will that the client left at a node that is
// dead is due, unless the session goes on and its delay is not over.
func (srv *Server) entrust(c *conn, ended bool) {
	p, w, s := srv.plane, c.will, c.session
	if p == nil || w == nil && !p.HasWill(s.id) {
		return
	}
	s.mu.Lock()
	expiry := s.expiry
	s.mu.Unlock()
	connection := s.writer
	if !s.durable {
		origin, count := p.Number()
		connection = writer(origin, count)
	}
	var state []byte
	delay := time.Duration(0)
	if w != nil {
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		w.Origin, w.connection = binary.LittleEndian.Uint64(random[:])|1, connection
		state, _ = json.Marshal(w) // never fails
		delay = min(w.delay, expiry)
	}
	ctx, cancel := context.WithTimeout(context.Background(), willTime)
	defer cancel()
	before, err := p.KeepWill(ctx, s.id, connection, delay, state)
	if err != nil {
		srv.log.Warn("a will is not stored yet", "error", err)
	}
	if before == nil || before.Delay > 0 && !ended {
		return
	}
	if last := lastOf(before); last != nil {
		last.publish(srv, nil)
	}
}

// writer names a connection, as what is stored does.
func writer(origin, count uint64) string { return fmt.Sprintf("%x.%x", origin, count) }

// lastOf reads what is stored of a will, nil if that is none.
func lastOf(w *backplane.Will) *will {
	last := &will{connection: w.Connection, delay: w.Delay}
	if json.Unmarshal(w.State, last) != nil {
		return nil
	}
	return last
}

// executor tells the backplane of a will that it is stored as a message, or is not to be.
type executor struct {
	done   func()
	failed func(error)
}

// Released implements engine.Source.
func (e *executor) Released(*engine.Batch, *engine.Message, uint16) { e.done() }

// Refused implements engine.Refusable.
func (e *executor) Refused(_ *engine.Batch, _ *engine.Message, _ uint16, err error) { e.failed(err) }

// execute publishes the will of a client that was connected here, later where no majority stores it now.
func (srv *Server) execute(client string, w *will) {
	if w.connection == "" {
		w.publish(srv, nil)
		return
	}
	e := srv.executor(client, w)
	if srv.plane.WillTaken(client, w.connection) { // the others could not hear this node, and have published it
		e.done()
		return
	}
	if !w.publish(srv, e) || w.QoS == 0 {
		e.done()
	}
}

// executor returns who is told what becomes of the will of a client that was connected here.
func (srv *Server) executor(client string, w *will) *executor {
	done := func() { srv.plane.ForgetWill(client, w.connection) }
	return &executor{done, func(err error) {
		if !errors.Is(err, backplane.ErrNotStored) {
			done()
			return
		}
		time.AfterFunc(againTime, func() {
			srv.mu.Lock()
			defer srv.mu.Unlock()
			if !srv.closing { // else it is stored, and another node publishes it
				srv.serving.Go(func() { srv.execute(client, w) })
			}
		})
	}}
}

// inherit publishes the will of a client whose node is gone, unless it is back elsewhere.
func (srv *Server) inherit(ctx context.Context, kept *backplane.Will) bool {
	p, w := srv.plane, lastOf(kept)
	drop := func() { p.DropWill(kept) }
	switch {
	case w == nil:
		drop()
		return true
	case !w.allowed(srv): // or it would be told of again and again
		srv.refused.Add(1)
		drop()
		return true
	}
	if w.delay > 0 {
		s, err := p.LoadSession(ctx, kept.Client)
		if err != nil {
			return false
		}
		if s != nil && s.Writer != w.connection {
			drop()
			return true
		}
	}
	if w.QoS == 0 {
		if p.TakeWill(ctx, kept) {
			w.publish(srv, nil)
		}
		drop()
		return true
	}
	return w.publish(srv, &executor{drop, func(error) { p.UndueWill(kept) }})
}

// postponed is the delayed will of a session that is stored.
type postponed struct {
	*will
	timer *time.Timer
}

// postpone has a will published after its delay, in place of one that the client left before. Where as many wait as there may be
// sessions here, it is published at once. The server's lock is held.
func (srv *Server) postpone(client string, revision uint64, w *will, delay time.Duration) {
	old := srv.wills[client]
	if old == nil && len(srv.wills) >= srv.limits.Sessions {
		srv.serving.Go(func() { srv.execute(client, w) })
		return
	}
	if old != nil {
		old.timer.Stop()
	}
	p := &postponed{will: w}
	p.timer = time.AfterFunc(delay, func() {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		if srv.wills[client] == p && !srv.closing {
			delete(srv.wills, client)
			srv.serving.Go(func() { srv.due(client, revision, w) })
		}
	})
	srv.wills[client] = p
}

// recall ends the wait of a will whose client is back here: it is not published, unless its session has ended.
func (srv *Server) recall(client string, ended bool) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	p := srv.wills[client]
	if p == nil {
		return
	}
	p.timer.Stop()
	delete(srv.wills, client)
	if ended && !srv.closing {
		srv.serving.Go(func() { srv.execute(client, p.will) })
	} else {
		srv.forgo(client, p.will)
	}
}

// forgo says of a will, if there is one, that it is not to be published.
func (srv *Server) forgo(client string, w *will) {
	if w != nil && w.connection != "" {
		srv.plane.ForgetWill(client, w.connection)
	}
}

// due publishes the delayed will of a session that is stored, unless its client has come back meanwhile, here or elsewhere: then the
// session has another revision than its last connection left.
func (srv *Server) due(client string, revision uint64, w *will) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	switch s, err := srv.plane.LoadSession(ctx, client); {
	case err == nil && s != nil && s.Revision != revision:
		srv.forgo(client, w)
	case err == nil:
		srv.execute(client, w)
	default: // it is not known
		srv.mu.Lock()
		defer srv.mu.Unlock()
		if srv.wills[client] == nil && !srv.closing {
			srv.postpone(client, revision, w, againTime)
		}
	}
}
