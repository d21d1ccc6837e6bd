package procfs

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the time since the machine's start, as /proc counts it.
func sinceBoot() (time.Duration, bool) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return time.Duration(now.Nano()), err == nil
}
