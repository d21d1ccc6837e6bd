package culpritsim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// lost returns how many of the requests that come from the onset on no gate could have answered in time, given that the culprit
// lets go so long after the onset: the workers that it leaves serve the same requests in the order in which they came, and pass over each that would be late, whose
// length they know. To pass over none would make others late for it.
func (g *gateRun) lost(letsGo time.Duration) (n int) {
	type request struct{ came, needs time.Duration }
	var line []request
	var ends []time.Duration // of the workers that are busy
	arrivals := gateSim{gateRun: *g, rng: rand.New(rand.NewPCG(g.seed, gateStream))}
	serve := func(now time.Duration) {
		workers := gateWorkers
		if now >= gateOnset && now < gateOnset+letsGo {
			workers = g.leaves
		}
		for len(ends) < workers && len(line) > 0 {
			r := line[0]
			if line = line[1:]; now+r.needs <= r.came+gateObjective {
				ends = append(ends, now+r.needs)
			} else if r.came >= gateOnset {
				n++
			}
		}
	}
	for next, last := time.Duration(0), time.Duration(0); next < gateEnd; {
		now := next
		if len(ends) > 0 {
			now = min(now, slices.Min(ends))
		}
		if free := gateOnset + letsGo; last < free && free < now {
			now = free
		}
		last = now
		ends = slices.DeleteFunc(ends, func(end time.Duration) bool { return end <= now })
		if now == next {
			needs, gap := arrivals.draw(mono.Time(now))
			line = append(line, request{now, needs})
			next += gap
		}
		serve(now)
	}
	return n
}
