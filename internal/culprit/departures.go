package culprit

import "github.com/spillgate/spillgate/internal/mono"

// departures remember, by kind, when a task ended last that nobody cancelled; of two kinds that share a place the newer.
type departures [seenKinds]departure

type departure struct {
	kind   uint64
	at     mono.Time
	owner  uint64    // of the task that ended last, 0 unknown
	others mono.Time // when one ended last that another had
}

// departed enters the tasks that were there at the look before and are gone.
func (e *Engine) departed() {
	for i, gone := range e.view.gone {
		if kind := e.before.kinds[i]; gone && kind != 0 && e.stepTaken(e.before.ids[i]) == NoStep {
			e.departures[placeOf(kind)].enter(kind, e.before.owners[i], e.view.s.At)
		}
	}
}

// enter enters a task that ended.
func (d *departure) enter(kind, owner uint64, at mono.Time) {
	switch {
	case d.kind != kind:
		*d = departure{kind: kind}
	case d.owner != owner:
		d.others = d.at
	}
	if d.at, d.owner = at, owner; owner == 0 {
		d.others = at
	}
}

// steady reports whether no task of the kind of task i, but for those of its owner, has ended by itself since i began. Where tasks of a kind come
// and go, many of them are demand, whatever each of them uses. Those of one owner come one after the other: they are as one.
func (e *Engine) steady(v *view, i int) bool {
	t := &v.s.Tasks[i]
	d := &e.departures[placeOf(t.Kind)]
	last := d.at
	if t.Owner != 0 && d.owner == t.Owner {
		last = d.others
	}
	return t.Kind != 0 && (d.kind != t.Kind || last <= t.Started)
}

func (all *departures) visit(c *codec) {
	byKind(c, (*[seenKinds]departure)(all), func(k *departure) *uint64 { return &k.kind }, func(k *departure) {
		whole(c, &k.at)
		whole(c, &k.owner)
		whole(c, &k.others)
	})
}
