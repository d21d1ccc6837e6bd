package slots

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// outlives is how many times as many requests as hold slots must end while one runs for that one to be long by
	// nature. By Little's law that is four mean residence times, whatever these are by now; of exponential times one
	// in fifty is as long.
	outlives = 4
	// outlast is how many ends of overdue requests must be missing for all of them to be long by nature. An end is
	// expected to be one of theirs as often as they are a part of what runs. Of slow work, with times as random as
	// exponential ones, so many are missing by chance once in 400 times. It is more than outlives because all overdue
	// requests give their slots back then. Without this rule 64 long polls at once cost the short requests beside
	// them a third (wild/live-polls).
	outlast = 6
	// dominated is the share of the slots' time that long requests must hold, before they give their slots back, for
	// a window to tell nothing of the others. Time counts, not windows: windows that end after a few completions are
	// shorter than one long request, which is no reason to let the limit grow where such requests are one in a
	// hundred (Pareto 1.5 and rare long ones, wild/single). With three quarters, 64 long polls hold the slots for
	// longer after a slowdown, and the short requests beside them get 18 % less (simulation).
	dominated = 0.5
)

// slotTime is the time for which requests held slots in a window, and the part of it held by requests that then gave
// their slots back; in ns, smoothed over memory windows.
type slotTime struct{ all, long float64 }

func (s *slotTime) add(w *window) {
	s.all += (w.area - s.all) / memory
	s.long += (w.lent - s.long) / memory
}

// SetOverdue says how many of the requests that hold slots, or run beside and may still be asked for by Lend, have run for
// longer than their objectives. The driver calls it before Release and before Lend.
func (l *Limit) SetOverdue(n int) {
	if l.use.overdue = n; n == 0 {
		l.use.missing = 0
	}
}

// Lend takes back the slot of a request that has run for longer than its objective and runs on: a long poll, a
// stream, an export. The request is then no sample of how long others take, but one of how long a slot is held; it may
// end the window, and so move the limit, only in a trial or after work in vain. Repay ends it, instead of Release. Lend
// reports false and does nothing
//
//   - while too few others have ended to tell the request from slow work, which must not let more in, unless it is known
//     to be long by nature;
//   - if overdue requests wait for each other (overlong);
//   - if Max requests run without a slot, or the limit is fixed.
//
// If nothing ends for an objective while every slot is taken, one slot is lent all the same, to see whether others
// end soon: long polls that came first would otherwise hold every slot for good.
//
// Of a request that runs beside from its beginning it reports the same, and takes nothing.
func (l *Limit) Lend(now, started mono.Time, place Place, natural bool) bool {
	few := !natural && l.use.ends-place.ends <= outlives*uint64(l.use.slots) && l.use.missing <= outlast
	stuck := !l.Free() && now.Sub(l.use.ended) > time.Duration(whole*l.cfg.Slack)
	if (few || l.overlong.wait()) && !stuck {
		return false
	}
	if place.beside {
		return true
	}
	if l.use.lent >= l.cfg.Max || !l.Lends() {
		return false
	}
	l.integrate(now)
	if few {
		l.use.ended = now
	}
	held := float64(now.Sub(started))
	if place.answered != 0 {
		held = float64(place.answered.Sub(started))
		l.streaming.add(float64(now.Sub(place.answered)), true)
	}
	l.window.lent += held
	l.drop(place)
	l.use.lent++
	// It is a sample as far as slots are concerned. Where all requests take that long, a lowered limit would never end
	// without.
	switch w := &l.window; {
	case l.trial.kind == noTrial && l.vain.state == recovered:
		if !w.moved && w.flush == 0 && w.done > 0 {
			w.add(now, held, true, false)
		}
	case !l.settling(now):
		w.add(now, held, true, l.vain.state != recovered)
		l.endWindow(now)
	}
	return true
}

// Beside counts a request that is long by nature, and runs without a slot from its beginning until Repay. It reports false
// and does nothing if Max run without one, or the limit is fixed.
func (l *Limit) Beside(now mono.Time) (place Place, ok bool) {
	if l.use.lent >= l.cfg.Max || !l.Lends() {
		return Place{}, false
	}
	l.integrate(now)
	l.use.lent++
	return Place{beside: true, ends: l.use.ends, all: l.use.slots + l.use.lent}, true
}

// Lends reports whether Lend can ever take a slot back. Where the limit is fixed it cannot, because the limit's owner
// has decided how many requests run.
func (l *Limit) Lends() bool { return l.cfg.Min < l.cfg.Max }

// Repay ends a request whose slot was lent, which began at started, at a place.
func (l *Limit) Repay(now, started mono.Time, place Place, executed bool) {
	l.use.lent--
	if place.answered == 0 && now.Sub(started) > time.Duration(whole*l.cfg.Slack) {
		l.overlong.add(float64(place.all), float64(now.Sub(started)), executed)
	}
}

// Lent returns the number of requests that run without a slot.
func (l *Limit) Lent() int { return l.use.lent }

// outgrow raises the limit after a window whose slots were mostly held by requests that turned out to be long by
// nature. Such a window tells nothing of other requests, except that there are too few slots to find out; and long
// polls that are refused come again, and would hold the slots for good. A window that ended early since a queue builds up
// is none of these: late requests that wait for each other have given their slots back as well.
func (l *Limit) outgrow() {
	if l.trial.kind != noTrial {
		l.limit = max(l.limit, l.trial.from.concurrency)
		l.end()
	}
	l.limit *= up
}
