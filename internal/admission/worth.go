package admission

import (
	"math"
	"time"
)

// worth estimates how many requests are answered within the objective after a wait,
// and from it how long a wait is worth while.
//
//	residence times ÷ their mean ──▶ the share that ends within a time
//	departures while all slots are taken ──▶ the wait of the n-th in the queue
//	arrivals ──▶ the load
//
// A longer queue lets the server idle less, and makes the requests in it late. With a load
// of ρ, n slots and K places, the number of requests in the gate is a birth and death
// process in which each state k > n weighs ρ times the one before. A request that comes in
// state k waits for k−n departures; within gives the share of these requests that is
// answered in the rest of the objective. The best K has the most answers in time.
//
// The shape of the residence times is learned here, slowly, in means; the mean is the
// pace's, which a server that becomes slow changes at once.
type worth struct {
	objective time.Duration
	mean      float64 // ns; see pace.residence
	count     float64 // requests in shape, of late
	shape     [buckets]float64
	error     float64              // square of what waits differ from what was promised; see kept
	below     [buckets + 1]float64 // share in the buckets under each, as of refresh
	low, high int                  // all of shape is in the buckets from low to high; high is below low while it is empty
	edges     [buckets + 1]float64 // where the buckets begin, in means

	// What refresh decided. wait is the longest wait that is worth while for a request with
	// the whole objective, whose answer may be late, leaving the same for one whose caller
	// leaves before, and strict both in an overload. The others are how much of
	// its budget must be left when it starts: need if others could start in its place,
	// credited the same with a credit, and hope if none could.
	wait, leaving, strict, need, credited, hope time.Duration
	longest                                     time.Duration // wait, if there were no doubt about it
	slow                                        float64       // ns; see worthwhile
	overload                                    overload
}

const (
	// The shape has this many buckets, perOctave of them from one residence to its double,
	// from least means on; the last bucket holds everything from 16 means on.
	buckets   = 112
	perOctave = 16
	least     = 1.0 / 8
	// firstOctave is the exponent of least, as a float64 has it: 3 below that of 1.
	firstOctave = 1023 - 3
	// steps is how many lengths of the queue are tried.
	steps = 64
	// shapeMemory is over how many requests the shape is smoothed.
	shapeMemory = 256
	// errorMemory is over how many waits their errors are smoothed, worst the largest that
	// counts.
	errorMemory, worst = 64, 4
	// spare is the part of the objective that is left for the way to the client and for
	// chance.
	spare = 1.0 / 20
	// flat is how near to the best a longer queue may come: refusals cost something.
	flat = 0.99
	// spoiled bounds a queue that is longer than necessary: the last request in it keeps this
	// part of its chance to be in time.
	spoiled = 0.995
	// lenience is the part of the time left that may be waited while there is no overload.
	lenience = 0.8
	// replaced is the least chance to be in time of a request at its turn, as a part of the
	// chance of one that comes just now, while others wait behind it.
	replaced = 0.95
	// asked is the same for a request that came with a credit, because the server asked for
	// it, and with credits long waits are rare.
	asked = 0.75
	// outdatedBy is the change of the residence that refreshes at once, without waiting for the
	// next departures: those of a server that became 20 times slower are a second apart.
	outdatedBy = 1.25
)

// newWorth returns what is known before the first request: every wait that fits in the
// objective is worth while.
func newWorth(objective time.Duration) worth {
	w := worth{objective: objective, wait: objective, leaving: objective, longest: objective, strict: objective, error: 1, low: buckets, high: -1}
	for i := 1; i <= buckets; i++ {
		w.edges[i] = least * math.Exp2(float64(i)/perOctave)
	}
	return w
}

// add takes how long a request took from the instant at which it was expected to start,
// in means.
func (w *worth) add(took float64) {
	if w.count += 1; w.count > shapeMemory { // as all fade, the newest weighs more
		for i := range w.shape {
			w.shape[i] /= 2
		}
		w.count /= 2
	}
	i := w.bucketOf(took)
	w.shape[i]++
	w.low, w.high = min(w.low, i), max(w.high, i)
}

// bucketOf returns the bucket of a residence in means, which is not below 0.
//
// The exponent of x is its octave. Inside one, with m from 0 to 1 beyond its start, the bucket is that of
// 16·log₂(1+m), which is 16·m or up to 1.4 more.
func (w *worth) bucketOf(x float64) int {
	const exponent, mantissa = 52, 1<<52 - 1
	if x < w.edges[1] {
		return 0
	}
	bits := math.Float64bits(x)
	octave := int(bits>>exponent) - firstOctave
	if octave >= buckets/perOctave {
		return buckets - 1
	}
	i := octave*perOctave + int(bits&mantissa*perOctave>>exponent)
	for i < buckets-1 && x >= w.edges[i+1] {
		i++
	}
	return i
}

// within returns the share of the requests that end within d ns once they run, 1 before
// anything is known.
func (w *worth) within(d float64) float64 {
	switch {
	case d <= 0:
		return 0
	case w.count == 0:
		return 1
	}
	x := d / w.mean
	i := w.bucketOf(x)
	return w.below[i] + (w.below[i+1]-w.below[i])*min((x-w.edges[i])/(w.edges[i+1]-w.edges[i]), 1)
}

// quantile returns the time within which a share of the requests ends.
func (w *worth) quantile(share float64) time.Duration {
	i, end := w.low, w.high+1
	for i < end { // the first bucket at whose end it is that share
		mid := (i + end) / 2
		if up := w.below[mid+1]; up < share || up == 0 { // what was seen long ago is forgotten
			i = mid + 1
		} else {
			end = mid
		}
	}
	if i > w.high {
		return 0
	}
	part := (share - w.below[i]) / (w.below[i+1] - w.below[i])
	return time.Duration(w.mean * (w.edges[i] + (w.edges[i+1]-w.edges[i])*max(part, 0)))
}

// outdated reports whether what was decided is for another residence than that of p.
func (w *worth) outdated(p *pace) bool {
	now := p.residence()
	return now > outdatedBy*w.mean || now*outdatedBy < w.mean
}

// refresh decides anew, for slots from which requests depart at a pace and arrive load
// times as often.
func (w *worth) refresh(p *pace, load, deviations float64, o overload) {
	gap := p.gap.value
	w.mean = p.residence()
	sum, count := 0.0, max(w.count, 1)
	for i := w.low; i <= w.high; i++ {
		sum += w.shape[i]
		w.below[i+1] = sum / count
	}
	for i := w.high + 1; i < buckets; i++ {
		w.below[i+1] = sum / count
	}
	all := float64(w.objective) * (1 - spare)
	w.wait = w.objective
	if gap > 0 && load > 0 {
		places := w.places(p.slots, gap, load)
		w.wait = time.Duration((places + 0.5) * gap)
	}
	promised := w.within(all - float64(w.wait))
	w.need, w.credited, w.hope = w.quantile(replaced*promised), w.quantile(asked*promised), w.quantile(promised/2)
	w.slow = deviations * deviations * w.error * gap
	w.longest, w.overload = w.wait, o
	w.strict = w.worthwhile(w.objective, 1)
	w.wait, w.leaving = w.worthwhile(w.objective, o.now), w.worthwhile(w.objective, o.lasting)
}

// worthwhile returns the longest wait that is worth while for a request with a time
// budget, in an overload from 0 to 1. In an overload, a request that waits and is refused at its turn has waited in
// vain, so its wait must leave room to be some deviations longer than expected. While few
// requests are refused the queue soon runs empty, and a request that may be in time may wait.
func (w *worth) worthwhile(budget time.Duration, overload float64) time.Duration {
	strict := float64(w.longest - (w.objective - budget))
	if left := float64(budget - w.need); left > 0 {
		strict = min(strict, left/(1+math.Sqrt(w.slow/left)))
	}
	lenient := max(lenience*float64(budget-w.hope), strict)
	return time.Duration(max(lenient-(lenient-strict)*overload, 0))
}

// kept takes how far a wait was from what was promised, where the square of that would be
// even on average if departures came at random.
func (w *worth) kept(off time.Duration, even float64) {
	if even > 0 {
		w.error += (min(float64(off)*float64(off)/even, worst) - w.error) / errorMemory
	}
}

// places returns the number of places in the queue with which, or with fewer, the most
// are answered in time but for flat.
func (w *worth) places(n int, gap, load float64) float64 {
	all := float64(w.objective) * (1 - spare)
	load = max(load, 1) // or nothing need be refused for the others' sake
	weight := 1.0       // of the states up to all slots taken, in that of the last
	n = min(n, steps)
	for i := 1; i <= n; i++ {
		weight = 1 + weight*float64(i)/(load*float64(n))
	}
	var value, share [steps + 1]float64
	share[0] = w.within(all)
	good := load * (weight - 1) * share[0]
	step := max(1, math.Ceil(all/gap/steps))
	decay := math.Pow(load, -step)
	best, most := good/weight, 0.0
	value[0] = best
	k := 1
	for ; k <= steps; k++ {
		wait := float64(k) * step * gap
		share[k] = w.within(all - wait)
		if share[k] == 0 {
			break
		}
		weight = weight*decay + step
		good = good*decay + step*share[k]
		value[k] = good / weight
		best = max(best, value[k])
	}
	late, found := spoiled*share[0], false
	for i := range k {
		if value[i] >= flat*best && (!found || share[i] >= late) {
			most, found = float64(i)*step, true
		}
	}
	return most
}
