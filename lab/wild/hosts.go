package wild

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

// The bars beside the share of the best semaphore's goodput: late answers, and, where
// there is no overload, refusals and the median beside that without any policy.
const (
	lateCeiling    = 0.01
	refusedCeiling = 0.005
	medianCeiling  = 1.3
)

// scene is a described world of the table.
type scene struct {
	world *world.World
	// semaphores are limits that an operator might set by hand, the same at each gated service.
	semaphores []string
	// calm worlds have no overload: a refusal is a mistake.
	calm bool
	// first says that the first group of clients alone is judged.
	first bool
	// from and to, if above 0, bound the part that is judged apart.
	from, to time.Duration
	// weights, if above 0, is the weight of the first group beside 1 of the second.
	weights float64
}

// heard is one contender's run of a scene, without the warm-up.
type heard struct {
	offered, good, late, refused, part int
	p50, p99                           time.Duration
	ratio                              float64 // of the first two groups
}

func listen(s *scene, r *world.Report) heard {
	var h heard
	groups := r.Groups
	if s.first {
		groups = groups[:1]
	}
	for i := range groups {
		g := &groups[i]
		h.offered += g.Offered
		h.good += g.Good
		h.late += g.Late
		h.refused += g.Refused
		h.p99 = max(h.p99, g.P99)
	}
	h.p50 = r.Groups[0].P50
	for i, b := range r.Bins {
		if at := time.Duration(i) * r.Bin; at >= s.from && at < s.to {
			h.part += b.Good
		}
	}
	if len(r.Groups) > 1 {
		h.ratio = float64(r.Groups[0].Good) / float64(max(r.Groups[1].Good, 1))
	}
	return h
}

// finding is the worst of Spillgate over the seeds of a scene.
type finding struct {
	goodput, median, part, p99, late, refused, p50, ratioLeast, ratioMost, bare float64
	best                                                                        string // the semaphore that was best most often
}

// ponder compares Spillgate, the first of the policies, with the best semaphore of each
// seed. The second policy is none.
func ponder(s *scene, policies []string, reports []*world.Report) finding {
	f := finding{part: math.Inf(1), ratioLeast: math.Inf(1), bare: math.Inf(1)}
	var goodput []float64
	wins := make([]int, len(policies))
	for at := 0; at < len(reports); at += len(policies) {
		var all []heard
		for _, r := range reports[at : at+len(policies)] {
			all = append(all, listen(s, r))
		}
		mine, none := all[0], all[1]
		best, part := 2, 1
		for i := 2; i < len(all); i++ {
			if all[i].good > all[best].good {
				best = i
			}
			part = max(part, all[i].part)
		}
		wins[best]++
		of := float64(max(all[best].good, 1))
		goodput = append(goodput, float64(mine.good)/of)
		f.bare = min(f.bare, float64(none.good)/of)
		f.part = min(f.part, float64(mine.part)/float64(part))
		f.p99 = max(f.p99, float64(mine.p99)/float64(s.world.Objective))
		f.late = max(f.late, float64(mine.late)/float64(max(mine.good+mine.late, 1)))
		f.refused = max(f.refused, float64(mine.refused)/float64(max(mine.offered, 1)))
		f.p50 = max(f.p50, float64(mine.p50)/float64(max(none.p50, 1)))
		f.ratioLeast, f.ratioMost = min(f.ratioLeast, mine.ratio), max(f.ratioMost, mine.ratio)
	}
	slices.Sort(goodput)
	f.goodput, f.median = goodput[0], goodput[len(goodput)/2]
	f.best = policies[slices.Index(wins, slices.Max(wins))]
	return f
}

// bars adds what the finding is held to.
func (f *finding) bars(r *experiment.Result, s *scene) {
	name := s.world.Name
	r.Floor(name+": goodput", " of the best semaphore", floor, 0.03, f.goodput)
	r.Ceiling(name+": p99", " of the objective", 1, 0, f.p99)
	r.Ceiling(name+": late", " of the answers", lateCeiling, 0, f.late)
	if s.to > 0 {
		r.Floor(name+": goodput meanwhile", " of the best semaphore", changeFloor, 0.03, f.part)
	}
	if s.calm {
		r.Ceiling(name+": refused", " of the requests", refusedCeiling, 0, f.refused)
		r.Ceiling(name+": p50", " of that without a policy", medianCeiling, 0, f.p50)
	}
	if s.weights > 0 {
		r.Floor(name+": least part of the heavier", " for one", 0.9*s.weights, 0.1, f.ratioLeast)
		r.Ceiling(name+": most part of the heavier", " for one", 1.1*s.weights, 0.1, f.ratioMost)
	}
}

// take is one world to play.
type take struct {
	world  *world.World
	policy string
	seed   uint64
}

func runHosts(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	seeds, all := fullSeeds, scenes(o.Quick)
	if o.Quick {
		seeds = 2
	}
	var takes []take
	first := []int{0}
	policies := make([][]string, len(all))
	for i := range all {
		policies[i] = append([]string{contenders.Name, "none"}, all[i].semaphores...)
		for seed := range seeds {
			for _, p := range policies[i] {
				takes = append(takes, take{all[i].world, p, o.Seed + uint64(seed)})
			}
		}
		first = append(first, len(takes))
	}
	reports, err := experiment.Each(ctx, o, takes, func(t *take) (string, float64) { return t.world.Name, 0 },
		func(ctx context.Context, t *take) (*world.Report, error) {
			return worlds.Simulate(ctx, t.world, t.policy, t.seed)
		})
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Goodput beside the best semaphore, worst seed", Columns: []table.Column{{Name: "world"},
		{Name: "goodput", Unit: "of the best", Format: "%.3f"}, {Name: "in the median seed", Format: "%.3f"}, {Name: "meanwhile", Unit: "of the best", Format: "%.3f"},
		{Name: "p99", Unit: "of the objective", Format: "%.2f"}, {Name: "late", Unit: "of answers", Format: "%.4f"},
		{Name: "refused", Unit: "of offered", Format: "%.4f"}, {Name: "p50", Unit: "of that without", Format: "%.2f"},
		{Name: "without", Unit: "of the best", Format: "%.3f"}, {Name: "best semaphore"}}}
	for i := range all {
		f := ponder(&all[i], policies[i], reports[first[i]:first[i+1]])
		meanwhile, p50 := any("–"), any("–")
		if all[i].to > 0 {
			meanwhile = f.part
		}
		if all[i].calm {
			p50 = f.p50
		}
		t.Add(all[i].world.Name, f.goodput, f.median, meanwhile, f.p99, f.late, f.refused, p50, f.bare, f.best)
		if all[i].weights > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: the heavier workflow gets %.2f to %.2f for one of the other", all[i].world.Name, f.ratioLeast, f.ratioMost))
		}
		f.bars(r, &all[i])
	}
	r.Table = []*table.Table{t}
	return r, nil
}
