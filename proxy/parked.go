package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
)

// parkAfter is how long a connection has no request before it is parked. A client that asks
// more often than each second is served as ever; others cost a goroutine more a request.
const parkAfter = time.Second

const (
	// freeEvery is after how many parked connections memory is given back, some 25 MB: what
	// they leave behind would stay until the next requests that need as much, or for two
	// minutes.
	freeEvery = 1000
	// freeAfter is how much later that is, so that strangers who come and go cannot have it
	// done more often: a collection of all takes tens of milliseconds of a processor.
	freeAfter = 2 * time.Second
)

// parking is where connections of HTTP/1 without TLS are while they have no request: an
// http.Server has a goroutine that has grown and two buffers for each, some 26 kB with what
// waits for collection; a parked connection has a goroutine that never ran anything.
//
//	http.Server ──idle for parkAfter: its Read ends──▶ its Close parks ──▶ await
//	     ▲                                                                  │ a byte to read
//	     └────── Accept of the listener, as a new connection ◀──────────────┘
//
// The server sees each stay of a connection as one of its own. The place in the room goes
// along, and so does the time when the connection is closed for its idleness. A connection of
// a client that holds credits is not parked: its accounts end with its stay.
type parking struct {
	after time.Duration // parkAfter
	now   *atomic.Int64 // connections that are parked, anywhere in the proxy
	back  chan *stay    // to the server
	done  chan struct{}

	mu     sync.Mutex
	closed bool
	parked int         // since memory was given back
	free   *time.Timer // that gives it back; nil: there are too few
	all    map[*placed]struct{}
	wg     sync.WaitGroup // await
}

func newParking(after time.Duration, now *atomic.Int64) *parking {
	return &parking{after: after, now: now, back: make(chan *stay), done: make(chan struct{}), all: map[*placed]struct{}{}}
}

// Accept implements net.Listener: it returns connections that are parked no longer.
func (p *parking) Accept() (net.Conn, error) {
	select {
	case s := <-p.back:
		return s, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (p *parking) Addr() net.Addr { return &net.TCPAddr{} }

// Close implements net.Listener: it closes all that are parked.
func (p *parking) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.done)
		if p.free != nil {
			p.free.Stop()
		}
	}
	for c := range p.all {
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // await closes it
	}
	return nil
}

// park keeps c until there is something to read or its time is over, or reports false when
// the parking is closed.
func (p *parking) park(c *placed, until time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.all[c] = struct{}{}
	p.now.Add(1)
	_ = c.Conn.SetReadDeadline(until) // before Close may set another one
	p.wg.Go(func() { p.await(c) })
	if p.parked++; p.parked >= freeEvery && p.free == nil {
		p.free = time.AfterFunc(freeAfter, p.giveBack)
	}
	return true
}

// giveBack has the memory of connections that were parked given back.
func (p *parking) giveBack() {
	p.mu.Lock()
	p.parked, p.free = 0, nil
	p.mu.Unlock()
	debug.FreeOSMemory()
}

// await returns c to the server when there is something to read.
func (p *parking) await(c *placed) {
	err := readable(c.Conn.(syscall.Conn))
	p.mu.Lock()
	delete(p.all, c)
	p.now.Add(-1)
	p.mu.Unlock()
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.Conn.SetReadDeadline(time.Time{})
	select {
	case p.back <- p.stay(c):
	case <-p.done:
		_ = c.Close()
	}
}

// stay returns c for a server, as one that never said anything.
func (p *parking) stay(c *placed) *stay {
	s := &stay{placed: c, parking: p}
	s.idle.Store(c.parkable())
	return s
}

// stay is a connection while a server has it.
//
// A server sets a deadline for reads some seven times a request, and none of them is reached. To set one on the
// connection moves a timer. So it is left as it is where it is set early enough: a read that it ends too soon sets
// the deadline that counts, and goes on.
type stay struct {
	*placed
	parking *parking
	idle    atomic.Bool // it has no request, and may be parked
	quit    atomic.Bool // the server was told that it ended, because it is to be parked
	once    sync.Once

	deadlines sync.Mutex // of those of reads
	until     time.Time  // what the server takes for it; zero: none
	park      time.Time  // when the connection is to be parked, should it stay idle
	set       time.Time  // that of the connection, never after the one that counts; zero: none

	ahead ahead   // of HTTP/2
	start []byte  // what came first, until three bytes did
	tail  [4]byte // what came last, of HTTP/1
}

// turned notes what a server does on its connection.
func (s *stay) turned(to http.ConnState) {
	switch {
	case to == http.StateNew:
	case to != http.StateIdle || s.http2.Load() || s.credits.Load():
		s.idle.Store(false)
	default:
		s.idle.Store(s.parkable() && string(s.tail[:]) == headerEnd)
	}
}

// headerEnd is what came last if the server has nothing of the next request in its buffer:
// up to three bytes there would be lost if the connection were parked. They come last then,
// or are an empty line. So after a body of known length, which ends in anything, a
// connection is not parked.
const headerEnd = "\r\n\r\n"

// parkable reports whether the connection tells that it can be read.
func (c *placed) parkable() bool {
	_, can := c.Conn.(syscall.Conn)
	return can && canPark
}

// SetReadDeadline implements net.Conn. An idle connection wakes its reader in time to be
// parked.
func (s *stay) SetReadDeadline(t time.Time) error {
	s.deadlines.Lock()
	defer s.deadlines.Unlock()
	s.until = t
	if s.http2.Load() {
		return s.setTo(t) // exactly: the server lifts it once, and reads for as long as the connection lasts
	}
	if s.idle.Load() {
		s.park = time.Now().Add(s.parking.after)
	}
	counts := s.counts()
	switch {
	case time.Until(s.set) > 0 && (counts.IsZero() || !s.set.After(counts)):
		return nil
	case counts.IsZero() && !s.set.IsZero():
		// What it was is over. One is left for the next idle time, which would set it.
		counts = time.Now().Add(s.parking.after)
	}
	return s.setTo(counts)
}

// counts returns the deadline of reads that counts, zero if there is none; the lock is held.
func (s *stay) counts() time.Time {
	if s.idle.Load() && (s.until.IsZero() || s.until.After(s.park)) {
		return s.park
	}
	return s.until
}

// setTo sets the deadline of reads on the connection; the lock is held.
func (s *stay) setTo(t time.Time) error {
	s.set = t
	return s.placed.SetReadDeadline(t)
}

// tooSoon reports whether a read ended before the deadline that counts, which is then set.
func (s *stay) tooSoon() bool {
	s.deadlines.Lock()
	defer s.deadlines.Unlock()
	counts := s.counts()
	if s.unread.Load() || !counts.IsZero() && !time.Now().Before(counts) {
		return false
	}
	return s.setTo(counts) == nil
}

// SetDeadline implements net.Conn.
func (s *stay) SetDeadline(t time.Time) error {
	_ = s.SetWriteDeadline(t)
	return s.SetReadDeadline(t)
}

// deadline is what the server wants.
func (s *stay) deadline() time.Time {
	s.deadlines.Lock()
	defer s.deadlines.Unlock()
	return s.until
}

// Read implements net.Conn.
func (s *stay) Read(b []byte) (int, error) {
	read := s.placed.Read
	if s.http2.Load() {
		if s.ahead.has() {
			return s.ahead.read(s.placed.Conn, b)
		}
		read = s.readAhead
	}
	n, err := read(b)
	for n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && s.tooSoon() {
		n, err = read(b)
	}
	if s.http2.Load() {
		return n, err
	}
	if !s.idle.Load() {
		s.look(b[:n])
		return n, err
	}
	if n > 0 { // what comes now is a request
		s.idle.Store(false)
		s.look(b[:n])
		return n, err
	}
	if end := s.deadline(); isTimeout(err) && (end.IsZero() || time.Now().Before(end)) {
		s.quit.Store(true)
		return 0, io.EOF
	}
	return n, err
}

// readAhead reads what a connection of HTTP/2 sends.
func (s *stay) readAhead(b []byte) (int, error) {
	return s.placed.readBy(b, func(b []byte) (int, error) { return s.ahead.read(s.placed.Conn, b) })
}

// look sees whether a connection begins as one of HTTP/2 does, which is never parked, how
// it ends so far, and how requests are framed.
func (s *stay) look(b []byte) {
	if len(b) == 0 || s.http2.Load() {
		return
	}
	s.framing.see(b)
	if len(s.start) < len("PRI") {
		s.start = append(s.start, b[:min(len(b), len("PRI")-len(s.start))]...)
		s.http2.Store(string(s.start) == "PRI")
	}
	if n := len(b); n < len(s.tail) {
		copy(s.tail[:], s.tail[n:])
	}
	last := b[max(len(b)-len(s.tail), 0):]
	copy(s.tail[len(s.tail)-len(last):], last)
}

// Close implements net.Conn: it ends the stay.
func (s *stay) Close() (err error) {
	s.once.Do(func() {
		if !s.quit.Load() || !s.parking.park(s.placed, s.deadline()) {
			err = s.placed.Close()
		}
	})
	return err
}

// holds notes whether the client of a request holds credits; nil does nothing.
func (c *placed) holds(r *http.Request) {
	if c != nil && len(r.Header[wire.HeaderName]) > 0 && !c.credits.Load() {
		c.credits.Store(true)
	}
}
