package pace

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Margin is how long before the instant the kernel's part of a wait ends. It
// covers the way from the kernel's timer to a running goroutine (p50 about
// 30 µs where the table in the package comment was measured). Smaller costs precision,
// larger costs CPU: at most Margin for each wait.
const Margin = 40 * time.Microsecond

// timer is a timerfd read through the network poller.
type timer struct {
	file *os.File
	fd   int

	mu     sync.Mutex // orders arming against ringing, so that no ring is lost
	rung   bool
	closed bool
}

func (t *timer) open() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("pace: no timer descriptor: %w (is the limit of open files reached?)", err)
	}
	t.fd = fd
	t.file = os.NewFile(uintptr(fd), "timerfd")
	return nil
}

// wait parks for d and reports false if it was rung or closed.
func (t *timer) wait(d time.Duration) bool {
	t.mu.Lock()
	if t.rung || t.closed {
		t.rung = false
		t.mu.Unlock()
		return false
	}
	err := t.arm(d)
	t.mu.Unlock()
	if err != nil {
		time.Sleep(d) // cannot happen for a valid descriptor and positive d
		return !t.takeRung()
	}
	var expirations [8]byte
	if _, err := t.file.Read(expirations[:]); err != nil {
		return false
	}
	return !t.takeRung()
}

func (t *timer) arm(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	return unix.TimerfdSettime(t.fd, 0, &spec, nil)
}

func (t *timer) takeRung() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	rung := t.rung || t.closed
	t.rung = false
	return rung
}

func (t *timer) ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.rung = true
	_ = t.arm(1) // fires at once; a waiter that is not parked sees rung
}

func (t *timer) close() {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return
	}
	t.closed = true
	t.mu.Unlock()
	_ = t.file.Close()
}
