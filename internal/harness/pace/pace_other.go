//go:build !linux

package pace

import (
	"sync"
	"time"
)

// Margin is how long before the instant the timer's part of a wait ends. The
// runtime's timers may be a millisecond late, so the rest is spent yielding.
const Margin = time.Millisecond

// timer is a runtime timer and a channel to end the wait.
type timer struct {
	rings chan struct{}
	done  chan struct{}
	once  sync.Once
}

func (t *timer) open() error {
	t.rings = make(chan struct{}, 1)
	t.done = make(chan struct{})
	return nil
}

func (t *timer) wait(d time.Duration) bool {
	after := time.NewTimer(d)
	defer after.Stop()
	select {
	case <-t.done:
		return false
	case <-t.rings:
		return false
	case <-after.C:
		return true
	}
}

func (t *timer) takeRung() bool {
	select {
	case <-t.done:
		return true
	case <-t.rings:
		return true
	default:
		return false
	}
}

func (t *timer) ring() {
	select {
	case t.rings <- struct{}{}:
	default:
	}
}

func (t *timer) close() { t.once.Do(func() { close(t.done) }) }
