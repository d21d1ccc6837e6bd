package admission

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/schedule"
)

// lengths tells kinds of requests apart by how long they hold a slot. Where requests wait for slots, groups of kinds that
// hold them for about as long take turns. A longer group has no more of the slots' time than an equal part, and the shortest
// what the others leave:
//
//	kind ──▶ mean time in a slot ──▶ a new group wherever the next longer kind takes half as long again ──▶ schedule.Task.Workflow
//
// In the order of arrival, requests that wait inside for a key or a pool that others do not need would hold more and more of the
// slots the longer they wait, until the others have hardly any. With groups 700 services with locks, pools and shards do 4.2 ±
// 0.5 % more in the mean, 185 of them by more than 3 %, and 34 as much less (wild/parts). A longer group that would have less than
// an equal part in the order of arrival has that: with an equal part for it, a few long requests in front of a lock that all need
// took half of the lock's time. Kinds that take about as long are one group, in the order of arrival, so nobody gains by asking in
// many ways. So is what has had work done for it further up, which would be lost.
type lengths struct {
	known  map[string]*length
	ends   int // since the groups were formed
	unseen int // ends that were not looked at since the last that was
	sorted []*length
}

// length is what is known of a kind.
type length struct {
	name  string
	mean  float64 // time in a slot, ns
	ends  float64 // so many as count at most lengthMemory
	came  float64 // while requests waited, the older ones counting half
	group int     // 0 while too few have ended
}

const (
	// apartFrom is how many times as long the next kind takes at least that is in another group.
	apartFrom = 1.5
	// mostLengths is how many kinds are known. Others are in group 0, as are those of which hardly any have ended.
	mostLengths = 64
	// lengthLeast is how many ends tell how long a kind takes, lengthMemory over how many it is smoothed, regroupEvery after how many
	// the groups are formed anew, and lookEvery one in how many is looked at while nothing waits.
	lengthLeast, lengthMemory, regroupEvery, lookEvery = 8, 64, 32, 16
)

// turn says in which group t waits, if it has to wait and workflows do not say so.
func (g *Gate) turn(t *Ticket) {
	if g.cfg.Schedule.Fair {
		return
	}
	t.Flow, t.length = 0, nil
	if len(g.lengths.known) > 1 && t.Done == 0 && g.busy() {
		if k := g.lengths.known[t.kind()]; k != nil {
			if k.came++; k.group > 0 {
				t.Flow, t.length = k.group, k
			}
		}
	}
}

// held notes that t held a slot for so long.
func (g *Gate) held(t *Ticket, d time.Duration) {
	l := &g.lengths
	if l.unseen++; g.cfg.Schedule.Fair || t.Kind == nil || l.unseen < lookEvery && g.queue.Len() == 0 {
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
		g.regroup()
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

// regroup forms the groups anew. The shortest has what the others leave. Each of these has as much of the slots' time as in the
// order of arrival, and no more than an equal part.
func (g *Gate) regroup() {
	l := &g.lengths
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
	n, before, wanted := 0, 0.0, 0.0
	for _, k := range all {
		if n == 0 || k.mean > apartFrom*before {
			n++
		}
		k.group, before = n, k.mean
		wanted += k.came * k.mean
	}
	if wanted == 0 {
		return
	}
	equal, left := 1/float64(n), 1.0
	for i := len(all) - 1; i >= 0; {
		group, part := all[i].group, 0.0
		for ; i >= 0 && all[i].group == group; i-- {
			part += all[i].came * all[i].mean / wanted
			all[i].came /= 2
		}
		if part = max(min(part, equal), schedule.MinWeight); group == 1 {
			part = max(left, equal)
		}
		left -= part
		g.queue.SetShare(group, part)
	}
	g.queue.SetShare(0, equal)
}
