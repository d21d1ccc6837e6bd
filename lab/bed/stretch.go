package bed

import (
	"slices"
	"time"
)

// Request is what became of one request of a group.
type Request struct {
	// At is when it was meant to leave, since the run began, Took the time from then to
	// the end.
	At   time.Duration `json:"a"`
	Took time.Duration `json:"t"`
	How  How           `json:"h"`
}

// How is how a request ended, as world.Counts tells the ways apart.
type How uint8

// RefusedBelow requests were refused by a service that the one asked had called.
const (
	Good How = iota
	Late
	Refused
	RefusedBelow
	Expired
	Failed
	numHow
)

// Stretch is what became of the requests of a group that were meant to leave in a part of
// a run.
type Stretch struct {
	Offered int
	By      [numHow]int
	// Mean, P50, P95 and P99 are of those that were answered, late or not; 0 if none was.
	Mean, P50, P95, P99 time.Duration
}

// Answered is how many were answered, late or not.
func (s *Stretch) Answered() int { return s.By[Good] + s.By[Late] }

// Share is how many of those offered ended so, 0 if none was offered.
func (s *Stretch) Share(how How) float64 { return float64(s.By[how]) / float64(max(s.Offered, 1)) }

// StretchOf returns a part of some runs of a world, as its groups of these numbers saw it.
func StretchOf(runs []*Played, from, to time.Duration, groups ...int) Stretch {
	var s Stretch
	var took []time.Duration
	var sum time.Duration
	for _, p := range runs {
		for _, i := range groups {
			for _, r := range p.Requests[i] {
				if r.At < from || r.At >= to {
					continue
				}
				s.Offered++
				s.By[r.How]++
				if r.How <= Late {
					took = append(took, r.Took)
					sum += r.Took
				}
			}
		}
	}
	if n := len(took); n > 0 {
		slices.Sort(took)
		s.Mean, s.P50, s.P95, s.P99 = sum/time.Duration(n), quantile(took, 0.5), quantile(took, 0.95), quantile(took, 0.99)
	}
	return s
}

// Stretch returns a part of what group number i made of the run.
func (p *Played) Stretch(i int, from, to time.Duration) Stretch {
	return StretchOf([]*Played{p}, from, to, i)
}
