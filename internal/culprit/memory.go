package culprit

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// looked is what the engine remembers of one sample's tasks: enough to tell how
// much each waited and used since.
type looked struct {
	at        mono.Time
	any       bool // at is of a sample
	resources int
	slots     []int32 // hash table: task index plus 1, 0 for free; a power of two
	ids       []uint64
	kinds     []uint64
	owners    []uint64
	late      []bool // counted as late already
	waited    []time.Duration
	got       []uint64
	starved   []time.Duration // by task
	kept      []keptUse
}

// keptUse is what a task used of a resource.
type keptUse struct {
	task, resource int32
	amount         float64
	own            float64 // of it, what it did not use while it waited for a lock or a slot itself; negative if it waits
	idle           bool
}

// reset makes room for n tasks and r resources and forgets the rest.
func (l *looked) reset(at mono.Time, n, r int) {
	size := 16
	for size < 2*n {
		size *= 2
	}
	if len(l.slots) < size {
		l.slots = make([]int32, size)
	}
	clear(l.slots)
	l.at, l.any, l.resources = at, true, r
	l.ids, l.kinds, l.owners = resized(l.ids, n), resized(l.kinds, n), resized(l.owners, n)
	l.late = resized(l.late, n)
	l.waited = resized(l.waited, n*r)
	l.got, l.starved = resized(l.got, n*r), resized(l.starved, n)
	l.kept = l.kept[:0]
}

// add enters task i and reports whether its ID was new.
func (l *looked) add(i int, id, kind, owner uint64) bool {
	at := l.slot(id)
	if l.slots[at] != 0 {
		return false
	}
	l.slots[at] = int32(i) + 1
	l.ids[i], l.kinds[i], l.owners[i] = id, kind, owner
	return true
}

// find returns the index of a task, -1 if it was not there.
func (l *looked) find(id uint64) int {
	if !l.any || len(l.ids) == 0 {
		return -1
	}
	return int(l.slots[l.slot(id)]) - 1
}

// tasks returns how many there were.
func (l *looked) tasks() int {
	if !l.any {
		return 0
	}
	return len(l.ids)
}

// slot returns where id is, or the free slot where it belongs. At most half of
// the slots are taken, so the search ends.
func (l *looked) slot(id uint64) int {
	mask := len(l.slots) - 1
	i := int(id*0x9e3779b97f4a7c15>>32) & mask // Fibonacci hashing
	for l.slots[i] != 0 && l.ids[l.slots[i]-1] != id {
		i = (i + 1) & mask
	}
	return i
}

// resized returns s with n zero elements, in its own memory if that is enough.
func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/2)
	}
	s = s[:n]
	clear(s)
	return s
}

// normal is what the engine has learned in normal times. Every mean is
// exponential with the time constant learning, and plain while it is younger.
type normal struct {
	seen       time.Duration // time learned from
	throughput float64       // 1/s
	noise      float64       // its mean deviation, 1/s
	above      rise          // since when it has been more
	inFlight   float64       // foreground tasks
	taken      float64       // by others, of the machine's processors
	busy       float64       // late foreground tasks that do not wait
	lost       []float64     // share of in-flight time, by resource
	usual      []float64     // median use of tasks that ended, by resource; 0 unknown
	held       []float64     // units in use, by resource
	kinds      [seenKinds]seenKind
	met        float64   // tasks of any kind that ended, fading over regularFor
	metAt      mono.Time // when it faded last
}

// learning is the time constant of what is normal: long against an incident,
// short against a daily rhythm.
const learning = 10 * time.Second

// seenKind is a kind of task that ended in normal times, when that was last, and since
// when it has, again and again.
type seenKind struct {
	kind      uint64
	at, since mono.Time
}

// seenKinds is how many kinds are remembered; of two that share a place the newer.
const seenKinds = 256

// placeOf is where a kind is remembered.
func placeOf(kind uint64) int { return int(kind * 0x9e3779b97f4a7c15 >> 56) }

// remember notes that a task of a kind has ended.
func (n *normal) remember(kind uint64, at mono.Time) {
	k := &n.kinds[placeOf(kind)]
	if !n.regular(kind, at) {
		k.since = at
	}
	k.kind, k.at = kind, at
	if kind != 0 {
		n.met, n.metAt = n.metBy(at)+1, at
	}
}

// metBy returns how many tasks were seen to end of late.
func (n *normal) metBy(at mono.Time) float64 {
	return n.met * math.Exp(-float64(at.Sub(n.metAt))/float64(regularFor))
}

// regular reports whether tasks of a kind come and go: one ended in normal times,
// not long ago. The next of them is already on its way.
func (n *normal) regular(kind uint64, at mono.Time) bool {
	k := n.kinds[placeOf(kind)]
	return kind != 0 && k.kind == kind && at.Sub(k.at) < regularFor
}

// old reports whether tasks of a kind have come and gone for long. Those of a culprit that
// does harm at some looks and not at others are regular after a few.
func (n *normal) old(kind uint64, at mono.Time) bool {
	k := n.kinds[placeOf(kind)]
	return n.regular(kind, at) && k.at.Sub(k.since) >= learning
}

// regularFor is how long a kind is remembered.
const regularFor = 6 * learning

// weight returns the weight of a new value of a mean, for a sample of length dt.
func (n *normal) weight(dt time.Duration) float64 {
	return max(float64(dt)/float64(n.seen+dt), 1-math.Exp(-float64(dt)/float64(learning)))
}

// observe learns one throughput.
func (n *normal) observe(w, throughput float64) {
	off := math.Abs(throughput - n.throughput)
	if n.seen == 0 {
		off = 0
	}
	n.noise += w * (off - n.noise)
	n.throughput += w * (throughput - n.throughput)
}

// rise is a throughput above the usual one that has lasted.
type rise struct {
	lasted    time.Duration
	done, off float64 // completions, and the sum over time of what is off their mean
}

// settled is for how long a throughput must be above the usual one, by more than noise and
// with the objective met, to be the usual one: an application that had little to do, or
// other things, would compare with that for learning otherwise, and would not see that
// its throughput falls.
const settled = learning / 10

// rises enters a throughput. After a rise that has settled all means are young again.
func (n *normal) rises(dt time.Duration, throughput float64) {
	r := &n.above
	if throughput <= n.throughput+2*n.noise {
		*r = rise{}
		return
	}
	r.lasted += dt
	r.done += dt.Seconds() * throughput
	mean := r.done / r.lasted.Seconds()
	r.off += dt.Seconds() * math.Abs(throughput-mean)
	if r.lasted >= settled {
		n.seen, n.throughput, n.noise = r.lasted, mean, r.off/r.lasted.Seconds()
		*r = rise{}
	}
}

// medianStep is the relative step of the running medians: it weighs the last few
// dozens of observations.
const medianStep = 0.05

// use moves the running median of a resource towards one observation, from first
// on. A step up or down by a fixed ratio settles where both are equally likely.
func (n *normal) use(r int, amount, first float64) {
	switch m := &n.usual[r]; {
	case amount <= 0:
	case *m == 0:
		*m = first
	case amount > *m:
		*m *= 1 + medianStep
	default:
		*m /= 1 + medianStep
	}
}
