package slots

import (
	"math"
	"time"
)

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
