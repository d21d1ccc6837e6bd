package http1

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is a connection to the server. One request at a time uses it: its goroutine, the one that sends its
// body, and what ends it when the request's context ends.
type conn struct {
	c      *Client
	nc     net.Conn
	raw    syscall.RawConn // of the socket, nil if there is none that can be looked at
	look   func(uintptr)   // for raw
	seen   sight           // of look
	tls    *tls.ConnectionState
	br     *bufio.Reader // nil while no request uses the connection
	left   int64         // bytes that may be read: of the header
	eof    bool          // the server ended its side
	reused bool          // it was given back once
	since  time.Time     // when that was last
	cancel func()        // what ends it with a request's context

	cancelled atomic.Bool
	deadline
}

// sight is what a look at a socket sees.
type sight uint8

const (
	nothing  sight = iota // to read
	readable              // something, or the end
)

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readerSize) }}

// readerSize is what is read at once of a header. It is also the most that trailers may have, as in
// http.Transport.
const readerSize = 4 << 10

func newConn(c *Client, nc net.Conn) *conn {
	cn := &conn{c: c, nc: nc}
	cn.deadline.set = nc.SetReadDeadline
	cn.cancel = func() {
		cn.cancelled.Store(true)
		_ = cn.nc.Close()
	}
	socket := nc
	if secure, ok := nc.(*tls.Conn); ok {
		state := secure.ConnectionState()
		cn.tls, socket = &state, secure.NetConn()
	}
	if s, ok := socket.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			cn.raw = raw
			cn.look = func(fd uintptr) { cn.seen = glance(fd) }
		}
	}
	return cn
}

// begin readies the connection for a request.
func (cn *conn) begin() {
	cn.left = cn.c.cfg.Header
	cn.deadline.begin()
	cn.br = readers.Get().(*bufio.Reader)
	cn.br.Reset(cn)
}

// rest gives back what the connection needs only for a request. Nothing may be read any more.
func (cn *conn) rest() {
	cn.br.Reset(nil)
	readers.Put(cn.br)
	cn.br = nil
}

func (cn *conn) close() { _ = cn.nc.Close() }

// Read implements io.Reader for the bufio.Reader.
func (cn *conn) Read(p []byte) (int, error) {
	if cn.left <= 0 {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrHeader, cn.c.cfg.Header)
	}
	if int64(len(p)) > cn.left {
		p = p[:cn.left]
	}
	for {
		n, err := cn.nc.Read(p)
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && cn.deadline.early() {
			continue
		}
		if err != nil && n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
			cn.eof = true
		}
		cn.left -= int64(n)
		return n, err
	}
}

// unlimited ends the limit and the time for the header.
func (cn *conn) unlimited() {
	cn.left = math.MaxInt64
	cn.deadline.end()
}

// ticketTime is how long a look waits for the rest of a record of TLS. Tickets and the end are whole records.
const ticketTime = time.Millisecond

// usable reports whether the server has said nothing since the connection was given back: neither the end nor
// bytes that nobody asked for, such as 408. With TLS the socket may have what belongs to TLS alone, for which it
// waits, and TLS may have bytes that are no longer in the socket.
func (cn *conn) usable() bool {
	quiet := cn.quiet()
	if quiet && cn.tls == nil {
		return true
	}
	// There may be something to read, and what wraps the socket may want to know what.
	switch {
	case cn.tls == nil:
		cn.deadline.reset()
	case quiet:
		_ = cn.nc.SetReadDeadline(time.Unix(1, 0)) // only what TLS has
	default:
		_ = cn.nc.SetReadDeadline(time.Now().Add(ticketTime))
	}
	_, err := cn.nc.Read(make([]byte, 1))
	if cn.tls == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	cn.deadline.reset()
	return true
}

// quiet reports whether the socket has nothing to read, without waiting.
func (cn *conn) quiet() bool {
	if cn.raw == nil {
		return true
	}
	cn.seen = nothing
	return cn.raw.Control(cn.look) == nil && cn.seen == nothing
}

// deadline is the instant at which waiting for the header of an answer ends. It is moved with every request, but
// what the system knows of it only when that is too late or has come too early, because to move that costs as much
// as a system call.
type deadline struct {
	set func(time.Time) error

	mu    sync.Mutex
	due   time.Time // zero: none
	armed time.Time // what the system knows; zero: none
	over  bool      // the header is there
}

// begin is for a new answer, which may take any time.
func (d *deadline) begin() {
	d.mu.Lock()
	d.due, d.over = time.Time{}, false
	d.mu.Unlock()
}

// at sets the instant, if the header is not there.
func (d *deadline) at(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return
	}
	d.due = t
	if d.armed.IsZero() || t.Before(d.armed) {
		d.arm(t)
	}
}

// end notes that the header is there.
func (d *deadline) end() {
	d.mu.Lock()
	d.due, d.over = time.Time{}, true
	d.mu.Unlock()
}

// reset has the system know of none.
func (d *deadline) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = time.Time{}
	d.arm(time.Time{})
}

// early reports whether a read ended that was to go on; it may now.
func (d *deadline) early() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.due.IsZero() && !time.Now().Before(d.due) {
		return false
	}
	d.arm(d.due)
	return true
}

func (d *deadline) arm(t time.Time) {
	d.armed = t
	_ = d.set(t)
}
