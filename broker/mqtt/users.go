package mqtt

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/engine"
)

// Guard lets in only whom users knows, with the rights they have there. Call it
// before Serve; without it everybody may do everything.
func (srv *Server) Guard(users *access.Book) { srv.users = users }

// login finds out who the client is that sent a CONNECT packet.
func (c *conn) login(pk *packets.Packet) error {
	if c.srv.users == nil {
		c.who = &access.Identity{}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.srv.limits.Connect)
	defer cancel()
	var err error
	c.who, err = c.srv.users.Enter(ctx, c.nc, string(pk.Connect.Username), string(pk.Connect.Password))
	switch {
	case errors.Is(err, access.ErrAnonymous):
		return packets.ErrNotAuthorized
	case errors.Is(err, access.ErrUnknown):
		return packets.ErrBadUsernameOrPassword
	case err != nil:
		return packets.ErrServerBusy
	case pk.Connect.WillFlag && !c.who.MayPublish(pk.Connect.WillTopic):
		return packets.ErrNotAuthorized
	}
	return nil
}

// topicOf returns the topic of a name that is published to.
func (c *conn) topicOf(name []byte) (*engine.Topic, error) {
	if c.topic != nil && c.topic.Name() == string(name) && !c.topic.Gone() {
		if c.srv.places != nil && c.topics != c.srv.places.Topics() {
			c.publishes(c.topic)
		}
		return c.topic, nil
	}
	if !c.who.MayPublish(string(name)) {
		return nil, packets.ErrNotAuthorized
	}
	if bytes.HasPrefix(name, []byte(engine.Inbox)) { // it answers a client of NATS
		return c.srv.hub.Passing(c.maker, name)
	}
	t, err := c.srv.hub.TopicBy(c.maker, name)
	if err == nil {
		c.topic = t
		if c.srv.places != nil {
			c.publishes(t)
		}
	}
	return t, err
}

// Review disconnects clients whose user is gone or has other rights, with reason
// code 0x98, so that they come back with those, and takes from sessions what their
// users may not have any more. Call it after a change of users.
func (srv *Server) Review() {
	srv.mu.Lock()
	var stale []*conn
	for _, s := range srv.sessions {
		if s.conn != nil && srv.users.Stale(s.conn.nc, s.conn.who) {
			stale = append(stale, s.conn)
		}
	}
	srv.mu.Unlock()
	var kicking sync.WaitGroup
	for _, c := range stale {
		kicking.Go(func() { c.Kick(packets.ErrAdministrativeAction) })
	}
	kicking.Wait()
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for _, s := range srv.sessions {
		if s.conn != nil {
			continue
		}
		who := srv.users.Rights(s.owner)
		if who == nil {
			s.stopTimers()
			srv.remove(s)
			continue
		}
		srv.restrict(s, who)
	}
}

// restrict takes subscriptions from a session that nobody is connected to, which its user may not have. The server's lock is held.
func (srv *Server) restrict(s *session, who *access.Identity) {
	for name, sub := range s.subs {
		if _, filter, _ := splitShared(name); !who.MaySubscribe(filter) {
			srv.hub.Unsubscribe(sub)
			delete(s.subs, name)
		}
	}
}
