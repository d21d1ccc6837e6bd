package proxy

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// room is where the client connections of some listeners have their places. Where all are
// taken, the next connection gets that of the one on which no request has run for longest:
// one that is kept for later, or whose client has not sent a whole header. Where requests
// run on all of them, it waits, also for the answers of requests that have just ended. So
// connections on which nothing happens never keep others out, however many there are.
type room struct {
	p       *Proxy
	clients *perClient    // nil: they are not counted
	door    *doorman      // nil: all bytes are worked on as they come
	writes  time.Duration // how long one may take: Limits.SendTimeout; 0: any time

	mu      sync.Mutex
	most    int
	taken   int
	quiet   list.List     // of *placed, the longest first
	freed   chan struct{} // closed and replaced when a place becomes free, or quiet
	waiting int
}

func (p *Proxy) newRoom(most int) *room {
	return &room{p: p, most: most, freed: make(chan struct{})}
}

// in returns a listener whose connections have their places in the room, and are parked
// there unless park is nil.
func (r *room) in(l net.Listener, park *parking) net.Listener {
	return &roomListener{Listener: l, room: r, park: park, done: make(chan struct{})}
}

// enter gives c, of a client that was counted, a place, or reports false when done is closed before there is one.
func (r *room) enter(c net.Conn, client *oneClient, done <-chan struct{}) (*placed, bool) {
	r.mu.Lock()
	for r.taken >= r.most {
		out, wait := r.idlest(time.Now())
		if out != nil {
			r.quiet.Remove(out.at)
			out.at = nil
			r.mu.Unlock()
			r.p.evicted.Add(context.Background(), 1)
			_ = out.Close()
			r.mu.Lock()
			continue
		}
		freed := r.freed
		r.waiting++
		r.mu.Unlock()
		ended := false
		select {
		case <-freed:
		case <-time.After(wait):
		case <-done:
			ended = true
		}
		r.mu.Lock()
		if r.waiting--; ended {
			r.mu.Unlock()
			return nil, false
		}
	}
	r.taken++
	own := &placed{Conn: c, room: r, client: client}
	if r.door != nil {
		r.door.meet(&own.turn, c, r.p.strange(c))
	}
	own.at = r.quiet.PushBack(own)
	r.mu.Unlock()
	return own, true
}

// load returns how many connections have a place, and on how many of these no request runs. r
// may be nil.
func (r *room) load() (open, idle int64) {
	if r == nil {
		return 0, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.taken), int64(r.quiet.Len())
}

// sendsFor is how long the answer of a request that has ended may take to leave: what is left of
// it is in the buffers of net/http, 4 KiB or some frames. After that its client reads nothing, and
// the connection is one on which nothing happens.
const sendsFor = time.Second

// idlest returns the connection on which nothing has happened for longest, or nil and how long to
// wait for one at most; the lock is held.
func (r *room) idlest(now time.Time) (*placed, time.Duration) {
	wait := time.Hour // somebody tells before, if requests run on all
	for e := r.quiet.Front(); e != nil; e = e.Next() {
		c := e.Value.(*placed)
		left := r.p.sends - now.Sub(c.ended)
		if !c.busy || left <= 0 {
			return c, 0
		}
		wait = min(wait, left)
	}
	return nil, wait
}

// tell wakes those that wait for a place; the lock is held.
func (r *room) tell() {
	if r.waiting > 0 {
		close(r.freed)
		r.freed = make(chan struct{})
	}
}

// placed is a connection with a place, which it gives back when it is closed.
type placed struct {
	net.Conn
	room   *room
	client *oneClient // nil: not counted
	once   sync.Once
	// credits says that a client holds credits here.
	credits atomic.Bool
	turn    turn
	http2   atomic.Bool
	serving atomic.Int32 // requests that run
	unread  atomic.Bool  // nothing more is read
	timed   atomic.Bool  // the server has set a deadline for writes
	due     atomic.Int64 // mono.Time; the deadline of writes that await set, 0: none
	other   atomic.Bool  // the connection is upgraded: its two ends may be silent for as long as they like
	lingers atomic.Bool  // see Close
	framing framing

	// With the lock of the room.
	at      *list.Element // in quiet; nil while requests run, or when it left
	running int
	ended   time.Time // the last request
	busy    bool      // says the server: a request is read or served, or its answer not sent yet
	left    bool
}

// begin and end are called around each request on the connection; nil does nothing.
func (c *placed) begin() {
	if c == nil {
		return
	}
	if c.serving.Add(1); !c.http2.Load() {
		c.goOn()
	}
	r := c.room
	r.mu.Lock()
	if c.running++; c.at != nil {
		r.quiet.Remove(c.at)
		c.at = nil
	}
	r.mu.Unlock()
}

func (c *placed) end() {
	if c == nil {
		return
	}
	c.serving.Add(-1)
	r := c.room
	r.mu.Lock()
	c.running--
	c.ended = time.Now()
	c.rest()
	r.mu.Unlock()
}

// turned is told what the server does on the connection.
func (c *placed) turned(to http.ConnState) {
	switch {
	case c == nil:
		return
	case to == http.StateHijacked:
		c.other.Store(true)
		return
	case to != http.StateActive && to != http.StateIdle:
		return
	}
	r := c.room
	r.mu.Lock()
	if c.busy = to == http.StateActive; !c.busy {
		c.rest()
		r.tell()
	} else if c.at != nil { // a request is about to run
		r.quiet.Remove(c.at)
		c.at = nil
	}
	r.mu.Unlock()
}

// rest makes the connection quiet if it has become that; the lock is held.
func (c *placed) rest() {
	if c.running == 0 && !c.left && c.at == nil {
		c.at = c.room.quiet.PushBack(c)
		c.room.tell()
	}
}

// endReads has the read that goes on, and all others, end at once, whatever deadline is set later; nil
// does nothing.
func (c *placed) endReads() {
	if c != nil {
		c.unread.Store(true)
		_ = c.SetReadDeadline(time.Time{})
	}
}

// SetReadDeadline implements net.Conn.
func (c *placed) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if c.unread.Load() { // also since it was called
		err = c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
	return err
}

// await bounds how long the client may take to read what is written next. A small answer is written without a deadline of its
// own, and a client that reads none would keep the connection, and hold up the end of the proxy. To set one moves a timer,
// so it is set for twice as long as a write may take, and again when less than that is left.
func (c *placed) await() {
	most := c.room.writes
	if most <= 0 || c.timed.Load() || c.other.Load() {
		return
	}
	if now := live.Now(); mono.Time(c.due.Load()).Sub(now) < most {
		c.due.Store(int64(now.Add(2 * most)))
		_ = c.Conn.SetWriteDeadline(time.Now().Add(2 * most))
	}
}

// SetWriteDeadline implements net.Conn.
func (c *placed) SetWriteDeadline(t time.Time) error {
	c.timed.Store(!t.IsZero())
	c.due.Store(0)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *placed) SetDeadline(t time.Time) error {
	_ = c.SetWriteDeadline(t)
	return c.SetReadDeadline(t)
}

// lingerFor is for how long a connection is kept whose client still sends a body that nobody reads. The system answers
// what comes to a closed connection with a reset, at which clients throw away what they have not read of the answer. It
// is what net/http takes for bodies of which it knows that much is left.
const lingerFor = 500 * time.Millisecond

// Close implements net.Conn. If the client sends a body that was broken off, it ends the proxy's direction and closes
// the connection later; a second call does at once.
func (c *placed) Close() error {
	c.goOn()
	if c.lingers.Swap(false) && c.CloseWrite() == nil {
		time.AfterFunc(lingerFor, func() { _ = c.shut() })
		return nil
	}
	return c.shut()
}

// shut closes the connection and gives its place back.
func (c *placed) shut() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		r := c.room
		r.mu.Lock()
		if c.left = true; c.at != nil {
			r.quiet.Remove(c.at)
			c.at = nil
		}
		r.taken--
		r.tell()
		r.mu.Unlock()
		r.clients.leave(c.client)
	})
	return err
}

// CloseWrite lets an upgraded connection end one direction.
func (c *placed) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return errors.ErrUnsupported
}

type roomListener struct {
	net.Listener
	room *room
	park *parking // nil: connections are not parked
	once sync.Once
	done chan struct{}
}

// Accept implements net.Listener.
func (l *roomListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.room.p.refusedConnection(l, err)
			}
			return nil, err
		}
		client, ok := l.room.clients.enter(c)
		if !ok {
			c.Close()
			continue
		}
		own, ok := l.room.enter(c, client, l.done)
		if !ok {
			c.Close()
			l.room.clients.leave(client)
			return nil, net.ErrClosed
		}
		if l.park != nil {
			return l.park.stay(own), nil
		}
		return own, nil
	}
}

// Close implements net.Listener.
func (l *roomListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// placedKey is the key under which a connection's context holds its place.
type placedKey struct{}

// withPlace is an http.Server's ConnContext.
func withPlace(ctx context.Context, c net.Conn) context.Context {
	if own := placeIn(c); own != nil {
		return context.WithValue(ctx, placedKey{}, own)
	}
	return ctx
}

// turned is an http.Server's ConnState.
func turned(c net.Conn, to http.ConnState) {
	placeIn(c).turned(to)
	if s, ok := c.(*stay); ok {
		s.turned(to)
	}
}

// placeIn returns the place of a server's connection, nil if it has none.
func placeIn(c net.Conn) *placed {
	switch t := c.(type) {
	case *tls.Conn:
		c = t.NetConn()
	case *seenTLS:
		return t.own
	}
	if s, ok := c.(*stay); ok {
		c = s.placed
	}
	own, _ := c.(*placed)
	return own
}

// placeOf returns the place of the connection that a request came by, nil if it has none.
func placeOf(ctx context.Context) *placed {
	own, _ := ctx.Value(placedKey{}).(*placed)
	return own
}
