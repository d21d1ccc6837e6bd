package placement

import (
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// step is what a broker reported at once.
type step struct {
	at                        mono.Time
	span, n, backlog, waiting float64 // a span of 0 is of the one in which traffic began
}

// idle reports whether nothing arrived at a broker in the window.
func (b *adapted) idle(now mono.Time, window time.Duration) bool {
	for _, s := range b.steps {
		if now.Sub(s.at) < window && (s.n > 0 || s.span == 0) {
			return false
		}
	}
	return true
}

// seen returns the rate of a broker in the window, in messages a second, its largest backlog, and how many whole steps
// there are.
func (b *adapted) seen(now mono.Time, window time.Duration) (rate, burst float64, steps int) {
	span := 0.0
	for _, s := range b.steps {
		if now.Sub(s.at) < window {
			rate, span = rate+s.n, span+s.span
			burst = max(burst, s.backlog)
			if s.span > 0 {
				steps++
			}
		}
	}
	if span > 0 {
		rate /= span
	}
	return rate, burst, steps
}

// moved reports whether the last step of a broker is no chance, by its window: by the middle of its steps and by how far these are
// from it, which are those of before until half of the window is after the shift. Publishers that fire together
// make a count vary by more than a Poisson one does.
func (a *Adaptor) moved(now mono.Time, b *adapted) bool {
	last, ok := b.last()
	if !ok || last.span <= 0 {
		return false
	}
	mean, vary := b.usual(now, a.cfg.Window)
	mean, vary = mean*last.span, vary*last.span
	return math.Abs(last.n-mean) > max(sure*math.Sqrt(mean), seldom*vary, a.cfg.Change*mean)
}

// usual returns the middle of the rates of a broker's steps, and their standard deviation by how far half of them are from it.
func (b *adapted) usual(now mono.Time, window time.Duration) (rate, vary float64) {
	var rates [maxSteps]float64
	n := 0
	for _, s := range b.steps {
		if now.Sub(s.at) < window && s.span > 0 {
			rates[n] = s.n / s.span
			n++
		}
	}
	rate = median(rates[:n])
	for i := range n {
		rates[i] = math.Abs(rates[i] - rate)
	}
	return rate, normal * median(rates[:n])
}

// normal is the standard deviation of a normal distribution by the distance within which half of it is.
const normal = 1.4826

// median returns the middle of all, the lower of two, or 0; it sorts them.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

const (
	// sure is how many deviations of a Poisson count are no chance: 4 are one in 16,000.
	sure = 4
	// seldom is the same of the deviation that ten steps have shown, one in 370. That is found wrong by a third, so with 4 of them
	// a topic whose traffic moves by nine tenths would not be sure to be noticed.
	seldom = 3
)

// last returns the last step of a broker, if there is any.
func (b *adapted) last() (step, bool) {
	if len(b.steps) == 0 {
		return step{}, false
	}
	return b.steps[(b.next+len(b.steps)-1)%len(b.steps)], true
}
