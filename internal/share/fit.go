package share

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// fitBins is how many bins the observed times have: twelve to a power of ten from
	// shortestWait on; the last also holds what is longer, some 17 minutes.
	fitBins      = 84
	binsPerTen   = 12
	shortestWait = 1e-4
	// fitRounds is how many rounds of expectation and maximisation one Update does.
	fitRounds = 8
	// fewLeft and someLeft are how many callers must have been seen to give up, within
	// memory, for a fit with one exponential and with two.
	fewLeft, someLeft = 4, 32
	// fitMemory is how many observations weigh: at twice as many all are halved.
	fitMemory = 1 << 16
	// leastWeight keeps a branch from dying out, from where it could not return.
	leastWeight = 0.01
)

// fitter learns the patience of callers from how long they waited until they gave
// up, and how long those waited who did not: of these only a lower bound is
// known, the observation is censored. Leaving them out would make callers look
// the more impatient the faster the server is.
//
// Two exponentials are fitted by expectation and maximisation on binned times,
// a bounded number of rounds an update, each starting from the last result. The
// zero fitter is ready; it takes 2 KiB.
type fitter struct {
	bins   [fitBins]bin
	seen   float64
	left   float64
	branch [2]Branch
	began  bool
}

// bin counts the observations of about one length.
type bin struct{ left, stayed, time float64 }

// Left says that a caller gave up after this time. A request's deadline is the
// same, whatever became of it: it says how long the caller would have waited.
func (f *fitter) Left(wait time.Duration) { f.add(wait, true) }

// Stayed says that a caller was served after waiting this long.
func (f *fitter) Stayed(wait time.Duration) { f.add(wait, false) }

func (f *fitter) add(wait time.Duration, left bool) {
	x := mono.Seconds(max(wait, 0))
	k := 0
	if x > shortestWait {
		k = min(int(math.Log10(x/shortestWait)*binsPerTen)+1, fitBins-1)
	}
	b := &f.bins[k]
	b.time += x
	if left {
		b.left++
		f.left++
	} else {
		b.stayed++
	}
	if f.seen++; f.seen >= 2*fitMemory {
		for i := range f.bins {
			b := &f.bins[i]
			b.left, b.stayed, b.time = b.left/2, b.stayed/2, b.time/2
		}
		f.seen, f.left = f.seen/2, f.left/2
	}
}

// Update improves the fit. It does a bounded amount of work, under 0.1 ms,
// and is meant to be called once a second.
func (f *fitter) Update() {
	if f.left < fewLeft {
		f.began = false
		return
	}
	time := 0.0
	for _, b := range f.bins {
		time += b.time
	}
	overall := f.left / max(time, shortestWait)
	if f.left < someLeft {
		f.began, f.branch = false, [2]Branch{{1, overall}, {}}
		return
	}
	if !f.began {
		f.began, f.branch = true, [2]Branch{{0.5, overall / 3}, {0.5, max(f.hurry(), overall*3)}}
	}
	for range fitRounds {
		f.round()
	}
}

// hurry is the rate of the callers that gave up soonest, a quarter of all. Rounds begin from
// there: where times vary little inside each kind, as deadlines do, kinds that
// begin too near to each other fall together.
func (f *fitter) hurry() float64 {
	left, time := 0.0, 0.0
	for _, b := range f.bins {
		if b.left > 0 {
			left += b.left
			time += b.left * b.time / (b.left + b.stayed)
		}
		if left >= f.left/4 {
			break
		}
	}
	return left / max(time, shortestWait)
}

// round is one expectation, whose kind each observation is, and one maximisation.
// How much longer those who stayed would have waited is not part of what is
// filled in, because the rate that follows from time and departures alone is
// the same in the end and is reached in fewer rounds.
func (f *fitter) round() {
	var members, left, time [2]float64
	for _, b := range f.bins {
		n := b.left + b.stayed
		if n == 0 {
			continue
		}
		x := b.time / n
		var stays, leaves [2]float64
		for i, br := range f.branch {
			// Relative to the slower branch, or both could vanish.
			stays[i] = br.Weight * math.Exp(-(br.Rate-f.branch[0].Rate)*x)
			leaves[i] = stays[i] * br.Rate
		}
		for i := range f.branch {
			l := b.left * leaves[i] / (leaves[0] + leaves[1])
			s := b.stayed * stays[i] / (stays[0] + stays[1])
			members[i] += l + s
			left[i] += l
			time[i] += (l + s) * x
		}
	}
	for i := range f.branch {
		weight := members[i] / (members[0] + members[1])
		f.branch[i] = Branch{
			Weight: min(max(weight, leastWeight), 1-leastWeight),
			Rate:   min(max(left[i], 1e-9)/max(time[i], 1e-9), 1/shortestWait),
		}
	}
	if f.branch[0].Rate > f.branch[1].Rate {
		f.branch[0], f.branch[1] = f.branch[1], f.branch[0]
	}
}

// Patience returns the fit, slower branch first; nil while too few callers gave up
// to tell, which is also right when hardly any do. It is valid until the next call
// of Update.
func (f *fitter) Patience() Patience {
	switch {
	case f.left < fewLeft || f.branch[0].Rate == 0:
		return nil
	case !f.began:
		return f.branch[:1]
	}
	return f.branch[:2]
}
