package mqtt

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/backplane"
)

// A session that outlives its connection is stored where there is a backplane: what it
// subscribes to, a position in the log, and what is under way. Whatever node the client
// comes back to reads on from that position. In memory it is only while the client is
// connected, and a client that falls behind is read to from the log.
//
//	connected, caught up   the node's feed of the log ─▶ session
//	connected, behind      the log after s.next ─▶ session, until that is where the feed is
//	away                   nothing; the log keeps what comes after the stored position
//
// Messages of QoS 2 are exact across the death of a node, since both sides' packet
// identifiers are stored before they count: that of a message to the client before the
// message goes, that it is released before PUBREL goes; that of a message from the client
// with the number under which the log takes it once, before it is stored; and that it is
// done before PUBCOMP goes.

// kept is what a session has for that. It is guarded by the session's lock.
type kept struct {
	next    uint64 // up to this position of the log everything was sent, queued or not wanted
	reading bool   // from the log; the feed is not listened to
	changed bool   // since it was stored last
	held    bool   // something is stored and found no room in the outbox
	filters []subscribed
	// subscribed counts the changes of filters.
	subscribed uint64
	numbers    map[uint16]numbered // of messages of QoS 2 that are not completed

	room     chan struct{} // has one element after the queue got shorter
	dirty    chan struct{} // has one element while something waits to be stored
	saving   sync.Mutex    // is held while it is stored; before the session's lock
	writer   string        // the connection, as what is stored names it
	revision uint64        // of what is stored; guarded by saving
}

// durable is what a connection runs for a session that is stored.
type durable struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	over    bool // guarded by the session's lock: nothing is started any more
}

// subscribed is a subscription as it is stored.
type subscribed struct {
	Name        string `json:"name"`
	QoS         byte   `json:"qos,omitempty"`
	NoLocal     bool   `json:"no_local,omitempty"`
	AsPublished bool   `json:"as_published,omitempty"`
	ID          uint32 `json:"id,omitempty"`
	// Since is the position in the log that it begins after.
	Since uint64 `json:"since"`
}

// numbered is a message of QoS 2 from the client.
type numbered struct {
	Origin, Count uint64
	Stored        bool // PUBREC may have gone
	// At is a position in the log before that of the message, if it is there, and Since when the message had its number.
	At    uint64
	Since time.Time
}

// under is a message to the client that it may have and has not acknowledged.
type under struct {
	ID       uint16 `json:"id"`
	Position uint64 `json:"position"`
	QoS      byte   `json:"qos"`
	Released bool   `json:"released,omitempty"`
}

// retained is a message that the client is owed because of a subscription: that of a topic, which the log may not have, so that it gets the
// one that is retained when it is back. Of QoS 2 it is one that was not sent.
type retained struct {
	Topic string `json:"topic"`
	QoS   byte   `json:"qos"`
	ID    uint16 `json:"id,omitempty"` // by which it was sent; 0: it was not
}

// maxRetained bounds how much of them is stored, in bytes of JSON, of which a topic may need six for one. The client does not get more.
const maxRetained = 128 << 10

// stored is a session as it is stored.
type stored struct {
	Owner         string              `json:"owner,omitempty"` // the user
	Next          uint64              `json:"next"`
	Subscriptions []subscribed        `json:"subscriptions,omitempty"`
	Under         []under             `json:"under,omitempty"`
	Retained      []retained          `json:"retained,omitempty"`
	Numbers       map[uint16]numbered `json:"numbers,omitempty"`
}

// storeTime bounds how long a client waits for its session to be stored or loaded.
const storeTime = 10 * time.Second

// errStore closes a connection whose session cannot be stored or loaded.
var errStore = packets.ErrServerUnavailable

// Join has sessions and acknowledged messages outlive the process. It must be called
// before Serve and before the plane is opened.
func (srv *Server) Join(p *backplane.Plane) {
	srv.plane = p
	p.OnKick(srv.kick)
	p.OnWill(srv.inherit)
}

// senderOf is a client as messages name it.
func senderOf(client string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(client)) // never fails
	return h.Sum64() | 1
}

// suspend ends what the connection runs for its session, and stores that once more, or
// forgets it if it ends with the connection.
func (c *conn) suspend() {
	s, p := c.session, c.srv.plane
	if p == nil || s == nil {
		return
	}
	s.mu.Lock()
	c.stored.over = true
	expiry := s.expiry
	s.mu.Unlock()
	if s.durable {
		c.stored.cancel()
		c.stored.running.Wait()
	}
	s.part()
	if s.durable {
		if expiry > 0 {
			_ = s.save(time.Now().Add(expiry)) // what was stored before is older, and right
		} else {
			ctx, cancel := context.WithTimeout(context.Background(), storeTime)
			_ = p.DeleteSession(ctx, s.id, s.revision) // if not, it expires
			cancel()
		}
	}
	p.Disclaim(s.id)
}
