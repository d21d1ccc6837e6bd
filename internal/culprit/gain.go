package culprit

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// leastProgress bounds what little progress can make of a short use: below one
// part in a hundred, k of N says more about the start than about the speed.
const leastProgress = 0.01

// ahead returns (1−p)/p for a progress of k of N: how many times what was done is
// still to come. An unknown progress has the prior p = 0.5. So has a task that is there
// although k has reached N: it does more than N counts, as a command of several phases does
// whose view counts the first alone.
func ahead(k, n uint64) float64 {
	if n == 0 || k >= n {
		return 1
	}
	p := max(float64(k)/float64(n), leastProgress)
	return (1 - p) / p
}

// usage is what one task uses of one resource.
type usage struct {
	now    float64 // units in use now: 1 for a lock, slots, stock, rate
	sofar  float64 // use so far: seconds of holding, stock, units consumed
	gain   float64 // future use that a cancel frees, in the unit of sofar
	remain float64 // seconds that the use is expected to go on
}

// use estimates the usage behind a hold, by the table of section 3.4 of the paper.
// age is that of the task in seconds, left how many times what it did is still to come,
// got what it had consumed at the previous look, span the seconds since then or since it
// began.
func use(kind Kind, h *Hold, at mono.Time, age, left float64, got uint64, span float64) usage {
	held := seconds(since(at, h.HeldSince))
	u := usage{remain: age * left}
	switch kind {
	case Lock:
		if h.HeldSince != Unset {
			u.now = 1
		}
		u.sofar = seconds(h.HoldTime) + held
		u.gain = u.sofar * left
		u.remain = u.gain
	case Queue:
		u.now = float64(h.Used)
		if h.HeldSince != Unset {
			u.now = max(u.now, 1)
		}
		u.sofar = seconds(h.HoldTime) + max(u.now, 1)*held
		u.gain = u.sofar * left
	case Memory:
		u.now = float64(h.Used)
		if h.Used == 0 && h.Gets > h.Frees {
			u.now = float64(h.Gets - h.Frees)
		}
		u.sofar = u.now
		u.gain = u.now * left
	case System:
		if h.Gets > got && span > 0 {
			u.now = float64(h.Gets-got) / span
		}
		u.sofar = float64(h.Gets)
		u.gain = u.now * u.remain
	}
	return u
}

// level sums up what the contention level of a resource is made of.
type level struct{ waits, uses float64 }

// add counts one hold of a task of the given age, which waited for so many seconds.
func (l *level) add(kind Kind, h *Hold, at mono.Time, age, waited float64) {
	switch kind {
	case Lock, Queue:
		l.waits += waited
		l.uses += seconds(h.HoldTime + since(at, h.HeldSince))
	case Memory:
		l.waits += float64(h.Waits)
		l.uses += float64(h.Gets)
	case System:
		l.waits += waited
		l.uses += max(age-waited, 0)
	}
}

// seconds is d.Seconds(), to the last bit, without the division of integers that only a second
// and more need.
func seconds(d time.Duration) float64 {
	if 0 <= d && d < time.Second {
		return float64(d) / 1e9
	}
	return d.Seconds()
}

// value returns the contention level, 0 if nothing was used.
func (l *level) value() float64 {
	if l.uses <= 0 {
		return 0
	}
	return l.waits / l.uses
}
