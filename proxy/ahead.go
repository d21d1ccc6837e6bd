package proxy

import (
	"net"
	"sync"
	"syscall"
)

// aheadBytes is how much of a connection of HTTP/2 is read at once: what an ordinary request, its
// small body and the frames beside it take, and some 240 of the smallest frames, which take about
// half a millisecond of a processor.
const aheadBytes = 4 << 10

var aheads = sync.Pool{New: func() any { return new([aheadBytes]byte) }}

// ahead reads a cleartext connection of HTTP/2 several frames at a time. net/http reads the header
// of a frame and its payload apart, so each frame would cost two system calls, which is what makes
// floods of small frames dear. It holds memory only while there is something unread: an idle
// connection waits without. It has one reader at a time.
type ahead struct {
	raw  syscall.RawConn
	buf  *[aheadBytes]byte // nil: nothing is unread
	rest []byte            // of buf
}

// has reports whether the next read takes what was read before.
func (a *ahead) has() bool { return len(a.rest) > 0 }

// read is c's Read.
func (a *ahead) read(c net.Conn, b []byte) (int, error) {
	if !a.has() {
		if len(b) >= aheadBytes || !a.opens(c) { // much of a body is not copied twice
			return c.Read(b)
		}
		if err := a.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, a.rest)
	if a.rest = a.rest[n:]; len(a.rest) == 0 {
		aheads.Put(a.buf)
		a.buf, a.rest = nil, nil
	}
	return n, nil
}

// opens reports whether c can be read ahead.
func (a *ahead) opens(c net.Conn) bool {
	if a.raw == nil {
		can, ok := c.(syscall.Conn)
		if !ok || !canReadAhead {
			return false
		}
		raw, err := can.SyscallConn()
		if err != nil {
			return false
		}
		a.raw = raw
	}
	return true
}
