package slots

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// discipline is a server that works on the requests in it: on the k oldest, each at full speed, or
// on all of them, who share so many processors. Then each takes as long as after, wherever the others are.
type discipline struct{ workers, processors, after float64 }

// speed returns how fast it works on each of the n that it has not done with, and on how many of the oldest.
func (d discipline) speed(n int) (speed float64, served int) {
	switch {
	case d.workers > 0:
		return 1, min(n, int(d.workers))
	case float64(n) > d.processors:
		return d.processors / float64(n), n
	}
	return 1, n
}

// asked is a request in a server, in the order of arrival; left is what is to be worked on it, and over
// when it ends, once that is none.
type asked struct{ left, began, found, over float64 }

// settled plays Poisson arrivals at the rates, each for so many completions, and returns after how many
// of them the ranks make a line certain, 0 if never, and how far they reach.
func settled(d discipline, draw func(*rand.Rand) float64, seed uint64, each int, rates ...float64) (after int, reach float64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	var c calm
	var all, worked []*asked
	now, done := 0.0, 0
	for _, rate := range rates {
		arrival := now + rng.ExpFloat64()/rate
		for end := done + each; done < end; {
			worked = worked[:0]
			next, ends := arrival, -1
			for i, a := range all {
				if a.left > 0 {
					worked = append(worked, a)
				} else if a.over <= next {
					next, ends = a.over, i
				}
			}
			speed, served := d.speed(len(worked))
			var first *asked
			for _, a := range worked[:served] {
				if at := now + a.left/speed; at <= next {
					next, ends, first = at, -1, a
				}
			}
			for _, a := range worked[:served] {
				a.left -= (next - now) * speed
			}
			now = next
			switch {
			case first != nil:
				first.left, first.over = 0, now+d.after
			case ends < 0:
				all = append(all, &asked{left: draw(rng), began: now, found: float64(len(all) + 1)})
				arrival = now + rng.ExpFloat64()/rate
			default:
				a, ran := all[ends], float64(len(all))
				all = slices.Delete(all, ends, ends+1)
				if done++; c.end(ends+1, ran, a.found, now-a.began) {
					return done, c.reach
				}
			}
		}
	}
	return 0, c.reach
}

// TestALineShowsInCalm: below its capacity a server with a line behind its workers shows it, by
// what ends while more run than the workers are. What has none is taken for one only where more
// that run are of no use.
func TestALineShowsInCalm(t *testing.T) {
	exponential := func(r *rand.Rand) float64 { return r.ExpFloat64() }
	uniform := func(r *rand.Rand) float64 { return 0.5 + r.Float64() }
	nearly := func(r *rand.Rand) float64 { return 1 + 0.01*r.Float64() }
	rare := func(r *rand.Rand) float64 {
		if r.IntN(100) == 0 {
			return 50
		}
		return 0.5
	}
	bimodal := func(r *rand.Rand) float64 {
		if r.IntN(5) == 0 {
			return 4
		}
		return 0.25
	}
	for _, tt := range []struct {
		name   string
		server discipline
		draw   func(*rand.Rand) float64
		rates  []float64
		within int     // completions, 0: never
		reach  float64 // where it is certain: at least
	}{
		{"8 workers, exponential", discipline{workers: 8}, exponential, []float64{5.6}, 2500, 8},
		{"8 workers, bimodal", discipline{workers: 8}, bimodal, []float64{5.6}, 2500, 8},
		{"2 workers, exponential", discipline{workers: 2}, exponential, []float64{1.4}, 2500, 2},
		{"40 workers, exponential", discipline{workers: 40}, exponential, []float64{36}, 8000, 38},
		{"8 workers, nearly equal times", discipline{workers: 8}, nearly, []float64{5.6}, 0, 0},
		{"as many as come", discipline{workers: 1e6}, exponential, []float64{5.6, 20}, 0, 0},
		{"as many as come, some of them long", discipline{workers: 1e6}, rare, []float64{5.6, 20}, 0, 0},
		{"4 processors, exponential", discipline{processors: 4}, exponential, []float64{2, 3.6}, 0, 0},
		{"4 processors, uniform", discipline{processors: 4}, uniform, []float64{2, 3.6}, 40_000, 4},
		{"4 processors, nearly equal times", discipline{processors: 4}, nearly, []float64{2, 3.6}, 0, 0},
		{"4 connections, then elsewhere for thrice as long", discipline{workers: 4, after: 3}, exponential, []float64{1.6, 2}, 0, 0},
		{"a lock for a thirtieth of the time", discipline{workers: 1, after: 30}, nearly, []float64{0.5, 0.7}, 0, 0},
		{"one processor, bimodal", discipline{processors: 1}, bimodal, []float64{0.5, 0.95}, 40_000, 2},
	} {
		for seed := range uint64(10) {
			after, reach := settled(tt.server, tt.draw, seed, 20_000, tt.rates...)
			if tt.within == 0 && after > 0 || tt.within > 0 && (after == 0 || after > tt.within || reach < tt.reach) {
				t.Errorf("%s, seed %d: a line is certain after %d completions, up to %v, want within %d (0: never) and at least %v", tt.name, seed, after, reach, tt.within, tt.reach)
			}
		}
	}
}
