package bed

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// mix is the finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): small
// numbers in, large ones far apart out.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// below is the number of a request that is made for the k-th target of the i-th step
// of another one.
func below(id uint64, i, k int) uint64 { return mix(id ^ mix(uint64(i)<<32|uint64(k)|1<<63)) }

// draw returns what the i-th step of a request takes: the same under every policy.
func draw(d *world.Draw, id uint64, i int) time.Duration {
	chance := rand.New(rand.NewPCG(id, uint64(i)))
	mean := float64(d.Mean)
	switch d.Shape {
	case world.Exponential:
		mean *= chance.ExpFloat64()
	case world.Pareto:
		mean *= (d.Param - 1) / d.Param * math.Pow(1-chance.Float64(), -1/d.Param)
	case world.Lognormal:
		mean *= math.Exp(d.Param*chance.NormFloat64() - d.Param*d.Param/2)
	case world.Weighted:
		mean = float64(pick(d.Points, chance.Float64()))
		if d.Spread {
			mean *= chance.ExpFloat64()
		}
	}
	return time.Duration(min(mean, float64(time.Hour)))
}

// pick returns the point at which u of all weight is reached.
func pick(points []world.Point, u float64) time.Duration {
	u *= weight(points)
	for _, p := range points {
		if u -= p.Weight; u < 0 {
			return p.Value
		}
	}
	return points[len(points)-1].Value
}

func weight(points []world.Point) (all float64) {
	for _, p := range points {
		all += p.Weight
	}
	return all
}
