package wild

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

// anyWorlds is how many random worlds the full form plays, and quickWorlds the quick one.
// worstShown of them are listed.
const (
	anyWorlds, quickWorlds = 200, 12
	worstShown             = 15
)

// adaptive are the limits without tuning that are compared with Spillgate.
var adaptive = []string{"gradient2", "vegas", "aimd"}

// untuned returns the policies that are told nothing of a world, or no more than the objective.
func untuned(rivals ...string) []string {
	return append(append([]string{contenders.Name}, rivals...), "none")
}

// byHand returns the semaphores of which the best is chosen for a world in hindsight:
// told how many requests are worked on at a time and how long one takes, and, where
// processors are shared, some more.
func byHand(d *drawn) (names []string) {
	fits := int(float64(d.n) * float64(d.world.Objective) / float64(d.mean))
	limits := []int{d.n}
	if len(d.world.Hosts) > 0 {
		limits = []int{d.n, 2 * d.n, 4 * d.n}
	}
	for _, limit := range limits {
		for _, queue := range []int{0, d.n, 4 * d.n, fits / 4, fits / 2, fits} {
			if name := fmt.Sprintf("semaphore:%d:%d", limit, queue); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// standing is what one policy made of a random world, in parts of what the best
// semaphore did: late is its share of late answers beyond that of the semaphore,
// since some work takes longer than the objective whatever is done. idle says that the
// world needs no policy.
type standing struct {
	goodput, late, refused, p99 float64
	idle                        bool
}

// compare returns how the policies in front of the semaphores stand beside the best one, all clients
// together.
func compare(d *drawn, reports []*world.Report, untuned int) (stands []standing, best int) {
	var all []heard
	for _, r := range reports {
		all = append(all, listen(&d.scene, r))
	}
	best = untuned
	for i := untuned; i < len(all); i++ {
		if all[i].good > all[best].good {
			best = i
		}
	}
	late := func(h *heard) float64 { return float64(h.late) / float64(max(h.good+h.late, 1)) }
	top, none := &all[best], &all[untuned-1]
	for i := range all[:untuned] {
		h := &all[i]
		stands = append(stands, standing{
			goodput: float64(h.good) / float64(max(top.good, 1)),
			late:    max(late(h)-late(top), 0),
			refused: float64(h.refused) / float64(max(h.offered, 1)),
			p99:     float64(h.p99) / float64(d.world.Objective),
			idle:    float64(none.good) >= (1-refusedCeiling)*float64(none.offered),
		})
	}
	return stands, best
}

// kind is a kind of random worlds.
type kind struct {
	draw func(seed uint64) drawn
	// untuned are the policies that know nothing of the world, Spillgate first and none last;
	// tuned returns the semaphores of which the best is chosen.
	untuned []string
	tuned   func(*drawn) []string
}

// play draws worlds, plays each with every policy and compares.
func (k *kind) play(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	count := anyWorlds
	if o.Quick {
		count = quickWorlds
	}
	var all []drawn
	var takes []take
	first := []int{0}
	for i := range count {
		seed := o.Seed*anyWorlds + uint64(i)
		d := k.draw(seed)
		all = append(all, d)
		for _, p := range append(slices.Clone(k.untuned), k.tuned(&d)...) {
			takes = append(takes, take{d.world, p, seed})
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
	stands := make([][]standing, count) // of each world, by policy
	bests := make([]string, count)
	for i := range all {
		var best int
		stands[i], best = compare(&all[i], reports[first[i]:first[i+1]], len(k.untuned))
		bests[i] = takes[first[i]+best].policy
	}
	return k.tell(o, all, stands, bests), nil
}

// tell makes the tables and the bars.
func (k *kind) tell(o experiment.Options, all []drawn, stands [][]standing, bests []string) *experiment.Result {
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: fmt.Sprintf("%d random worlds: goodput beside the semaphore that is best for each in hindsight", len(all)),
		Columns: []table.Column{{Name: "policy"}, {Name: "worst", Format: "%.3f"}, {Name: "5th percentile", Format: "%.3f"},
			{Name: "25th", Format: "%.3f"}, {Name: "median", Format: "%.3f"}, {Name: "mean, at most 1 each", Format: "%.3f"},
			{Name: fmt.Sprintf("worlds below %v", floor)}, {Name: "late beyond the best, in the worst", Unit: "of answers", Format: "%.4f"}}}
	for p, name := range k.untuned {
		var shares []float64
		sum, below, late := 0.0, 0, 0.0
		for i := range all {
			s := stands[i][p]
			shares = append(shares, s.goodput)
			sum += min(s.goodput, 1) // or a few worlds in which the best does nothing make the mean
			late = max(late, s.late)
			if s.goodput < floor {
				below++
			}
		}
		slices.Sort(shares)
		at := func(q float64) float64 { return shares[int(q*float64(len(shares)-1))] }
		t.Add(name, shares[0], at(0.05), at(0.25), at(0.5), sum/float64(len(shares)), below, late)
		if p == 0 {
			r.Floor("goodput in the worst world", " of the best semaphore", changeFloor, 0.03, shares[0])
			r.Floor("goodput in 19 of 20 worlds", " of the best semaphore", floor, 0.03, at(0.05))
		}
	}
	most := standing{}
	for i := range all {
		most.late, most.p99 = max(most.late, stands[i][0].late), max(most.p99, stands[i][0].p99)
		if stands[i][0].idle {
			most.refused = max(most.refused, stands[i][0].refused)
		}
	}
	r.Ceiling("late in the worst world, beyond the best semaphore", " of the answers", lateCeiling, 0, most.late)
	r.Ceiling("refused in the worst world that needs no policy", " of the requests", refusedCeiling, 0, most.refused)
	r.Table = []*table.Table{t, k.worst(all, stands, bests)}
	return r
}

// worst lists the worlds in which Spillgate stands worst.
func (k *kind) worst(all []drawn, stands [][]standing, bests []string) *table.Table {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if stands[a][0].goodput < stands[b][0].goodput {
			return -1
		}
		return 1
	})
	t := &table.Table{Title: "Worlds in which Spillgate stands worst", Columns: []table.Column{{Name: "world"}, {Name: "goodput", Unit: "of the best", Format: "%.3f"},
		{Name: "best adaptive limit", Unit: "of the best", Format: "%.3f"}, {Name: "p99", Unit: "of the objective", Format: "%.2f"}, {Name: "refused", Unit: "of offered", Format: "%.3f"},
		{Name: "best semaphore"}, {Name: "what it is"}}}
	for _, i := range order[:min(worstShown, len(order))] {
		rival := 0.0
		for p := range k.untuned[1 : len(k.untuned)-1] {
			rival = max(rival, stands[i][1+p].goodput)
		}
		s := stands[i][0]
		t.Add(all[i].world.Name[strings.LastIndexByte(all[i].world.Name, ' ')+1:], s.goodput, rival, s.p99, s.refused, strings.TrimPrefix(bests[i], "semaphore:"), all[i].text)
	}
	return t
}

// randomExperiment is wild/random.
func randomExperiment() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wild/random",
		Title: "services whose numbers nobody chose, with only the objective set",
		About: fmt.Sprintf(`Each world is drawn from a seed: objective (%v to %v), service time (%v to %v of it) and its distribution, workers or
processors, who calls with how many clients, how long they wait and whether they try again, the load over time, and what
goes wrong. Beside it: adaptive limits that nobody tunes, as their authors set them, and a semaphore with a bounded queue that
is told the workers and the service time, the best of up to eighteen for each world in hindsight. The worst worlds are listed
with their seeds.`, leastObjective, mostObjective.Round(time.Second), leastService, mostService),
		Run: (&kind{anyWorld, untuned(adaptive...), byHand}).play,
	}
}
