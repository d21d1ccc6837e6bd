package placement

import "math"

// Round decides how long a broker is measured: until chance no longer explains on which side of its
// objective it is. Rounds of a fixed length, 60 s in section 6.5, take most of the time
// of a placement.
//
// Messages that arrive together are late together, so what is counted is bursts: n messages of which
// some were late. The zero value is a round that begins.
type Round struct {
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
	r.bursts++
	r.messages, r.late = r.messages+n, r.late+l
	r.latenessSquare, r.cross, r.size = r.latenessSquare+l*l, r.cross+l*n, r.size+n*n
}

// Verdict says whether no more than P99 of the messages are late, and whether that is sure. To what was
// seen a burst of mean size is added, half of it late: without it a round in which
// nothing was late yet would be sure at once.
func (r *Round) Verdict() (met, sure bool) {
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
