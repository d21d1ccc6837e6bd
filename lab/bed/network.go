package bed

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// leastDelay is the shortest delay of a network that is emulated: timers are late by up to
// a millisecond, and loopback itself takes a part of shorter ones.
const leastDelay = 500 * time.Microsecond

// dial connects from the caller's address, through a network if it is slow enough to
// notice.
func (c *connection) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	if c.from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(c.from)}
	}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil || c.plan.Network.Delay+c.plan.Network.Jitter < leastDelay {
		return conn, err
	}
	return newFar(conn, c.plan.Network), nil
}

// far is a connection on which bytes take a while in each direction, in order.
//
//	Write ──▶ out ──delay──▶ socket ──▶ in ──delay──▶ Read
type far struct {
	net.Conn
	network world.Network
	out, in chan late
	rest    []byte
	once    sync.Once
	closed  chan struct{}
}

// late is a piece of a stream and when it arrives; err ends the stream.
type late struct {
	at    time.Time
	bytes []byte
	err   error
}

// underWay is how many pieces of a stream may be under way; more wait to be sent.
const underWay = 4096

func newFar(conn net.Conn, network world.Network) *far {
	f := &far{Conn: conn, network: network, out: make(chan late, underWay), in: make(chan late, underWay), closed: make(chan struct{})}
	go f.send()
	go f.receive()
	return f
}

// arrival is when what leaves now arrives.
func (f *far) arrival() time.Time {
	return time.Now().Add(f.network.Delay + time.Duration(rand.ExpFloat64()*float64(f.network.Jitter)))
}

// Write implements net.Conn. It returns before the bytes are sent.
func (f *far) Write(p []byte) (int, error) {
	select {
	case f.out <- late{at: f.arrival(), bytes: append([]byte(nil), p...)}:
		return len(p), nil
	case <-f.closed:
		return 0, net.ErrClosed
	}
}

func (f *far) send() {
	for {
		select {
		case l := <-f.out:
			time.Sleep(time.Until(l.at))
			if _, err := f.Conn.Write(l.bytes); err != nil {
				_ = f.Close()
				return
			}
		case <-f.closed:
			return
		}
	}
}

func (f *far) receive() {
	buf := make([]byte, 32<<10)
	for {
		n, err := f.Conn.Read(buf)
		if n > 0 && !f.take(late{bytes: append([]byte(nil), buf[:n]...)}) || err != nil && !f.take(late{err: err}) || err != nil {
			return
		}
	}
}

// take has a piece arrive, and reports false if its reader has gone.
func (f *far) take(l late) bool {
	l.at = f.arrival()
	select {
	case f.in <- l:
		return true
	case <-f.closed:
		return false
	}
}

// Read implements net.Conn.
func (f *far) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		select {
		case l := <-f.in:
			time.Sleep(time.Until(l.at))
			if f.rest = l.bytes; l.err != nil {
				return 0, l.err
			}
		case <-f.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// Close implements net.Conn.
func (f *far) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.Conn.Close()
}
