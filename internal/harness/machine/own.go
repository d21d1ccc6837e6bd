package machine

import (
	"syscall"
	"time"
)

// Own returns the processor time, of user and system, that this process has used.
func Own() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
