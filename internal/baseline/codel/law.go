package codel

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// law is the control law of RFC 8289, section 5: the state behind deque() in its
// pseudocode, asked once for every request at the head of the queue.
type law struct {
	target, interval time.Duration
	firstAbove       mono.Time // when the delay will have been above target for an interval; 0: it is not above
	dropping         bool
	advance          bool // a drop was made: move dropNext unless the delay fell
	dropNext         mono.Time
	count, lastCount int
}

// drop decides about the request at the head, which has waited for sojourn; last
// says that nobody waits behind it.
func (l *law) drop(now mono.Time, sojourn time.Duration, last bool) bool {
	above := l.above(now, sojourn, last)
	if l.dropping {
		if !above {
			l.dropping, l.advance = false, false
			return false
		}
		if l.advance {
			l.dropNext, l.advance = l.control(l.dropNext), false
		}
		if now < l.dropNext {
			return false
		}
		l.count++
		l.advance = true
		return true
	}
	if !above {
		return false
	}
	l.dropping = true
	// A drop rate that was right a short while ago is a better start than one
	// drop an interval.
	delta := l.count - l.lastCount
	l.count = 1
	if delta > 1 && now.Sub(l.dropNext) < 16*l.interval {
		l.count = delta
	}
	l.dropNext = l.control(now)
	l.lastCount = l.count
	return true
}

// above reports whether the delay has been above target for a whole interval.
func (l *law) above(now mono.Time, sojourn time.Duration, last bool) bool {
	switch {
	case sojourn < l.target || last:
		l.firstAbove = 0
	case l.firstAbove == 0:
		l.firstAbove = now.Add(l.interval)
	default:
		return now >= l.firstAbove
	}
	return false
}

// idle notes an empty queue.
func (l *law) idle() { l.firstAbove = 0 }

func (l *law) control(t mono.Time) mono.Time {
	return t.Add(time.Duration(float64(l.interval) / math.Sqrt(float64(l.count))))
}
