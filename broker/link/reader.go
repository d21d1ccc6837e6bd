package link

import (
	"net"
	"runtime"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// firstRead is the capacity, in bytes, of a new connection's read buffer. It
	// doubles when a read fills it.
	firstRead = 2 << 10
	// maxRead is how far it grows for one read. Only a larger frame lets it grow
	// further, until it has been read.
	maxRead = 64 << 10
)

// arrivals is a connection that tells when what it read last had arrived, as
// those of broker/stamp do.
type arrivals interface{ Arrival() (time.Time, bool) }

// Reader reads frames from a connection. It belongs to one goroutine.
type Reader struct {
	nc      net.Conn
	arrival arrivals // nil: the time of reading counts

	buf        []byte
	start, end int           // what is read and not handled
	rest       time.Duration // before the next read
	idle       int           // commands of this read that carry nothing
	hush       func(on bool) // nil: it was not needed yet, or cannot be
	leave      time.Duration // leaveTime, but in tests
}

// NewReader returns a reader of nc. Where nc, or a connection below it that its
// method NetConn returns, tells arrivals, Stamp is that of the last read.
func NewReader(nc net.Conn) *Reader {
	r := &Reader{nc: nc, leave: leaveTime}
	for below := nc; below != nil && r.arrival == nil; {
		r.arrival, _ = below.(arrivals)
		wrapped, ok := below.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		below = wrapped.NetConn()
	}
	return r
}

// Run reads until the connection ends or handle fails, and returns why. handle is
// given all that has been read and is not used yet. It returns how many bytes it
// used, and if some are left, how long what is left must be at least before it is
// worth another look. What it is given is valid until it returns, and its own to
// change.
func (r *Reader) Run(handle func(unread []byte) (used, need int, err error)) error {
	filled := true // by the read before
	for {
		if r.end == len(r.buf) || filled && len(r.buf) < maxRead {
			r.room(r.end-r.start+1, filled)
		}
		if r.rest > 0 {
			r.sleep()
		}
		n, err := r.nc.Read(r.buf[r.end:])
		if n > 0 {
			r.end += n
			filled, r.idle = r.end == len(r.buf), 0
			used, need, bad := handle(r.buf[r.start:r.end])
			if bad != nil {
				return bad
			}
			r.used(used, need)
			if !filled && err == nil {
				runtime.Gosched() // to readers with messages: the next read here most likely finds none
			}
		}
		if err != nil {
			return err
		}
	}
}

// Rest lets some time pass before the next read, so that one read then takes what has come meanwhile. It is called by handle. The connection
// is not closed earlier for that than at the end of the rest.
func (r *Reader) Rest(d time.Duration) { r.rest = d }

const (
	// mostIdle is how many commands that carry nothing may come in one read: many who share a connection may each wait for the
	// answer to a ping. After more of them the connection rests for idleRest: fifty that send nothing else without end made the messages of
	// others 30 ms late at times.
	mostIdle = 4096
	idleRest = 100 * time.Millisecond
)

// Idle notes a command that carries nothing, such as a ping. It is called by handle.
func (r *Reader) Idle() {
	if r.idle++; r.idle > mostIdle {
		r.rest = idleRest
	}
}

const (
	// leaveTime and leaveBytes are for how long, and how far, Leave reads.
	leaveTime  = time.Second
	leaveBytes = 64 << 20
)

// Leave is called after Run, before the connection is closed, when the client was sent why: it says that nothing else comes, and reads what
// the client sends until it ends the connection itself, though not for long. A connection that is closed while bytes of the
// client are unread is reset, and a client that is about to write finds the reset instead of the reason.
func (r *Reader) Leave() {
	_ = r.nc.SetReadDeadline(time.Now().Add(r.leave))
	if w, ok := r.nc.(interface{ CloseWrite() error }); !ok || w.CloseWrite() != nil {
		return
	}
	unread := r.buf[:cap(r.buf)]
	for read := 0; read < leaveBytes && len(unread) > 0; {
		n, err := r.nc.Read(unread)
		if err != nil {
			return
		}
		read += n
	}
}

// sleep lets the time of Rest pass.
func (r *Reader) sleep() {
	if r.hush == nil {
		r.hush = hush(r.nc)
	}
	if r.hush != nil {
		r.hush(true)
		defer r.hush(false)
	}
	time.Sleep(r.rest)
	r.rest = 0
}

// used takes what handle returned.
func (r *Reader) used(used, need int) {
	r.start += used
	if r.start < r.end {
		if r.start+need > len(r.buf) && r.start > 0 {
			r.room(need, false)
		}
		return
	}
	r.start, r.end = 0, 0
	if len(r.buf) > maxRead {
		r.buf = make([]byte, maxRead)
	}
}

// room moves what is not handled to the front of the buffer, for need bytes in
// all. The buffer doubles if that is not enough, or if grow says that reads find
// more than fits.
func (r *Reader) room(need int, grow bool) {
	have := r.buf[r.start:r.end]
	size := max(len(r.buf), firstRead)
	switch {
	case len(have) == len(r.buf) && len(have) > 0, grow && len(r.buf) > 0 && size < maxRead:
		size *= 2
	case size > maxRead && need <= maxRead:
		size = maxRead
	}
	if size != len(r.buf) {
		buf := make([]byte, size)
		copy(buf, have)
		r.buf = buf
	} else {
		copy(r.buf, have)
	}
	r.start, r.end = 0, len(have)
}

// Stamp returns when what was read last had arrived.
func (r *Reader) Stamp(now time.Time) mono.Time {
	at := live.Instant(now)
	if r.arrival != nil {
		if t, ok := r.arrival.Arrival(); ok {
			return at.Add(-now.Round(0).Sub(t))
		}
	}
	return at
}
