package brokers

import (
	"time"

	"golang.org/x/sys/unix"
)

// rest waits for the subscriber's socket or for at most d. A real-time thread has no
// timer slack, so it is back within microseconds; one that never rests loses its
// processor for 50 ms of every second.
func rest(fd int, d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_, _ = unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, &t, nil)
}
