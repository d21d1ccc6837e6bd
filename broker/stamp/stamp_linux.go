//go:build linux && (amd64 || arm64)

package stamp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spillgate/spillgate/broker/brief"
)

func listen(l net.Listener, brief bool) net.Listener {
	if s, ok := l.(syscall.Conn); ok {
		// The kernel begins to stamp a moment after it is asked to for the first time. Connections inherit the
		// option, so that already their first bytes are stamped.
		_ = enable(s)
	}
	return listener{l, brief}
}

type listener struct {
	net.Listener
	brief bool
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return wrap(c, l.brief), nil
}

// wrap returns c with stamps, or c itself if it cannot have them.
func wrap(c net.Conn, brief bool) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok || enable(tcp) != nil {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	s := &conn{Conn: tcp, tcp: tcp, raw: raw, brief: brief}
	s.header.Iov, s.header.Iovlen = &s.vector, 1
	s.receive = s.recvmsg
	return s
}

// enable asks the kernel for stamps.
func enable(s syscall.Conn) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	})
	return errors.Join(err, refused)
}

// conn reads with recvmsg. It embeds the interface, not the *net.TCPConn, whose WriteTo would have io.Copy
// move bytes from socket to socket past Read.
type conn struct {
	net.Conn
	tcp     *net.TCPConn
	raw     syscall.RawConn
	brief   bool
	arrived atomic.Int64 // ns since 1970; 0: not known

	reading sync.Mutex // of what is below, all prepared once
	receive func(fd uintptr) bool
	header  unix.Msghdr
	vector  unix.Iovec
	control [8]uint64 // aligned as the kernel writes it; a stamp takes four
	n       uintptr
	errno   syscall.Errno
	reads   int // since there was nothing to read last
}

// NetConn returns the connection below.
func (c *conn) NetConn() net.Conn { return c.tcp }

// CloseRead shuts down the reading side.
func (c *conn) CloseRead() error { return c.tcp.CloseRead() }

// CloseWrite shuts down the writing side: the peer reads to the end.
func (c *conn) CloseWrite() error { return c.tcp.CloseWrite() }

// Arrival returns when the last byte of the last Read had arrived.
func (c *conn) Arrival() (time.Time, bool) {
	at := c.arrived.Load()
	return time.Unix(0, at), at != 0
}

// Read is that of net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return c.Conn.Read(p)
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	c.vector.Base = &p[0]
	c.vector.SetLen(len(p))
	err := c.raw.Read(c.receive)
	c.vector.Base = nil // p is the caller's again
	switch {
	case err != nil:
		return 0, c.failed(err)
	case c.errno != 0:
		return 0, c.failed(os.NewSyscallError("recvmsg", c.errno))
	case c.n == 0:
		return 0, io.EOF
	}
	c.arrived.Store(c.stamp())
	return int(c.n), nil
}

// failed returns the error as that of a read, whichever call it is of.
func (c *conn) failed(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return &net.OpError{Op: "read", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// briefReads is how many reads of a connection are brief after it had nothing to read: the one that finds what has come, and the
// one that finds nothing more. One that goes on to find more may keep the processor for long, and is watched.
const briefReads = 2

// recvmsg reads what there is, and reports false if there is nothing yet.
func (c *conn) recvmsg(fd uintptr) bool {
	for {
		c.header.Control = (*byte)(unsafe.Pointer(&c.control))
		c.header.SetControllen(int(unsafe.Sizeof(c.control)))
		if c.brief && c.reads < briefReads {
			c.n, c.errno = brief.Receive(fd, &c.header)
		} else {
			c.n, _, c.errno = unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&c.header)), 0)
		}
		switch c.errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			c.reads = 0
			return false
		case 0:
			c.reads++
			acquire(fd)
		}
		return true
	}
}

// stamp returns the kernel's, in nanoseconds since 1970, or 0.
func (c *conn) stamp() int64 {
	const header = unsafe.Sizeof(unix.Cmsghdr{})
	const length = header + unsafe.Sizeof(unix.Timespec{})
	if c.header.Controllen < uint64(length) {
		return 0
	}
	// Nothing else was asked for, so what there is begins with the stamp.
	about := (*unix.Cmsghdr)(unsafe.Pointer(&c.control))
	if about.Level != unix.SOL_SOCKET || about.Type != unix.SCM_TIMESTAMPNS || about.Len < uint64(length) {
		return 0
	}
	at := (*unix.Timespec)(unsafe.Pointer(&c.control[header/8]))
	return at.Nano()
}
