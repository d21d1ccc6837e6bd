package fastrpc

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// serverConn is a connection to a server. One goroutine reads it, and runs handlers that are
// inline.
type serverConn struct {
	server *Server
	conn   net.Conn
	in     inbox
	out    outbox
	peer   net.Addr
	sender live.Sender
	client *live.Client // nil: it obeys no credits
	frame  int          // the longest frame that the client takes, in bytes

	methods []*served                  // by number
	head    request                    // of the frame being read
	tags    wire.Tags                  // of the last message of tags, which most requests repeat
	message []byte                     // that message
	lanes   []atomic.Pointer[incoming] // what runs on other goroutines or waits, by lane
	busy    atomic.Int32               // what runs or waits
	held    atomic.Int64               // bytes of that, where they count: see ServerConfig.MaxHeld
	ended   chan struct{}

	draining atomic.Bool
	offered  atomic.Pointer[wire.Grant] // a grant that no answer carries

	// With the lock of out:
	ready bool                // the prefaces are exchanged
	told  bool                // the client knows that the server drains
	base  wire.Grant          // the last grant that was sent in full
	reply [wire.MaxReply]byte // of the answer being appended
}

// unknown stands for a method that the server does not have. It is not written to.
var unknown = &served{}

func newServerConn(s *Server, conn net.Conn) *serverConn {
	c := &serverConn{server: s, conn: conn, peer: conn.RemoteAddr(), lanes: make([]atomic.Pointer[incoming], 0), ended: make(chan struct{})}
	c.in = inbox{conn: conn, limit: requestLen + wire.MaxLen + s.cfg.MaxMessage, idle: c.out.flush}
	c.out.start(conn, s.cfg.MaxUnread, s.cfg.WriteTimeout)
	c.out.notice = c.notice
	return c
}

// serve reads the connection to its end.
func (c *serverConn) serve() {
	go c.out.run()
	defer c.end()
	err := c.open()
	for err == nil {
		var f []byte
		if f, err = c.in.next(); err == nil {
			err = c.take(f)
		}
	}
	if errors.Is(err, ErrProtocol) {
		c.server.broken.Add(1)
		c.server.cfg.Log.Debug("fastrpc: a client broke the protocol", "peer", c.peer, "error", err)
		c.out.last(appendText(nil, kindClose, bounded(err.Error())))
		linger(c.conn)
	}
}

// end gives back what the connection has. Handlers that still run are told.
func (c *serverConn) end() {
	c.out.close(net.ErrClosed)
	for i := range c.lanes {
		if r := c.lanes[i].Load(); r != nil {
			r.abandon(c)
		}
	}
	if c.client != nil {
		c.client.Close()
	}
	close(c.ended)
}

// linger lets the other side read what was written last. To close a socket that holds unread
// bytes would throw that away.
func linger(conn net.Conn) {
	const most, atMost = 1 << 20, 100 * time.Millisecond
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	if conn.SetReadDeadline(time.Now().Add(atMost)) == nil {
		_, _ = io.CopyN(io.Discard, conn, most)
	}
}

// open exchanges the prefaces.
func (c *serverConn) open() error {
	if err := c.conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	var b [prefaceLen]byte
	if _, err := io.ReadFull(c.conn, b[:]); err != nil {
		return err
	}
	theirs, err := parsePreface(b[:])
	if err != nil {
		return err
	}
	gate, lanes := c.server.cfg.Gate, c.server.cfg.MaxInFlight
	v := theirs.answer()
	own := preface{lowest: v, highest: v, credits: gate != nil, frame: uint32(c.in.limit), lanes: uint32(lanes)}
	if _, err := c.conn.Write(own.append(nil)); err != nil {
		return err
	}
	if v == 0 {
		return net.ErrClosed // the client knows why
	}
	if err := c.conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	c.frame = int(min(theirs.frame, mostMessage))
	c.lanes = make([]atomic.Pointer[incoming], lanes)
	c.sender = live.NewSender(peerKey(c.conn))
	if gate != nil && theirs.credits {
		c.client = gate.Connect(c.offer)
	}
	c.out.mu.Lock()
	c.ready = true
	c.out.mu.Unlock()
	c.out.say()
	return nil
}

// peerKey names who answers for a connection.
func peerKey(conn net.Conn) string {
	var certificate []byte
	if t, ok := conn.(*tls.Conn); ok {
		if state := t.ConnectionState(); len(state.VerifiedChains) > 0 {
			certificate = state.PeerCertificates[0].Raw
		}
	}
	addr, _ := netip.ParseAddrPort(conn.RemoteAddr().String()) // of a Unix socket there is none
	return live.PeerKey(addr.Addr(), certificate)
}

// take acts on a frame.
func (c *serverConn) take(f []byte) error {
	switch f[0] {
	case kindRequest:
		return c.request(f)
	case kindMethod:
		return c.bind(f)
	case kindCancel:
		stream, err := parseShort(f)
		if n := lane(stream); err == nil && n < len(c.lanes) {
			if r := c.lanes[n].Load(); r != nil {
				r.cancel(c, stream)
			}
		}
		return err
	case kindDemand:
		n, err := parseShort(f)
		if err == nil && c.client != nil {
			c.client.OnDemand(int(min(n, wire.MaxCount)))
		}
		return err
	case kindClose:
		return io.EOF
	}
	return broken("a client sent a frame of kind %#x, expected %#x to %#x", f[0], kindRequest, kindClose)
}

// bind takes the number of a method.
func (c *serverConn) bind(f []byte) error {
	number, name, err := parseMethod(f)
	if err != nil {
		return err
	}
	for len(c.methods) <= int(number) {
		c.methods = append(c.methods, nil)
	}
	if c.methods[number] != nil {
		return broken("method %d is named a second time, %.80q, expected a number that is free", number, name)
	}
	if c.methods[number] = c.server.methods[string(name)]; c.methods[number] == nil {
		c.methods[number] = unknown
	}
	return nil
}

// request takes a request: it runs, is handed on, or is refused.
func (c *serverConn) request(f []byte) error {
	h := &c.head
	body, err := parseRequest(f, h)
	if err != nil {
		return err
	}
	n := lane(h.stream)
	switch {
	case n >= len(c.lanes):
		return broken("a request has lane %d, expected less than %d", n, len(c.lanes))
	case c.lanes[n].Load() != nil:
		return broken("a request has lane %d, where one is in flight", n)
	case int(h.method) >= len(c.methods) || c.methods[h.method] == nil:
		return broken("a request is for method %d, which has no name yet", h.method)
	}
	tags, err := c.tagsOf(h)
	if err != nil {
		return err
	}
	m := c.methods[h.method]
	switch {
	case m == unknown:
		c.respond(&response{stream: h.stream, status: statusNoMethod}, &wire.Reply{}, nil, false)
		return nil
	case c.draining.Load():
		c.respond(&response{stream: h.stream, status: statusRefused, reason: work.Draining, retryable: true, delay: drainDelay}, &wire.Reply{}, nil, false)
		return nil
	}
	if !c.hold(len(body)) {
		delay := drainDelay
		if gate := c.server.cfg.Gate; gate != nil {
			delay = gate.Objective()
		}
		c.respond(&response{stream: h.stream, status: statusRefused, reason: work.QueueFull, retryable: true, delay: delay}, &wire.Reply{}, nil, false)
		return nil
	}
	r := c.server.incoming()
	r.begin(c, m, h, tags)
	r.held = len(body)
	c.busy.Add(1)
	if r.enter() && (m.inline && !r.turn.Waits() || r.turn.Shed()) || r.ticketless() && m.inline {
		r.serve(body)
		return nil
	}
	r.in = append(r.in[:0], body...)
	c.lanes[n].Store(r)
	c.server.workers.run(r)
	return nil
}

// hold reports whether there is room for a message of n bytes, which counts until letGo.
func (c *serverConn) hold(n int) bool {
	if n <= leastHeld {
		return true
	}
	own, others := c.held.Add(int64(n)), c.server.held.Add(int64(n))-int64(n)
	if own+others <= int64(c.server.cfg.MaxHeld) {
		return true
	}
	c.letGo(n)
	return false
}

// letGo says that a message of n bytes, which hold had room for, is held no more.
func (c *serverConn) letGo(n int) {
	if n > leastHeld {
		c.held.Add(-int64(n))
		c.server.held.Add(-int64(n))
	}
}

// tagsOf returns all that a request says of itself.
func (c *serverConn) tagsOf(h *request) (wire.Tags, error) {
	var t wire.Tags
	if len(h.tags) > 0 {
		if !bytes.Equal(h.tags, c.message) {
			tags, err := wire.ParseTags(h.tags)
			if err != nil && !errors.Is(err, wire.ErrVersion) {
				return t, broken("the tags of a request: %w", err)
			}
			c.tags, c.message = tags, append(c.message[:0], h.tags...)
		}
		t = c.tags
	}
	t.Budget, t.Waited, t.Attempt = h.budget, h.waited, int(h.attempt)
	t.Class, t.Priority = h.class, h.priority
	t.Credits, t.Demand, t.Client = c.client != nil, int(h.demand), 0
	return t, nil
}

// offer sends a grant that no answer carries. It never blocks.
func (c *serverConn) offer(g wire.Grant) {
	c.offered.Store(&g)
	c.out.say()
}

// drain tells the client to go elsewhere.
func (c *serverConn) drain() {
	c.draining.Store(true)
	c.out.say()
}

// notice appends what is said without an answer. It is called with the lock of out.
func (c *serverConn) notice(dst []byte) []byte {
	if !c.ready {
		return dst // open calls again
	}
	if g := c.offered.Swap(nil); g != nil {
		g.Window = min(g.Window, 1<<16-1)
		c.base = *g
		var room [wire.MaxReply]byte
		dst = appendText(dst, kindGrant, wire.Reply{Grant: *g, HasGrant: true}.Append(room[:0]))
	}
	if c.draining.Load() && !c.told {
		c.told = true
		dst = appendShort(dst, kindDrain, micros(drainDelay))
	}
	return dst
}

// respond appends an answer, to be written soon or when the reader has nothing more to read.
// more is what does not fit
// into the fixed part; its grant is that of the answer. Without room it waits until the client
// has read.
func (c *serverConn) respond(h *response, more *wire.Reply, body []byte, soon bool) {
	if c.out.lock() != nil {
		return // the connection has gone
	}
	if h.granted = more.HasGrant; h.granted {
		g := &more.Grant
		g.Window = min(g.Window, 1<<16-1)
		h.seq, h.window = g.Seq, uint16(g.Window)
		same := c.base
		same.Seq, same.Window = g.Seq, g.Window
		if more.HasGrant = same != *g; more.HasGrant {
			c.base = *g
		} else {
			more.Grant = wire.Grant{}
		}
	}
	if *more != (wire.Reply{}) {
		h.reply = more.Append(c.reply[:0])
	}
	c.out.buf = h.append(c.out.buf, body)
	if soon {
		c.out.send()
		return
	}
	c.out.mu.Unlock()
}

// over reports whether the connection is at its end, and closes it if hard and nothing is
// in flight any more.
func (c *serverConn) over(hard bool) bool {
	select {
	case <-c.ended:
		return true
	default:
	}
	if hard && c.busy.Load() == 0 && c.out.empty() {
		_ = c.conn.Close()
		return true
	}
	return false
}
