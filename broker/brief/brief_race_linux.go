//go:build linux && race

package brief

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Write is syscall.Write.
func Write(fd int, b []byte) (int, error) { return syscall.Write(fd, b) }

// Receive calls recvmsg.
func Receive(fd uintptr, header *unix.Msghdr) (n uintptr, errno syscall.Errno) {
	n, _, errno = syscall.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(header)), 0)
	return n, errno
}

// Watch does nothing: the scheduler watches.
func Watch() {}
