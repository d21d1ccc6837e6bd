//go:build race && linux && (amd64 || arm64)

package stamp

import "syscall"

// acquire tells the race detector that what was written to the socket happened before it was read. Only
// syscall.Read can, so it reads nothing.
func acquire(fd uintptr) { _, _ = syscall.Read(int(fd), nil) }
