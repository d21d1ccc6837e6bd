//go:build unix

package proxy

import "syscall"

// canPark reports whether this system tells that a connection has something to read without
// reading it.
const canPark = true

// readable returns when there is something to read on c, the end of what comes included, or
// with an error when its deadline is over or it is closed.
func readable(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		var b [1]byte
		for {
			// Nobody tells again of what came before: only an empty socket is waited for.
			if _, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK); err != syscall.EINTR {
				return err != syscall.EAGAIN
			}
		}
	})
}
