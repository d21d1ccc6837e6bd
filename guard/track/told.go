package track

import (
	"math"
	"time"
)

// Told estimates what has ended since the look before by a counter that moves at once, and with a part of what ends only, such
// as the transactions that write: counters of all lag by a second. The zero value is ready.
type Told struct {
	counter      uint64
	known        bool
	ended, moved float64 // lately, which is some ten seconds
}

// telling is how often the counter must have moved lately for its part of what ends to be known to a tenth: a count of n
// at random is off by √n.
const telling = 100

// Add enters the counter at a look, and what the server's other counters say has ended in the time since the look before, which
// it returns as long as the first one tells too little.
func (t *Told) Add(dt time.Duration, counter, completed uint64) float64 {
	moved := float64(counter - min(t.counter, counter))
	if t.counter = counter; !t.known || dt <= 0 {
		t.known = true
		return float64(completed)
	}
	keep := math.Exp(-float64(dt) / float64(costLearning))
	t.ended, t.moved = keep*t.ended+float64(completed), keep*t.moved+moved
	if t.moved < telling {
		return float64(completed)
	}
	return moved * t.ended / t.moved
}
