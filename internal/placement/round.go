package placement

import "math"

// Round decides how long a broker is measured: until chance no longer explains on which side of its
// objective it is. Rounds of a fixed length, 60 s in section 6.5, take most of the time
// of a placement.
//
// Messages that arrive together are late together, so what is counted is bursts: n messages of which
// some were late. Bursts that are late one after the other count as one: near its capacity a broker is behind for many of
// them at a time, and each by itself would make a few such times look like many misses, or a time without them like a proof. The zero
// value is a round that begins.
type Round struct {
	runMessages, runLate        float64 // of the late bursts that have come since the last one in time
	bursts                      int
	messages, late              float64
	latenessSquare, cross, size float64 // Σ late², Σ late·n, Σ n²
}

// doubts is how many standard deviations of the share of late messages make a verdict
// sure: about one in a hundred is wrong.
const doubts = 2.3

// Burst enters messages that came together, late of which missed the objective.
func (r *Round) Burst(messages, late int) {
	n, l := float64(messages), float64(late)
	if late > 0 {
		r.runMessages, r.runLate = r.runMessages+n, r.runLate+l
		return
	}
	r.end()
	r.count(n, 0)
}

// end counts the run of late bursts.
func (r *Round) end() {
	if r.runLate > 0 {
		r.count(r.runMessages, r.runLate)
		r.runMessages, r.runLate = 0, 0
	}
}

func (r *Round) count(n, late float64) {
	r.bursts++
	r.messages, r.late = r.messages+n, r.late+late
	r.latenessSquare, r.cross, r.size = r.latenessSquare+late*late, r.cross+late*n, r.size+n*n
}

// Verdict says whether no more than P99 of the messages are late, and whether that is sure. To what was
// seen a burst of mean size is added, half of it late: without it a round in which
// nothing was late yet would be sure at once. It ends the run of late bursts, so a verdict
// that is asked for after every burst counts each by itself.
func (r *Round) Verdict() (met, sure bool) {
	r.end()
	if r.bursts == 0 {
		return true, false
	}
	mean := r.messages / float64(r.bursts)
	n, late := r.messages+mean, r.late+mean/2
	share := late / n
	square, cross, size := r.latenessSquare+mean*mean/4, r.cross+mean*mean/2, r.size+mean*mean
	deviation := math.Sqrt(max(0, square-2*share*cross+share*share*size)) / n
	seen := r.late / r.messages
	met = seen <= P99
	return met, met && share+doubts*deviation <= P99 || !met && r.bursts >= leastBursts && share-doubts*deviation > P99
}

// leastBursts is how many bursts a miss must be seen in: of fewer the deviation is not known.
const leastBursts = 20
