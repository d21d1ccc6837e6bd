package mesh

import (
	"container/heap"
	"math"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/world"
)

// throng is the waits that pass at once inside a process whose requests are in each other's way. All of them pass
// equally fast, the slower the more there are, so one clock is enough for them: it tells how much of its time a wait
// that began at 0 would have had, and each ends when the clock shows what it is due at.
type throng struct {
	law   world.Contention
	clock float64 // ns
	at    mono.Time
	waits dues
	armed uint64 // the event that counts
}

// due is a wait and what the clock shows at its end, in ns.
type due struct {
	call *call
	at   float64
}

// dues is a heap.
type dues []due

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, k int) bool { return d[i].at < d[k].at }
func (d dues) Swap(i, k int)      { d[i], d[k] = d[k], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(due)) }
func (d *dues) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}

// thronged reports whether waits of p are in each other's way.
func (p *process) thronged() bool { return p.throng.law != world.Contention{} }

// slowness returns how long a ns of the clock takes, infinitely long while p stands still.
func (p *process) slowness() float64 {
	if p.pace.stops > 0 {
		return math.Inf(1)
	}
	return p.pace.factor() * p.throng.law.Factor(float64(len(p.throng.waits)))
}

// jostle lets c wait for ns of the clock.
func (w *World) jostle(c *call, ns float64) {
	p := c.process
	w.catchUp(p)
	heap.Push(&p.throng.waits, due{c, p.throng.clock + ns})
	w.armThrong(p)
}

// catchUp lets the clock of p pass up to now. It has to be called before what it depends on changes.
func (w *World) catchUp(p *process) {
	d := &p.throng
	d.clock += float64(w.Now().Sub(d.at)) / p.slowness()
	d.at = w.Now()
}

// armThrong schedules the end of the next wait of p.
func (w *World) armThrong(p *process) {
	d := &p.throng
	d.armed++
	if len(d.waits) == 0 || p.pace.stops > 0 {
		return
	}
	left := math.Ceil(max(d.waits[0].at-d.clock, 0) * p.slowness())
	w.engine.At(w.Now().Add(durationOf(left)), event{endThronged, p.id, int32(d.armed)})
}

// leaveThrong ends the waits of p that are over.
func (w *World) leaveThrong(p *process, armed int32) {
	d := &p.throng
	if armed != int32(d.armed) {
		return // something has changed since
	}
	w.catchUp(p)
	const exact = 1e-3 // ns, of the sums of a run
	for len(d.waits) > 0 && d.waits[0].at <= d.clock+exact {
		w.passed(heap.Pop(&d.waits).(due).call)
	}
	w.armThrong(p)
}

// disperse ends all waits of p, whose calls are gone.
func (w *World) disperse(p *process) {
	clear(p.throng.waits)
	p.throng.waits = p.throng.waits[:0]
	p.throng.clock, p.throng.at = 0, w.Now()
	w.armThrong(p)
}
