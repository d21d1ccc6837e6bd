package admission

import "math"

// mean is a smoothed mean of positive values that gives up what it knows when the last
// few say that it has changed: a server can become ten times slower from one request to
// the next. Then it is the mean of those since. The zero mean knows nothing, and is 0.
type mean struct {
	value           float64
	count           float64 // values in it, up to meanMemory
	variation       float64 // the square of their coefficient of variation, of more values
	longer, shorter trend
}

// trend is the evidence of one change, and what came since it may have begun (Page's
// cumulative sum test).
type trend struct{ odds, sum, count float64 }

const (
	// meanMemory is over how many values a mean is smoothed.
	meanMemory = 128
	// changeBy is the factor of the change that is tested for: a smaller one is found later, below
	// its logarithm by the smoothing alone. For times as random as exponential ones the
	// evidence is the logarithm of the odds, and changeSure is reached by chance once in a
	// hundred thousand values at most.
	changeBy   = 3
	changeSure = 11.5
	// variationMemory is over how many values the variation is smoothed: many, for it must not
	// grow by the change itself. Times more random than exponential ones are so much less
	// evidence: of five times of which one is sixteen times as long as the others, 20 short
	// ones in a row are no rarity.
	variationMemory = 512
	// outlier is how many means, or parts of it, a value counts as evidence at most: no
	// single long request, nor two, are a change.
	outlier = 8
)

func (m *mean) add(x float64) {
	if m.count > 0 {
		r := max(1.0/outlier, min(x/m.value, outlier))
		m.variation += ((r-1)*(r-1) - m.variation) / variationMemory
		less := max(m.variation, 1)
		if m.longer.add(x, (r*(1-1.0/changeBy)-math.Log(changeBy))/less) {
			m.restart(m.longer)
			return
		}
		if m.shorter.add(x, (math.Log(changeBy)-r*(changeBy-1))/less) {
			m.restart(m.shorter)
			return
		}
	}
	m.count = min(m.count+1, meanMemory)
	m.value += (x - m.value) / m.count
}

func (m *mean) restart(t trend) {
	*m = mean{value: t.sum / t.count, count: t.count, variation: m.variation}
}

// add takes a value and what it says for the change. It reports whether that is certain.
func (t *trend) add(x, says float64) bool {
	if t.odds += says; t.odds <= 0 {
		*t = trend{}
		return false
	}
	t.sum, t.count = t.sum+x, t.count+1
	return t.odds >= changeSure
}

// multiply says that all values are so many times as large from now on.
func (m *mean) multiply(by float64) {
	m.value *= by
	m.longer.sum *= by
	m.shorter.sum *= by
}
