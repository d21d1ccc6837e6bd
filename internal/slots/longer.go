package slots

import "math"

// longer tells whether requests that find more running take longer, in proportion: behind k in service the n-th takes
// n/k of a service time. Requests may end in order although none waits for another, because the first of several
// stages lets few through at a time while the others take as long for each. Ranks then reach no further than through
// the first stage, and most of what runs is beyond.
type longer struct{ count, found, took, foundFound, foundTook, tookTook float64 }

const (
	// inLine is the elasticity of the residence in the number found from which on requests may be in line. It is 1 in
	// a line, and half where a first stage of several is busy for little more than half of the time.
	inLine = 0.7
	// longerLeast is how many requests there must be to tell anything.
	longerLeast = 16
	// longerMemory is after how many requests older ones count half.
	longerMemory = 512
)

// add takes a request that found so many running, itself included, and took r ns.
func (l *longer) add(found, r float64) {
	if l.count >= longerMemory {
		l.halve()
	}
	l.count++
	l.found += found
	l.took += r
	l.foundFound += found * found
	l.foundTook += found * r
	l.tookTook += r * r
}

func (l *longer) halve() {
	l.count, l.found, l.took, l.foundFound, l.foundTook, l.tookTook = l.count/2, l.found/2, l.took/2, l.foundFound/2, l.foundTook/2, l.tookTook/2
}

// elasticity returns the relative growth of the residence for a relative growth of the number found, by linear
// regression at the mean, and its standard deviation.
func (l *longer) elasticity() (by, deviation float64) {
	found, took := l.found/l.count, l.took/l.count
	varied := l.foundFound/l.count - found*found
	if !(varied > 0) {
		return 0, math.Inf(1)
	}
	slope := (l.foundTook/l.count - found*took) / varied
	left := max(l.tookTook/l.count-took*took-slope*slope*varied, 0)
	return slope * found / took, math.Sqrt(left/varied/l.count) * found / took
}

// line reports whether the requests may be in line, as far as is known.
func (l *longer) line() bool {
	if l.count < longerLeast {
		return true
	}
	by, deviation := l.elasticity()
	return by+2*deviation >= inLine
}
