//go:build !linux

package brief

import "syscall"

// Write is syscall.Write.
func Write(fd int, b []byte) (int, error) { return syscall.Write(fd, b) }

// Watch does nothing: the scheduler watches.
func Watch() {}
