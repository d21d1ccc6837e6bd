package proxy

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// The states of a TCP connection whose other side has ended it: TCP_CLOSE after a reset, TCP_CLOSE_WAIT after its end.
const tcpClose, tcpCloseWait = 7, 8

// gone reports whether the other side of a TCP connection has ended it, whatever is left unread; false if the system
// does not tell.
func gone(c net.Conn) (ended bool) {
	if behind, ok := c.(*proxied); ok {
		c = behind.Conn
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO)
		ended = err == nil && (info.State == tcpClose || info.State == tcpCloseWait)
	})
	return ended
}
