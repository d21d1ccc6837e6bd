package link

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hushed is how many bytes must have come, in a rest, to wake the process: a connection that rests is not read for fewer.
const hushed = 64 << 10

// hush returns what has a connection wake the process only for many bytes, or for any again; nil where that cannot be.
func hush(nc net.Conn) func(on bool) {
	for nc != nil {
		if s, ok := nc.(syscall.Conn); ok {
			raw, err := s.SyscallConn()
			if err != nil {
				return nil
			}
			return func(on bool) {
				least := 1
				if on {
					least = hushed
				}
				_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, least) }) // or the process is woken, and rests on
			}
		}
		wrapped, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = wrapped.NetConn()
	}
	return nil
}
