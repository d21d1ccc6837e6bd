//go:build unix

package live

import (
	"syscall"
	"time"
)

// processorTime returns what this process has used of the processors so far, 0 if the
// system does not tell.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
