package fastrpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// link is a connection to a server, from its preface to its end. One goroutine reads it.
type link struct {
	client   *Client
	address  string
	conn     net.Conn
	in       inbox
	out      outbox
	credits  bool         // the server grants them
	frame    int          // the longest frame that the server takes, in bytes
	server   *live.Server // once it is open to calls
	callee   *live.Callee
	base     wire.Grant // the last grant that came in full
	based    bool
	flying   atomic.Int32 // calls
	demand   atomic.Uint32
	lanes    []atomic.Pointer[call] // by lane
	freed    []uint16               // lanes of answers of which the callers do not know yet
	arrived  []arrived              // answers of which the callers do not know yet
	returned []live.Returned        // room for deliver
	plain    int                    // answers in a row without a grant
	pause    time.Duration          // that the server asked for

	// With the lock of out:
	named    []bool   // methods that the server knows the numbers of
	free     []uint16 // lanes
	turn     uint16   // part of the next stream
	unused   int      // lanes from here on were never used
	draining bool
}

// connect makes a connection and exchanges the prefaces.
func (c *Client) connect(ctx context.Context, address string) (*link, error) {
	conn, err := c.dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("fastrpc: no connection to %s: %w", address, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	theirs, err := c.greet(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("fastrpc: no handshake with %s: %w", address, err)
	}
	l := &link{
		client: c, address: address, conn: conn, frame: int(min(theirs.frame, mostMessage)),
		credits: theirs.credits && !c.cfg.WithoutCredits, lanes: make([]atomic.Pointer[call], theirs.lanes),
		named: make([]bool, MaxMethods), callee: live.NewCallee(address, nil),
	}
	l.in = inbox{conn: conn, limit: responseLen + wire.MaxLen + c.cfg.MaxMessage, idle: l.collect}
	l.out.start(conn, c.cfg.MaxUnsent, c.cfg.WriteTimeout)
	l.out.aside, l.out.brief = true, newBrief(conn) // a caller has a deadline of its own
	l.out.notice = func(dst []byte) []byte { return appendShort(dst, kindDemand, l.demand.Load()) }
	return l, nil
}

func (c *Client) dial(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil || c.cfg.TLS == nil {
		return conn, err
	}
	cfg := c.cfg.TLS
	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		cfg = cfg.Clone()
		if cfg.ServerName, _, err = net.SplitHostPort(address); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return tls.Client(conn, cfg), nil
}

// greet exchanges the prefaces.
func (c *Client) greet(conn net.Conn) (preface, error) {
	own := preface{lowest: version, highest: version, credits: !c.cfg.WithoutCredits, frame: uint32(responseLen + wire.MaxLen + c.cfg.MaxMessage)}
	if _, err := conn.Write(own.append(nil)); err != nil {
		return preface{}, err
	}
	var b [prefaceLen]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return preface{}, err
	}
	theirs, err := parsePreface(b[:])
	switch {
	case err != nil:
	case theirs.lowest != version || theirs.highest != version:
		err = broken("the server answers with version %d, expected %d", theirs.lowest, version)
	case theirs.lanes < 1 || theirs.lanes > MaxLanes:
		err = broken("the server allows %d requests in flight, expected 1 to %d", theirs.lanes, MaxLanes)
	}
	return theirs, err
}

// wants tells the server how many calls wait. It never blocks.
func (l *link) wants(demand int) {
	if demand == credit.Unheard {
		return // the prefaces have said whether it has credits
	}
	l.demand.Store(uint32(min(max(demand, 0), wire.MaxCount)))
	l.out.say()
}

// serve reads the connection to its end, and fails the calls that are not answered. It
// returns for how long the server asked to be left alone.
func (l *link) serve() time.Duration {
	go l.out.run()
	stop := context.AfterFunc(l.client.ctx, func() { _ = l.conn.Close() })
	defer stop()
	var err error
	for err == nil {
		var f []byte
		if f, err = l.in.next(); err == nil {
			err = l.take(f)
		}
	}
	l.deliver()
	if errors.Is(err, ErrProtocol) {
		l.out.last(appendText(nil, kindClose, bounded(err.Error())))
	}
	l.client.remove(l)
	l.server.Close()
	if l.client.ctx.Err() != nil {
		err = ErrClosed
	} else {
		err = fmt.Errorf("%w: %s: %w", ErrLost, l.address, err)
	}
	l.out.close(err) // from now on nothing is sent
	for i := range l.lanes {
		if c := l.lanes[i].Swap(nil); c != nil {
			c.lost(err)
		}
	}
	return l.pause
}

// take acts on a frame.
func (l *link) take(f []byte) error {
	switch f[0] {
	case kindResponse:
		return l.answer(f)
	case kindGrant:
		msg, err := parseText(f, wire.MaxLen)
		if err != nil {
			return err
		}
		reply, err := wire.ParseReply(msg)
		if err != nil || !reply.HasGrant {
			return broken("a grant frame without a grant: %v", err)
		}
		l.base, l.based = reply.Grant, true
		if l.credits {
			l.server.OnGrant(l.usable(reply.Grant))
		}
		return nil
	case kindDrain:
		after, err := parseShort(f)
		if err != nil {
			return err
		}
		l.pause = min(time.Duration(after)*time.Microsecond, longestDrain)
		l.client.remove(l)
		l.out.mu.Lock()
		l.draining = true
		l.out.mu.Unlock()
		l.server.Close()
		return nil
	case kindClose:
		text, err := parseText(f, maxReason)
		if err != nil {
			return err
		}
		return fmt.Errorf("the server closed the connection: %q", text)
	}
	return broken("a server sent a frame of kind %#x, expected %#x to %#x or %#x", f[0], kindResponse, kindDrain, kindClose)
}

// longestDrain is the longest time for which a server that drains is left alone.
const longestDrain = 30 * time.Second

// answer takes a response to the call that it answers.
func (l *link) answer(f []byte) error {
	var h response
	body, err := parseResponse(f, &h)
	if err != nil {
		return err
	}
	n := lane(h.stream)
	var c *call
	if n < len(l.lanes) {
		c = l.lanes[n].Load()
	}
	if c == nil || c.stream != h.stream {
		return broken("a response to stream %#x, which is not in flight", h.stream)
	}
	var reply wire.Reply
	if len(h.reply) > 0 {
		if reply, err = wire.ParseReply(h.reply); err != nil {
			return broken("the reply of a response: %w", err)
		}
	}
	if reply.HasGrant {
		l.base, l.based = reply.Grant, true
	}
	if h.granted {
		if !l.based {
			return broken("a response has a grant in short before the first in full")
		}
		reply.Grant, reply.HasGrant = l.base, true
		reply.Grant.Seq, reply.Grant.Window = h.seq, uint32(h.window)
	}
	if reply.HasGrant {
		reply.Grant = l.usable(reply.Grant)
	}
	l.lanes[n].Store(nil)
	l.freed = append(l.freed, uint16(n))
	l.arrived = append(l.arrived, arrived{c, c.answered(&h, &reply, body)})
	if len(l.arrived) == mostTogether {
		l.deliver()
	}
	return nil
}

// plainForGood is after how many answers in a row without a grant a server is asked whether it grants any more, as one whose gate
// was turned off does not: four times as many as come between two grants of one that does.
const plainForGood = 64

// heard notes whether the answer to a call with a credit had a grant, and whether the call had asked for one.
func (l *link) heard(asked, granted bool) {
	if granted {
		l.plain = 0
		return
	}
	if l.plain++; l.plain%plainForGood == 0 {
		if _, credited := l.server.Window(); credited {
			l.server.Reset() // the next call asks
		}
	}
	if asked {
		l.server.OnPlainReply()
	}
}

// usable returns a grant of no more requests than there are lanes: more would be refused for want of one, not wait.
func (l *link) usable(g wire.Grant) wire.Grant {
	g.Window = min(g.Window, uint32(len(l.lanes)))
	return g
}

// arrived is a call whose answer was read, and whether its caller waits for it.
type arrived struct {
	call *call
	here bool
}

// mostTogether is how many calls at most hear of their answers together: the first waits some microseconds for the last.
const mostTogether = 64

// deliver makes the lanes free that were answered, gives back the credits of the calls, under one lock, and wakes their callers.
// It reports whether the connection is of no more use: the server drains, and no call is in flight.
func (l *link) deliver() (idle bool) {
	l.out.mu.Lock()
	l.free = append(l.free, l.freed...)
	idle = l.draining && len(l.free) == l.unused
	l.out.mu.Unlock()
	l.freed = l.freed[:0]
	for _, a := range l.arrived {
		if c, ok := a.call.credit(); ok {
			l.returned = append(l.returned, c)
		}
	}
	if len(l.returned) > 0 {
		l.client.wallet.ReturnAll(l.in.read, l.returned)
		clear(l.returned)
		l.returned = l.returned[:0]
	}
	for _, a := range l.arrived {
		if a.here {
			a.call.done <- struct{}{}
		} else {
			a.call.recycle()
		}
	}
	clear(l.arrived)
	l.arrived = l.arrived[:0]
	return idle
}

// collect delivers what was read. It runs before the reader reads again.
func (l *link) collect() {
	if l.deliver() { // the server waits for that
		_ = l.conn.Close()
	}
}
