package culprit

import "github.com/spillgate/spillgate/internal/mono"

// departures remember, by kind, when a task ended last that nobody cancelled; of two kinds that share a place the newer.
type departures [seenKinds]departure

type departure struct {
	kind uint64
	at   mono.Time
}

// departed enters the tasks that were there at the look before and are gone.
func (e *Engine) departed() {
	for i, gone := range e.view.gone {
		if kind := e.before.kinds[i]; gone && kind != 0 && e.stepTaken(e.before.ids[i]) == NoStep {
			e.departures[placeOf(kind)] = departure{kind, e.view.s.At}
		}
	}
}

// steady reports whether no task of the kind of task i has ended by itself since i began. Where tasks of a kind come and
// go, many of them are demand, whatever each of them uses.
func (e *Engine) steady(v *view, i int) bool {
	t := &v.s.Tasks[i]
	last := &e.departures[placeOf(t.Kind)]
	return t.Kind != 0 && (last.kind != t.Kind || last.at <= t.Started)
}

func (all *departures) visit(c *codec) {
	byKind(c, (*[seenKinds]departure)(all), func(k *departure) *uint64 { return &k.kind }, func(k *departure) { whole(c, &k.at) })
}
