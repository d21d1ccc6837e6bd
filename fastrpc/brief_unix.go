//go:build linux || darwin

package fastrpc

import (
	"net"
	"os"
	"syscall"
)

// brief writes to a socket without waiting for room. It is used by one goroutine at a time.
type brief struct {
	raw   syscall.RawConn
	try   func(fd uintptr) bool // made once: a closure a write would be an allocation a write
	b     []byte
	n     int
	errno error
}

// newBrief returns nil for what is no socket of package net: what lies under another connection may be encrypted.
func newBrief(c net.Conn) *brief {
	var raw syscall.RawConn
	var err error
	switch c := c.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	}
	if raw == nil || err != nil {
		return nil
	}
	w := &brief{raw: raw}
	w.try = w.once
	return w
}

// once writes once, and never has the poller wait.
func (w *brief) once(fd uintptr) bool {
	for {
		w.n, w.errno = syscall.Write(int(fd), w.b)
		if w.errno != syscall.EINTR {
			return true
		}
	}
}

// write writes b, or what there is room for now.
func (w *brief) write(b []byte) (n int, err error) {
	w.b = b
	err = w.raw.Write(w.try)
	w.b = nil
	switch {
	case err != nil: // closed, or the deadline of an earlier write has passed
		return 0, err
	case w.errno == syscall.EAGAIN:
		return 0, nil
	case w.errno != nil:
		return 0, &net.OpError{Op: "write", Net: "fastrpc", Err: os.NewSyscallError("write", w.errno)}
	}
	return w.n, nil
}
