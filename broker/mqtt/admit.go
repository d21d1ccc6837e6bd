package mqtt

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/backplane"
)

// kick disconnects a client that connects to another node, and waits until its session is
// stored. It reports false for one that is not owner's, which stays.
func (srv *Server) kick(client, owner string) bool {
	srv.mu.Lock()
	s := srv.sessions[client]
	var c *conn
	if s != nil {
		c = s.conn
	}
	srv.mu.Unlock()
	switch {
	case c == nil:
		return true
	case s.owner != owner:
		return false
	}
	c.claimed.Store(true)
	c.Kick(packets.ErrSessionTakenOver)
	return true
}

// admit gives c the session of a client, whatever node that is at.
func (srv *Server) admit(c *conn, id string, clean bool, expiry time.Duration, window int) (present bool, err error) {
	if !c.entered {
		err = srv.mayEnter(c, id, clean)
	}
	if err == nil {
		present, err = srv.enter(c, id, clean, expiry, window)
	}
	if err == nil {
		if err = srv.claim(id, c.who.Name()); err != nil {
			c.session.mu.Lock()
			c.session.expiry = 0 // it ends with its connection
			c.session.mu.Unlock()
		}
	}
	if err == nil {
		present, err = srv.restore(c, clean, present)
	}
	if err == nil {
		srv.recall(id, clean)
	}
	return present, err
}

// mayEnter refuses c a stored session of another user before anything is done about it: its
// own user neither loses the connection nor meets, for a moment, a session that is not theirs.
func (srv *Server) mayEnter(c *conn, id string, clean bool) error {
	if srv.plane == nil || clean && !srv.plane.Known(id) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	_, err := srv.stored(ctx, id, c.who.Name())
	return err
}

// mayBe refuses c the name of a client that another user has at this node, in a session that is stored, or at another node. It reports
// false where other nodes do not say in time.
func (srv *Server) mayBe(c *conn, id string, clean bool) (known bool, err error) {
	srv.mu.Lock()
	s := srv.sessions[id]
	srv.mu.Unlock()
	if s != nil && s.owner != c.who.Name() {
		return false, packets.ErrNotAuthorized
	}
	if err := srv.mayEnter(c, id, clean); err != nil || srv.plane == nil {
		return err == nil, err
	}
	c.entered = true
	ctx, cancel := context.WithTimeout(context.Background(), whereTime)
	defer cancel()
	taken, err := srv.plane.Taken(ctx, id, c.who.Name())
	if taken {
		return false, packets.ErrNotAuthorized
	}
	return err == nil, nil
}

// stored returns the stored session of a client, nil if there is none, or an error if it is
// not owner's.
func (srv *Server) stored(ctx context.Context, id, owner string) (*backplane.Session, error) {
	s, err := srv.plane.LoadSession(ctx, id)
	switch {
	case err != nil:
		srv.log.Warn("a session cannot be loaded", "error", err)
		return nil, errStore
	case s != nil && ownerOf(s) != owner:
		return nil, packets.ErrNotAuthorized
	}
	return s, nil
}

// claim has other nodes give a client up, if it is owner's there.
func (srv *Server) claim(client, owner string) error {
	if srv.plane == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	switch err := srv.plane.Claim(ctx, client, owner); {
	case errors.Is(err, backplane.ErrOwned):
		return packets.ErrNotAuthorized
	case err != nil:
		srv.log.Warn("a client cannot be claimed", "error", err)
		return errStore
	}
	return nil
}

// restore gives the session of c, which is new, what was stored of it, and stores it if
// it is to outlive the connection. After an error the session ends with its connection, and
// what is stored stays as it is.
func (srv *Server) restore(c *conn, clean, present bool) (bool, error) {
	if srv.plane == nil {
		return present, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	present, err := srv.fetch(ctx, c, clean)
	if err != nil {
		s := c.session
		s.mu.Lock()
		s.durable, s.expiry = false, 0
		s.mu.Unlock()
	}
	return present, err
}

// fetch is restore, but for what an error leaves.
func (srv *Server) fetch(ctx context.Context, c *conn, clean bool) (present bool, err error) {
	s, p := c.session, srv.plane
	var old *backplane.Session
	if !clean || p.Known(s.id) {
		if old, err = srv.stored(ctx, s.id, s.owner); err != nil {
			return false, err
		}
	}
	failed := func(err error) (bool, error) {
		srv.log.Warn("a session cannot be loaded", "error", err)
		return false, errStore
	}
	known := old != nil
	if clean && known {
		if err := p.DeleteSession(ctx, s.id, old.Revision); err != nil {
			return failed(err)
		}
		old = nil
	}
	if old == nil && s.expiry == 0 {
		return false, nil
	}
	s.mu.Lock()
	s.durable, s.next = true, p.Position()
	s.reading = old != nil
	s.room, s.dirty = make(chan struct{}, 1), make(chan struct{}, 1)
	s.numbers = map[uint16]numbered{}
	s.mu.Unlock()
	origin, count := p.Number()
	s.writer, s.revision = writer(origin, count), 0
	if old != nil {
		s.revision = old.Revision
		if err := s.load(ctx, old); err != nil {
			return failed(err)
		}
	} else if !known && p.Sessions() >= srv.limits.Sessions {
		return false, packets.ErrQuotaExceeded
	}
	if s.save(time.Time{}) != nil {
		return false, errStore
	}
	if old != nil { // not before, or what waits would be of a session that has just ended
		srv.adopt(s, old.Writer)
	}
	c.stored.ctx, c.stored.cancel = context.WithCancel(context.Background())
	return old != nil, nil
}

// ownerOf returns the user that a stored session belongs to.
func ownerOf(old *backplane.Session) string {
	var in struct {
		Owner string `json:"owner"`
	}
	_ = json.Unmarshal(old.State, &in) // load says what is wrong with it
	return in.Owner
}
