package protego

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// law decides once an interval whether the pool grows, by comparing the counts of
// two measured spans.
type law struct {
	interval, settle time.Duration
	slope            float64
	in, out          int // of the running span
	lastIn, lastOut  int
	updated          mono.Time
	measuring        bool
	begun            bool
}

// due reports whether the interval is over at now, and if so whether the pool
// grows. used says that all credits are issued.
func (l *law) due(now mono.Time, used bool) (grow, due bool) {
	if !l.begun {
		l.begun, l.updated = true, now
	}
	since := now.Sub(l.updated)
	if since >= l.settle && !l.measuring {
		// What comes now is the effect of the last change.
		l.measuring, l.in, l.out = true, 0, 0
	}
	if since < l.interval {
		return false, false
	}
	grow = l.gain(l.in, l.out, used)
	l.lastIn, l.lastOut = l.in, l.out
	l.in, l.out, l.measuring, l.updated = 0, 0, false, now
	return grow, true
}

// gain reports whether the change since the last span paid: completions moved by
// at least slope times as much as requests did, in either direction.
func (l *law) gain(in, out int, used bool) bool {
	if in == 0 {
		return true // nothing asked: nothing lost by growing
	}
	dIn, dOut := in-l.lastIn, out-l.lastOut
	if !used {
		return false
	}
	if dIn >= 0 {
		return dOut > 0 && float64(dOut) >= l.slope*float64(dIn)
	}
	return dOut < 0 && float64(-dOut) > l.slope*float64(-dIn)
}

// wake returns the instant at which the running interval, or its unmeasured
// part, is over.
func (l *law) wake() mono.Time {
	if !l.measuring {
		return l.updated.Add(l.settle)
	}
	return l.updated.Add(l.interval)
}
