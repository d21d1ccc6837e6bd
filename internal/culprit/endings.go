package culprit

import (
	"math"

	"github.com/spillgate/spillgate/internal/mono"
)

// endings remember, by kind, for how long tasks held a lock or a slot at most that then let go by
// themselves, without the time for which they waited for another. They are learned at every look, also while the objective is missed: where something
// else slows all tasks of a kind down, each of them holds for long what the next waits for, and
// cancelling one gains no more than its turn.
type endings [seenKinds]ending

// ending is the longest hold of a kind, in seconds, and when it ended.
type ending struct {
	kind uint64
	at   mono.Time
	held float64
	// doubt tells that one of the kind was cancelled, and none has let go soon since.
	doubt bool
}

// alikeHolds is how many times as long as others of its kind did a task must hold what it holds to
// be unlike them. What ended was seen last at the look before, so it may have lasted for twice as long. None is
// unlike them before it has held that for so many minimum ages: one that holds for an age is late, and may have been
// kept from a processor like the others.
const alikeHolds = 2

// add enters a hold that ended by itself.
func (all *endings) add(kind uint64, held float64, at mono.Time) {
	if kind == 0 || held <= all.longest(kind, at) {
		return
	}
	k := &all[placeOf(kind)]
	*k = ending{kind, at, held, k.kind == kind && k.doubt}
}

// doubted reports whether one of a kind was cancelled, and none has let go soon since: all of them may have
// become slow.
func (all *endings) doubted(kind uint64, at mono.Time) bool {
	k := &all[placeOf(kind)]
	return kind != 0 && k.kind == kind && k.doubt && at.Sub(k.at) < learning
}

// trust ends all doubts: requests end in time again, so they have not become slow.
func (all *endings) trust() {
	for i := range all {
		all[i].doubt = false
	}
}

// longest returns the longest hold of a kind. It fades as what is normal does.
func (all *endings) longest(kind uint64, at mono.Time) float64 {
	k := &all[placeOf(kind)]
	if k.kind != kind || kind == 0 {
		return 0
	}
	return k.held * math.Exp(-float64(at.Sub(k.at))/float64(learning))
}

// alike returns for how long a task of a kind that its victims have may hold what they wait for and still be
// one like them. Of an unknown kind nothing is known.
func (e *Engine) alike(kind uint64) float64 {
	if kind == 0 {
		return 0
	}
	return max(e.endings.longest(kind, e.view.s.At), e.cfg.MinAge.Seconds())
}

// ended enters what tasks held that were there at the look before and are gone. One that was
// cancelled tells of its kind only where others of the kind wait: it would have gone on for as long
// again, by the prior of an unknown progress. If the next of them goes on for long as well, all of them have become
// slow: one that lets go soon would show that they have not.
func (e *Engine) ended() {
	v := &e.view
	for _, k := range e.before.kept {
		if !v.gone[k.task] || int(k.resource) >= v.r {
			continue
		}
		kind := v.s.Resources[k.resource].Kind
		if kind != Lock && kind != Queue {
			continue
		}
		whole, name := k.own, e.before.kinds[k.task]
		cancelled := e.stepTaken(e.before.ids[k.task]) != NoStep
		switch {
		case cancelled && k.idle: // those that do something may be as fast as ever
			continue
		case cancelled:
			whole = 2 * k.amount
		case whole < 0: // it left while it waited, and did not show for how long it would have held
			continue
		}
		e.endings.add(name, whole, v.s.At)
		if one := &e.endings[placeOf(name)]; name != 0 && one.kind == name && (cancelled || whole <= e.cfg.MinAge.Seconds()) {
			one.doubt = cancelled
		}
	}
}
