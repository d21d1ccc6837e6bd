package mqtt

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
)

// number gives a message of QoS 2 from the client the number under which the log takes it once, and stores that, unless it
// has one from before its node died. It reports true if the log has the message since then, and acknowledges it.
func (s *session) number(c *conn, id uint16, topic []byte) (stored bool, err error) {
	if !s.durable {
		return false, nil
	}
	c.batch.End() // what came before it need not wait
	s.mu.Lock()
	n, again := s.numbers[id]
	if !again {
		n = numbered{At: s.srv.plane.Offered(), Since: time.Now()}
		n.Origin, n.Count = s.srv.plane.Number()
		s.numbers[id] = n
	}
	s.mu.Unlock()
	switch {
	case !again:
		return false, c.saved()
	case time.Since(n.Since) < s.srv.plane.OnceFor()/2: // by the clock of another node, perhaps
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	stored, n.At, err = s.srv.plane.Has(ctx, string(topic), n.At, n.Origin, n.Count)
	c.alive(time.Now()) // however long that took
	if err != nil {
		s.srv.log.Warn("the log cannot be searched", "error", err)
		s.mu.Lock()
		s.numbers[id] = n // the search goes on there when the client is back: a topic may have more than can be read in storeTime
		s.mu.Unlock()
		return false, errStore
	}
	if stored {
		c.acknowledge(2, id, packets.CodeSuccess)
	}
	return stored, nil
}

// sign says in a message of the client who sent it, and its number.
func (s *session) sign(m *engine.Message, id uint16) {
	if s.srv.plane == nil {
		return
	}
	m.Sender = s.sender
	if m.QoS == 2 && s.durable {
		s.mu.Lock()
		m.Origin, m.Number = s.numbers[id].Origin, s.numbers[id].Count
		s.mu.Unlock()
	}
}

// Refused tells the client that a message which was taken to wait is not stored: in MQTT 5
// by a reason code, in 3.1.1, which has none, by closing the connection.
func (s *session) Refused(b *engine.Batch, m *engine.Message, id uint16, err error) {
	code := packets.ErrQuotaExceeded
	if errors.Is(err, backplane.ErrNotStored) {
		code = packets.ErrImplementationSpecificError
	}
	s.srv.refused.Add(1)
	s = s.last()
	defer s.mu.Unlock()
	if !s.waits(m, id) {
		return
	}
	c := s.conn
	if c != nil && c.version == v311 {
		delete(s.inbound, id)
		delete(s.numbers, id)
		s.srv.serving.Go(func() { c.Kick(code) })
		return
	}
	s.acknowledge(b, m.QoS, id, code)
}

// linger keeps in mind that messages of a stored session wait here, whose connection has ended: a client that is back before they have gone
// sends them again, and each would take another token. So they are given up where it is at another node. Where as many sessions linger as there
// may be, a further one does not. The server's lock is held.
func (srv *Server) linger(s *session, expiry time.Duration, elsewhere bool) {
	if elsewhere {
		s.left.Store(true)
		return
	}
	s.mu.Lock()
	waits := false
	for _, in := range s.inbound {
		waits = waits || in.state == withheld
	}
	s.mu.Unlock()
	if !waits || srv.closing || len(srv.left) >= srv.limits.Sessions {
		return
	}
	srv.left[s.id] = s
	s.expires = time.AfterFunc(expiry, func() {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		if srv.left[s.id] == s {
			delete(srv.left, s.id)
		}
	})
}

// adopt gives a session that was loaded, as a connection stored it, the messages that wait from that connection. If the client was at another node
// in between, it may have used their identifiers for others.
func (srv *Server) adopt(s *session, writer string) {
	srv.mu.Lock()
	was := srv.left[s.id]
	if was == nil || was.writer != writer || was.owner != s.owner {
		srv.mu.Unlock()
		return
	}
	was.stopTimers()
	delete(srv.left, s.id)
	srv.mu.Unlock()
	was.mu.Lock()
	defer was.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	was.heir = s
	maps.Copy(s.inbound, was.inbound)
}
