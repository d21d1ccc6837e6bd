package mqtt

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/engine"
)

// User properties of CONNECT by which a client takes part in its placement.
const (
	// PropertyRedirect with the value "1" says that the client goes where a Server
	// Reference sends it. Others are never sent anywhere, as those that take no packets of
	// minReference bytes: what they publish is sent on.
	PropertyRedirect = "spillgate-redirect"
	// PropertyTopic is the topic that the client is going to publish to: where it belongs
	// elsewhere, CONNACK says so. One that it may not publish to counts for none.
	PropertyTopic = "spillgate-topic"
	// PropertyGroup names the clients that publish at the same instants.
	PropertyGroup = "spillgate-group"
	// PropertyObjective is the p99 that the client asks for what it publishes, such as "5ms". The owner of a topic says
	// how much that counts.
	PropertyObjective = "spillgate-objective"
)

// Says is what a client says of itself for its placement.
type Says struct {
	// Group names the clients that publish at the same instants, empty for none.
	Group string
	// Objective is the p99 that it asks for, 0 for that of the topic.
	Objective time.Duration
}

// Places knows at which nodes clients belong. Its methods must not block, except Where.
type Places interface {
	// Publishes tells that a client publishes to a topic, at first, and again when Topics
	// has changed.
	Publishes(client, topic string, says Says)
	Topics() uint64
	// Gone tells that it has disconnected.
	Gone(client string)
	// Where returns the address of the node that a client belongs to, empty for this one.
	Where(ctx context.Context, client, topic string, says Says) string
}

// place is what a connection knows of where its client belongs.
type place struct {
	says      Says
	entered   bool        // its stored session is known to be its user's
	topics    uint64      // Places.Topics when it was told what the client publishes to
	follows   bool        // it understands a Server Reference
	reference string      // that CONNACK sends it to
	moved     atomic.Bool // it was sent elsewhere, which is no reason for its will
	claimed   atomic.Bool // it has connected elsewhere
}

// whereTime bounds how long a client waits for its place, and for other nodes to say whether it is another user's. Then it stays
// here.
const whereTime = 2 * time.Second

// maxGroup is the longest name of a group that is taken, in bytes; it is that of a
// placer. Longer ones count as none.
const maxGroup = 200

// minReference is the longest packet with a Server Reference, in bytes, rounded up: an address has at most 200.
const minReference = 256

// maxObjective is the highest objective that is taken; it is that of a placer. Others count as none.
const maxObjective = time.Hour

// Place has clients sent where they belong. It must be called before Serve.
func (srv *Server) Place(p Places) { srv.places = p }

// elsewhere reads a client's user properties, and refuses it where it belongs to another
// node and understands that. One that is another user's is refused before it is asked
// for, or it would have that user's client placed anew.
func (c *conn) elsewhere(client string, clean bool, user []packets.UserProperty) error {
	if c.srv.places == nil || c.version != v5 {
		return nil
	}
	topic := ""
	for _, p := range user {
		switch p.Key {
		case PropertyRedirect:
			c.follows = p.Val == "1" && c.maxPacket >= minReference
		case PropertyTopic:
			topic = string([]byte(p.Val))
		case PropertyGroup:
			if len(p.Val) <= maxGroup {
				c.says.Group = string([]byte(p.Val))
			}
		case PropertyObjective:
			if d, err := time.ParseDuration(p.Val); err == nil && d > 0 && d <= maxObjective {
				c.says.Objective = d
			}
		}
	}
	if !c.follows || topic == "" || !c.who.MayPublish(topic) { // or strangers would have a topic placed anew
		return nil
	}
	if known, err := c.srv.mayBe(c, client, clean); err != nil || !known { // unknown: it stays, and is refused here if it is another user's
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), whereTime)
	defer cancel()
	if c.reference = c.srv.places.Where(ctx, client, topic, c.says); c.reference != "" {
		return packets.ErrUseAnotherServer
	}
	return nil
}

// publishes tells Places what the client publishes to.
func (c *conn) publishes(t *engine.Topic) {
	c.topics = c.srv.places.Topics()
	c.srv.places.Publishes(c.session.id, t.Name(), c.says)
}

// Move sends a client to another node, if it understands that, and reports whether it
// does.
func (srv *Server) Move(client, address string) bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	s := srv.sessions[client]
	if s == nil || s.conn == nil || !s.conn.follows || srv.closing {
		return false
	}
	c := s.conn
	srv.serving.Go(func() {
		c.moved.Store(true)
		answer := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}, ProtocolVersion: v5, ReasonCode: packets.ErrUseAnotherServer.Code}
		answer.Properties.ServerReference = address
		var buf bytes.Buffer
		if answer.DisconnectEncode(&buf) == nil {
			c.out.Send(buf.Bytes())
		}
		c.out.Close(goodbye)
	})
	return true
}
