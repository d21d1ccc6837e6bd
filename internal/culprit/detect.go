package culprit

import (
	"math"
	"time"
)

// recent sums up the last few samples. Each sum decays with the time constant
// window, so that a count in it stands for the samples of about that time.
type recent struct {
	late          [lateWindows]lateness // the first decays as all sums here, each further one three times slower
	done, seconds float64               // completions, time
	taken         float64               // processor time that others took, as part of that of the machine
	inFlight      float64               // foreground tasks in flight, summed over samples
	others        float64               // the same without those that hog
	looks         float64               // samples
	lost          []float64
	delayed       delayed
	still         time.Duration // for how long nothing has ended
	grain         float64       // of the counts of late requests, at this sample
	past          past
}

// delayed is what late tasks in flight lost their time to, summed over samples. Those that mainly
// waited count as waiting, those that were busy with what nobody else lost time to as busy.
type delayed struct {
	waiting, busy float64
	lost          []float64 // by resource, of those that waited
}

// add enters a sample.
func (d *delayed) add(v *view, keep float64) {
	waiting, busy := lateTasks(v)
	d.waiting, d.busy = keep*d.waiting+float64(waiting), keep*d.busy+float64(busy)
	for len(d.lost) < v.r {
		d.lost = append(d.lost, 0)
	}
	for r := range d.lost {
		d.lost[r] *= keep
	}
	if waiting == 0 {
		return
	}
	for i := range v.n {
		if v.overdue[i] && v.delayed[i] >= 0.5 {
			addTo(d.lost, v.due[i*v.r:(i+1)*v.r], 1)
		}
	}
}

// forget begins anew.
func (d *delayed) forget() {
	d.waiting, d.busy = 0, 0
	clear(d.lost)
}

// lateAllowed is the share of late requests that a 99th percentile allows.
const lateAllowed = 0.01

// window returns the time constant of recent: an objective, because a request
// that misses it was in flight for as long; and no less than three samples,
// because fewer are no average.
func window(objective, dt time.Duration) time.Duration { return max(objective, 3*dt) }

// add enters a sample.
func (w *recent) add(v *view, f Finished, objective time.Duration) {
	keep := math.Exp(-float64(v.dt) / float64(window(objective, v.dt)))
	// A task that was late in flight has been counted; it is not counted again
	// when it ends.
	late := f.Late - min(f.Late, v.lateBefore)
	inTime := f.Timed - min(f.Timed, f.Late)
	if f.Timed == 0 {
		inTime = f.Count - min(f.Count, v.lateBefore)
	}
	missed, found := v.newlyLate+float64(late), float64(v.foundLate)+float64(late)
	w.grain = grain(objective, v.dt)
	in, slower := float64(inTime), 1.0
	for k := range w.late {
		if w.late[k].add(math.Pow(keep, 1/slower), missed, in, found); w.late[k].beyondNoise(suspectFrom, w.grain) {
			missed, in, found = 0, 0, 0 // a slower window is for what a faster one does not see, and must not outlast it
		}
		slower *= 3
	}
	if w.still += v.dt; f.Count > 0 {
		w.still = 0
	}
	w.done = keep*w.done + float64(f.Count)
	w.seconds = keep*w.seconds + v.dt.Seconds()
	w.taken = keep*w.taken + v.dt.Seconds()*v.s.Taken
	w.inFlight = keep*w.inFlight + float64(v.inFlight)
	w.others = keep*w.others + float64(v.inFlight-v.hogging)
	w.looks = keep*w.looks + 1
	w.delayed.add(v, keep)
	for len(w.lost) < v.r {
		w.lost = append(w.lost, 0)
	}
	for r := range w.lost {
		w.lost[r] *= keep
		if r < v.r {
			w.lost[r] += v.lostTo[r]
		}
	}
	w.past.add(v.s.At, float64(v.dt)/float64(window(objective, v.dt)), w)
}

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// throughput returns completions per second, flight the mean number in flight that hog
// nothing.
func (w *recent) throughput() float64 { return ratio(w.done, w.seconds) }
func (w *recent) flight() float64     { return ratio(w.others, w.looks) }

// left returns the part of the processors that others leave, of what they left in normal times.
func (n *normal) left(w *recent) float64 {
	return min(ratio(1-ratio(w.taken, w.seconds), 1-n.taken), 1)
}

// lateness counts the requests that met or missed the objective, each once. Of the late
// ones some stand for more, see seenLate; found counts those alone.
type lateness struct{ late, resolved, found float64 }

// lateWindows is how many windows look for late requests. The standard deviation of a
// share falls with the root of their number, so a longer window finds a smaller share,
// or the same among fewer requests.
const lateWindows = 3

func (l *lateness) add(keep, missed, inTime, found float64) {
	l.late, l.found = keep*l.late+missed, keep*l.found+found
	l.resolved = keep*l.resolved + missed + inTime
}

// beyondNoise reports whether more than lateAllowed are late, by more than a number
// of standard deviations of a count that is as rare as allowed. Those found are late for
// sure, and enough of them are enough. The estimate tells of more, and is noisier: it
// grows by grain at a time.
func (l *lateness) beyondNoise(deviations, grain float64) bool {
	beyond := func(late, resolved, grain float64) bool {
		allowed := lateAllowed * resolved
		return late > allowed+deviations*math.Sqrt(grain*allowed)
	}
	return l.found > 1 && (beyond(l.found, l.resolved-l.late+l.found, 1) || beyond(l.late, l.resolved, grain))
}

// A suspicion begins two deviations above what is allowed, because it costs
// little: it only makes the engine look for a culprit, which must then be clear
// and confirmed. It ends at one, so that a count near the line does not end it
// with every other sample.
const (
	suspectFrom  = 2
	suspectUntil = 1
)

// stuckVictims is how many late tasks that wait are a sign of trouble. One that
// waits for one holder is an even exchange: cancelling the holder to save it
// would gain nothing.
const stuckVictims = 2

// missed reports whether the foreground misses its objective: by what ended, or
// by the age of what does not end. before tells that the previous sample said so.
func missed(v *view, w *recent, before bool) bool {
	deviations := float64(suspectFrom)
	if before {
		deviations = suspectUntil
	}
	for k := range w.late {
		if w.late[k].beyondNoise(deviations, w.grain) {
			return true
		}
	}
	return v.stuck >= stuckVictims
}

// grown is how much of normal times a baseline is learned from that throughput can be said to
// have risen from: counters of servers lag by a second or more, so a younger one is too low where
// the load has just begun.
const grown = 3 * settled

// flat reports whether throughput is flat or falling: not above the baseline by
// more than twice its noise. Without a baseline there is nothing it could have
// risen from.
func (n *normal) flat(throughput float64) bool {
	return n.seen < grown || throughput <= n.throughput+2*n.noise
}

// standstill is how many completions must be missing, at the usual rate, for that to be no chance:
// at random so many are missing once in a thousand times, e^-7.
const standstill = 7

// stands reports whether nothing ends any more, whatever ended shortly before.
func (n *normal) stands(w *recent) bool {
	return n.left(w)*n.throughput*w.still.Seconds() >= standstill
}

// falling reports whether throughput is below the baseline by more than noise, or nothing has ended
// for longer than by chance: a baseline of few or bursty requests has more noise than height. A server whose processors others
// take does as much less, through no fault of a task.
func (n *normal) falling(w *recent) bool {
	return n.seen == 0 || w.throughput() < n.left(w)*(n.throughput-2*n.noise) || n.stands(w)
}
