package slots

import "github.com/spillgate/spillgate/internal/mono"

const (
	// unmoved is the relative change of the limit below which running requests count as admitted under it.
	unmoved = 1.0 / 16
	// hardlyOver is which part of what runs, inverted, may be older than the limit where hardly any may be.
	hardlyOver = 16
)

// begin begins a window after the limit changed by a factor. A lower limit is in force once no more run than it
// allows, or one has begun in spite of it; a higher one once most of the requests from before have ended.
func (l *Limit) begin(now mono.Time, factor float64) {
	// Requests that share processors are late together.
	fresh := l.window.fresh || l.window.hasty && l.told.useful > 0
	l.window = newWindow(now, now)
	switch {
	case factor < 1-unmoved:
		l.window.moved, l.window.opens, l.window.fresh = true, now, fresh
	case factor > 1+unmoved:
		l.window.moved, l.window.opens = true, now.Add(l.turn())
	default:
		return
	}
	if v := &l.seen.level; v.order.count >= enoughRanks/4 {
		l.seen.other = v.point()
	}
	l.seen.level = level{}
}

// settling reports whether a change of the limit is not in force yet: more requests run than it allows, or too many
// that run began before it. The window begins when it is in force.
func (l *Limit) settling(now mono.Time) bool {
	w := &l.window
	if w.moved && (l.InUse() > l.Limit() && !w.beyond || now < w.opens) {
		return true
	}
	if w.moved {
		fresh := w.fresh || l.trial.kind == fewer || l.trial.kind.climbs()
		*w = newWindow(now, now)
		if fresh {
			w.flush, w.old, w.next = l.InUse(), l.arrivals.len(), l.arrivals.next
		}
	}
	if w.flush == 0 {
		return false
	}
	if w.flush > 1 || !l.mixed() {
		w.flush--
	}
	if w.flush == 0 {
		*w = newWindow(now, now)
	}
	return true
}

// mixed reports whether too many of the running requests are older than the limit for a window to begin. Requests
// that began in a crowd may take long after it is over, so hardly any of them may be left where fewer may do more.
func (l *Limit) mixed() bool {
	t := &l.trial
	crowded := t.kind.climbs() || l.vain.state == catchingUp && l.knee.service == 0 || t.kind == fewer && t.from.residence > max(whole*float64(l.cfg.Slack), far*l.knee.alone)
	return crowded && l.window.old > l.InUse()/hardlyOver
}
