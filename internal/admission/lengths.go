package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/schedule"
)

// lengths tells kinds of requests apart by how long they hold a slot, so that where requests wait for slots the longer ones do
// not crowd out the others: see schedule.Kind.
//
//	kind ──▶ mean time in a slot ──▶ a new group wherever the next longer kind takes half as long again
//
// In the order of arrival, requests that wait inside for a key or a pool that others do not need would hold more and more of the
// slots the longer they wait, until the others have hardly any. Kinds that take about as long are one group. What had work done for
// it further up, which would be lost, is in none.
type lengths struct {
	known  map[string]*length
	ends   int // since the groups were formed
	unseen int // ends that were not looked at since the last that was
	sorted []*length
	groups int // of kinds; names are asked for on arrival only if there are several
}

// length is what is known of a kind.
type length struct {
	name  string
	mean  float64 // time in a slot, ns
	ends  float64 // so many as count, at most lengthMemory
	group int     // 0 while too few have ended
}

const (
	// apartFrom is how many times as long the next kind takes at least that is in another group.
	apartFrom = 1.5
	// mostLengths is how many kinds are known. Others are in no group, as are those of which hardly any have ended.
	mostLengths = 64
	// lengthLeast is how many ends tell how long a kind takes, lengthMemory over how many it is smoothed, regroupEvery after
	// how many the groups are formed anew. One in lookWaiting is looked at while requests wait, and one in lookEvery while none
	// does: to name a kind takes time.
	lengthLeast, lengthMemory, regroupEvery, lookWaiting, lookEvery = 8, 64, 32, 4, 16
)

// measure says for how long t will hold a slot, if it has to wait for one.
func (g *Gate) measure(t *Ticket) {
	if g.lengths.groups > 1 && t.Done == 0 && g.busy() {
		t.length = g.lengths.known[t.kind()]
	}
}

// kind is what the queue knows of it.
func (l *length) kind() schedule.Kind {
	if l == nil || l.group == 0 {
		return schedule.Kind{}
	}
	return schedule.Kind{Group: l.group, Length: time.Duration(l.mean)}
}

// held notes that t held a slot for so long, and whether requests wait.
func (l *lengths) held(t *Ticket, d time.Duration, waiting bool) {
	every := lookEvery
	if waiting {
		every = lookWaiting
	}
	if l.unseen++; t.Kind == nil || l.unseen < every {
		return
	}
	l.unseen = 0
	name := t.kind()
	k := l.known[name]
	if k == nil {
		k = l.meet(name)
	}
	k.ends = min(k.ends+1, lengthMemory)
	k.mean += (float64(d) - k.mean) / k.ends
	if l.ends++; l.ends >= regroupEvery && len(l.known) > 1 {
		l.regroup()
	}
}

// meet returns a kind that was not known. If too many are, the one of which the fewest have ended is forgotten.
func (l *lengths) meet(name string) *length {
	if l.known == nil {
		l.known = map[string]*length{}
	}
	if len(l.known) >= mostLengths {
		var least *length
		for _, k := range l.known { //lint:ordered the least of all, by name where equal, is the same in any order
			if least == nil || k.ends < least.ends || k.ends == least.ends && k.name < least.name {
				least = k
			}
		}
		delete(l.known, least.name)
	}
	k := &length{name: name}
	l.known[name] = k
	return k
}

// regroup forms the groups anew.
func (l *lengths) regroup() {
	l.ends = 0
	all := l.sorted[:0]
	for _, k := range l.known { //lint:ordered sorted below
		if k.ends >= lengthLeast {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b *length) int {
		return cmp.Or(cmp.Compare(a.mean, b.mean), strings.Compare(a.name, b.name))
	})
	l.sorted = all
	n, before := 0, 0.0
	for _, k := range all {
		if n == 0 || k.mean > apartFrom*before {
			n++
		}
		k.group, before = n, k.mean
	}
	l.groups = n
}
