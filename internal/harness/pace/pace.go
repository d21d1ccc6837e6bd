// Package pace waits for an instant, to within tens of microseconds.
//
// time.Sleep is late by up to a millisecond, because the runtime waits for its
// timers in whole milliseconds. An Alarm lets the kernel do the long part of
// the wait and yields in a loop for the last part:
//
//	now ──── parked, the kernel's timer runs ────┬── yield, look, yield ──┬─▶ at
//	                                             └────────  Margin  ──────┘
//
// The long part is a timer descriptor that the runtime's network poller watches,
// not a sleep in a system call. A system call would keep its processor, and with
// GOMAXPROCS=1 the request that the waiter has just started could not run until
// the runtime takes that processor away. Both ways were measured in the same loop:
// Poisson arrivals, each of which writes to and reads from loopback TCP, on one
// core of a virtual machine with GOMAXPROCS=1. The figures are µs from the planned
// instant until the handling goroutine runs (p50/p99):
//
//	                                                        2,000/s    20,000/s
//	locked thread, clock_nanosleep, spin for the last 60 µs  136/418    473/2219
//	descriptor, yield for the last 40 µs (this package)       14/106      3/45
//
// With GOMAXPROCS=2 on the same core the locked thread has 20/142 and 113/469, the
// descriptor 12/98 and 7/81. The locked thread itself is never late (p50 0.02 µs); its requests are.
// SCHED_FIFO was tried and left out: on a busy core the kernel's throttling of
// real-time threads stopped the pacer for 0.9 s.
//
// On systems other than Linux an Alarm uses an ordinary timer and a longer
// Margin.
//
// What this package does not do: it does not defend itself against a process
// whose goroutines burn all its processors; the poller is then looked at only
// every 10 ms. Give such work a process of its own.
package pace

import (
	"runtime"
	"time"
)

// An Alarm lets one goroutine at a time wait for an instant, and any other
// goroutine end that wait early. Close it when it is no longer needed.
type Alarm struct {
	timer timer
}

// NewAlarm returns an Alarm. It fails when the process cannot open another
// descriptor.
func NewAlarm() (*Alarm, error) {
	a := &Alarm{}
	if err := a.timer.open(); err != nil {
		return nil, err
	}
	return a, nil
}

// Until waits until at and reports whether it came to that. It reports false
// when Ring or Close ended the wait, also when they were called since the
// previous wait. It never reports true before at.
func (a *Alarm) Until(at time.Time) bool {
	for {
		left := time.Until(at)
		if left > Margin {
			if !a.timer.wait(left - Margin) {
				return false
			}
			continue
		}
		if a.timer.takeRung() {
			return false
		}
		if left <= 0 {
			return true
		}
		runtime.Gosched()
	}
}

// Ring ends the current wait, or the next one if none is under way. Several
// calls before that wait count as one. Safe for concurrent use.
func (a *Alarm) Ring() { a.timer.ring() }

// Close ends the current wait and all later ones and frees the descriptor.
// Safe for concurrent use; the second call does nothing.
func (a *Alarm) Close() { a.timer.close() }
