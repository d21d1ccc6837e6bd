package slots

import (
	"math"
	"time"
)

// point is an operating point: means over the completions of one or more windows.
type point struct {
	concurrency float64 // requests that hold slots
	throughput  float64 // completions per ns
	residence   float64 // ns from start to end: see window.residence
	took        float64 // ns, mean of the completions
	samples     float64 // completions
	limit       float64
	vain        float64 // share of the completions that were late, or whose callers gave up
	given       float64 // share of the latter
	over        float64 // share of the completions that took longer than the objective
	tardy       float64 // share of the completions that were answers after the objective, the wait before the slot included
	overran     float64 // ns, mean residence of these
	lent        float64 // requests that ran without a slot
	order       order
	bound       bool // slots were missing for half of the time
}

// seen holds what later windows are compared with.
type seen struct {
	past    point   // the last window
	level   level   // all windows under the present limit
	other   point   // the level before that
	free    point   // mean of the windows with free slots
	length  float64 // ns, of the last window
	peak    float64 // most requests at once, with and without a slot; fades over 2 × memory windows
	unbound int     // windows in a row in which the limit did not bind
}

// level is the sum of the windows under one limit. A completion that chance moves from one window to the next does
// not change it.
type level struct {
	length, done, area float64 // ns, completions that count as throughput, ∫ requests that hold slots dt
	sum, ends          float64 // of residence times, in ns, and how many
	tardy, overran     float64 // of these, how many were late answers, and the sum of their times
	windows            int
	order              order
}

// throughput returns that of the level and of the window p, which is length ns long, together. If p's differs by a
// factor of two the service has changed: the level is forgotten, and p's alone returned.
func (v *level) throughput(p point, length float64) float64 {
	if v.windows == 0 {
		return p.throughput
	}
	x := (v.done + p.throughput*length) / (v.length + length)
	if away := p.throughput / x; away > 2 || away < 0.5 {
		*v, x = level{}, p.throughput
	}
	return x
}

// add takes a window, length ns long. After memory windows the older ones count half.
func (v *level) add(w *window, length float64) {
	if v.windows++; v.windows > memory {
		v.length, v.done, v.area, v.sum, v.ends, v.tardy, v.overran, v.windows = v.length/2, v.done/2, v.area/2, v.sum/2, v.ends/2, v.tardy/2, v.overran/2, memory/2
		v.order.count, v.order.sum = v.order.count/2, v.order.sum/2
	}
	v.length += length
	v.done += float64(w.done - w.given)
	v.area += w.area
	v.sum += w.sum
	v.ends += float64(w.done)
	v.tardy += float64(w.tardy)
	v.overran += w.overran
	v.order.merge(w.order)
}

// with returns the level and its newest window p as one point, at a throughput.
func (v *level) with(p point, throughput float64) point {
	p.order.merge(v.order)
	p.took = (p.took*p.samples + v.sum) / (p.samples + v.ends)
	tardy := p.tardy*p.samples + v.tardy
	p.overran = (p.overran*p.tardy*p.samples + v.overran) / max(tardy, 1)
	p.tardy = tardy / (p.samples + v.ends)
	p.throughput, p.samples = throughput, p.samples+v.done
	return p
}

// point returns the mean of the level.
func (v *level) point() point {
	return point{concurrency: v.area / v.length, throughput: v.done / v.length, residence: max(v.sum, v.area) / v.ends, samples: v.done, order: v.order}
}

// calmMemory is how many completions the mean of windows with free slots spans.
const calmMemory = 256

// blend takes a window q into the mean p of windows.
func (p *point) blend(q point) {
	had := min(p.samples, calmMemory)
	share := q.samples / (had + q.samples)
	p.concurrency += (q.concurrency - p.concurrency) * share
	p.throughput += (q.throughput - p.throughput) * share
	p.residence += (q.residence - p.residence) * share
	p.took += (q.took - p.took) * share
	p.over += (q.over - p.over) * share
	p.samples = had + q.samples
}

// times is the mean residence time and its mean deviation, in ns, smoothed over some 32 completions.
type times struct{ mean, spread float64 }

func (t *times) add(r float64) {
	if t.mean == 0 {
		t.mean = r
	}
	off := r - t.mean
	t.mean += off / 32
	t.spread += (math.Abs(off) - t.spread) / 32
}

// deviation is the coefficient of variation, exact for exponential times, whose mean deviation is 2/e of the mean; 0
// before the first completion.
func (t *times) deviation() float64 {
	if t.mean == 0 {
		return 0
	}
	return 1.36 * t.spread / t.mean
}

// variation is how many times as many samples a mean needs as for exponential times: the square of the coefficient of
// variation, from 1 to 8.
func (l *Limit) variation() float64 {
	if l.knee.service == 0 {
		return 1
	}
	cv := l.times.deviation()
	return max(1, min(cv*cv, 8))
}

// turn is how long it takes until all but a few of the requests that run now have ended, at most an objective.
func (l *Limit) turn() time.Duration {
	return time.Duration(min(l.times.mean+2*l.times.spread, whole*float64(l.cfg.Slack)))
}
