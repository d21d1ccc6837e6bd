package mesh

import (
	"math"
	"sort"

	"github.com/spillgate/spillgate/internal/world"
)

// drawing is a distribution, ready to draw from.
type drawing struct {
	*world.Draw
	mean float64   // ns
	upTo []float64 // of the points: weights, summed up
}

func newDrawing(d *world.Draw) drawing {
	g := drawing{Draw: d, mean: float64(d.Mean)}
	if d.Shape == world.Weighted {
		sum, values := 0.0, 0.0
		for _, p := range d.Points {
			sum += p.Weight
			values += p.Weight * float64(p.Value)
			g.upTo = append(g.upTo, sum)
		}
		g.mean = values / sum
	}
	return g
}

// draw returns a time in nanoseconds.
func (d draws) draw(g *drawing) float64 {
	switch g.Shape {
	case world.Exponential:
		return g.mean * d.exp()
	case world.Pareto:
		return g.mean * (g.Param - 1) / g.Param * math.Pow(1-d.unit(), -1/g.Param)
	case world.Lognormal:
		// Box and Muller (1958).
		z := math.Sqrt(2*d.exp()) * math.Cos(2*math.Pi*d.of(drawTime, 1).unit())
		return g.mean * math.Exp(g.Param*z-g.Param*g.Param/2)
	case world.Weighted:
		u := d.unit() * g.upTo[len(g.upTo)-1]
		i := sort.Search(len(g.upTo)-1, func(i int) bool { return u < g.upTo[i] })
		v := float64(g.Points[i].Value)
		if g.Spread {
			v *= d.of(drawTime, 1).exp()
		}
		return v
	}
	return g.mean
}
