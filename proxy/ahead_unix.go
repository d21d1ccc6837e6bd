//go:build unix

package proxy

import (
	"io"
	"net"
	"os"
	"syscall"
)

const canReadAhead = true

// fill waits until there is something to read, and reads it.
func (a *ahead) fill() error {
	var n int
	var failed error
	err := a.raw.Read(func(fd uintptr) bool {
		buf := aheads.Get().(*[aheadBytes]byte)
		for {
			n, failed = syscall.Read(int(fd), buf[:])
			if failed != syscall.EINTR {
				break
			}
		}
		if n > 0 {
			a.buf, a.rest = buf, buf[:n]
			return true
		}
		aheads.Put(buf)
		return failed != syscall.EAGAIN
	})
	switch {
	case err != nil:
		return err
	case failed != nil:
		return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", failed)}
	case n == 0:
		return io.EOF
	}
	return nil
}
