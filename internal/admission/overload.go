package admission

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// refusalCost is the processor time that a refusal costs: 17 µs for a call that an
// interceptor of grpc-go refuses, and what its client costs. A server whose
// requests take less than twice that gains nothing by refusing some. See also SetRefusal.
const refusalCost = 20 * time.Microsecond

const (
	// decideEvery is after how many departures it is decided anew what a wait is worth.
	decideEvery = 16
	// refusedMuch is the share of refusals that is an overload, and no burst.
	refusedMuch = 0.15
)

// overload is 1 if many requests are refused or the queue stands for long, and 0 if few are
// refused and the queue runs empty now and then.
func (g *Gate) overload(now mono.Time) float64 {
	return g.overloadBy(now, g.demand.refused/refusedMuch)
}

// overloadBy is overload where refusals count for as much.
func (g *Gate) overloadBy(now mono.Time, refusals float64) float64 {
	return max(0, min(max(refusals, g.standing(now)), 1))
}

// overload is how far the gate is overloaded, from 0 to 1.
type overload struct {
	now float64
	// lasting is the part that goes on: the slots have no pauses. A burst of some objectives, with a pause behind it,
	// is an overload while it lasts, in which a shorter queue leaves the server idle in the pause.
	lasting float64
}

// of is what counts for a request. Where its caller leaves before an answer can be late, a longer queue in a burst costs
// nobody a late answer.
func (o overload) of(leaves bool) float64 {
	if leaves {
		return o.lasting
	}
	return o.now
}

// overloads is how far the gate is overloaded. Refusals count only as far as the slots have had no pauses, unless
// processors are shared: those have none, whatever the slots have.
func (g *Gate) overloads(now mono.Time) overload {
	all, lasts := g.overload(now), g.filled.sustained()
	o := overload{now: all, lasting: min(all, lasts)}
	if !g.limit.Sharing() {
		o.now = g.overloadBy(now, min(g.demand.refused/refusedMuch, lasts))
	}
	return o
}

// standing is above 0 if for longer than an objective a request would have had to wait, and 1 after two.
func (g *Gate) standing(now mono.Time) float64 {
	return float64(now.Sub(g.demand.idle))/float64(g.cfg.Objective) - 1
}

// decide decides anew what a wait is worth, every few events.
func (g *Gate) decide(now mono.Time) {
	if g.undecided++; g.undecided < decideEvery && g.worth.count >= decideEvery && !g.worth.outdated(&g.pace) {
		return
	}
	g.undecided = 0
	if g.demand.sunk > 0 {
		// Services further up hold requests back if they see this one's queue.
		g.limit.SetOrdered(true)
	}
	load := 0.0
	if g.demand.between > 0 {
		load = g.pace.gap.value / g.demand.between
	}
	// One wait in a hundred is then longer than promised by so much that it ends with a
	// refusal. While processors are short, a late start or refusal waits for one once more on
	// its way out.
	deviations := 3.0
	if g.limit.Useful() > 0 {
		deviations = 4
	}
	g.worth.refresh(&g.pace, load, deviations, g.overloads(now))
}

// tolerated is the share of the arrivals that is worth refusing, for the queue not
// to run empty. At an offered load of 1+y, a server whose queue may hold n requests
// idles for about y/(exp(ny)−1) of its time, and spends c·y on refusals of c
// services each. The sum is least at ny = 1.8·ln(1/2c), within a tenth for c from
// 0.01 to 0.5. With two slots and exponential times, at twice the capacity, that
// is 5 % of the goodput (simulation).
//
// The upstream work already spent on a request counts as a cost of its refusal: far down a
// call graph, requests are better held back at the entry.
func (g *Gate) tolerated() float64 {
	refusal := refusalCost
	switch {
	case g.cpu.refusal > 0:
		refusal = g.cpu.refusal
	case g.limit.Useful() > 0:
		refusal = sparseRefusalTime
	}
	cost := (float64(refusal) + g.demand.sunk) / g.pace.gap.value // infinite before the first departure
	ny := 1.8 * math.Log(0.5/cost)
	if !(ny > 0) {
		return 0
	}
	n := max(float64(min(g.cfg.MaxDelay, g.worth.strict))/g.pace.gap.value, ny)
	return ny / (n + ny)
}
