package placement

import "math"

// Round decides how long a broker is measured: until chance no longer explains on which side of its
// objective it is. Rounds of a fixed length, 60 s in section 6.5, take most of the time
// of a placement.
//
// Messages that arrive together are late together, so what is counted is bursts: n messages of which
// some were late. Bursts that are late one after the other count as one: near its capacity a broker is behind for many of
// them at a time, and each by itself would make a few such times look like many misses, or a time without them like a proof. Such times
// come close together, too, so the share of late messages is judged by how much it varies between stretches of all lengths (batch
// means). The zero value is a round that begins.
type Round struct {
	runMessages, runLate float64 // of the late bursts that have come since the last one in time
	bursts               int
	messages, late       float64
	scales               []scale // of stretches of 1, 2, 4 … bursts
}

// scale is what is known of stretches of one length.
type scale struct {
	stretches                   int
	messages                    float64 // in them
	latenessSquare, cross, size float64 // Σ late², Σ late·n, Σ n²
	half                        bool    // the first half of a stretch of the next scale is there
	halfMessages, halfLate      float64
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
	for i := 0; ; i++ {
		if i == len(r.scales) {
			r.scales = append(r.scales, scale{})
		}
		s := &r.scales[i]
		s.stretches++
		s.messages += n
		s.latenessSquare, s.cross, s.size = s.latenessSquare+late*late, s.cross+late*n, s.size+n*n
		if s.half = !s.half; s.half {
			s.halfMessages, s.halfLate = n, late
			return
		}
		n, late = n+s.halfMessages, late+s.halfLate
	}
}

// leastStretches is how many stretches of a length there must be to tell how much they vary. Of so few a quantile of
// Student's distribution is a third above that of the normal one; of n it is about 2.2/(n-1).
const (
	leastStretches = 8
	fewStretches   = 2.2
)

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
	deviation := 0.0
	for i := range r.scales {
		s := &r.scales[i]
		if i > 0 && s.stretches < leastStretches {
			break
		}
		square, cross, size := s.latenessSquare+mean*mean/4, s.cross+mean*mean/2, s.size+mean*mean
		of := math.Sqrt(max(0, square-2*share*cross+share*share*size)) / math.Sqrt(n*(s.messages+mean))
		if i > 0 {
			of *= 1 + fewStretches/float64(s.stretches-1)
		}
		deviation = max(deviation, of)
	}
	seen := r.late / r.messages
	met = seen <= P99
	return met, met && share+doubts*deviation <= P99 || !met && r.bursts >= leastBursts && share-doubts*deviation > P99
}

// leastBursts is how many bursts a miss must be seen in: of fewer the deviation is not known.
const leastBursts = 20
