//go:build unix

package http1

import "syscall"

// glance looks at a socket that does not block, and takes nothing from it.
func glance(fd uintptr) sight {
	var b [1]byte
	for {
		switch _, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK); err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return nothing
		default:
			return readable
		}
	}
}
