package mesh

import (
	"math"
)

// draws is the chance of one request, or of one call of it: a function, not a
// stream. What a call draws depends on its place in the request alone, so two
// controls compared on one seed meet the same work, whatever they refuse and in
// whichever order they run the rest.
type draws uint64

// Purposes of a call's draws. The low bits tell the calls of a step apart.
const (
	drawTime uint64 = iota << 32
	drawTimes
	drawSkip
	drawChild
	drawPick
	drawTenant
	drawPriority
	drawWorkflow
	drawRetry
	drawPhase
	drawTypical
	drawPatience
	drawChurn
)

// of derives the draws for a purpose; part tells like ones apart.
func (d draws) of(purpose uint64, part uint64) draws {
	return draws(mix(uint64(d) ^ mix(purpose+part)))
}

// unit returns a number in [0, 1).
func (d draws) unit() float64 { return float64(mix(uint64(d))>>11) / (1 << 53) }

// below returns a number in [0, n).
func (d draws) below(n int) int { return int(d.unit() * float64(n)) }

// exp returns an exponential number of mean 1.
func (d draws) exp() float64 { return -math.Log(1 - d.unit()) }

// time returns a service time in nanoseconds.
func (d draws) time(mean float64, shape Shape) float64 {
	switch shape {
	case ShapeFixed:
		return mean
	case ShapeBimodal:
		if d.unit() < 0.2 {
			return 4 * mean
		}
		return mean / 4
	}
	return mean * d.exp()
}

// mix is the finalizer of SplitMix64 (Steele et al., OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
