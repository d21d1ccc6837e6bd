package wild

import (
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/worlds"
)

// Telling is a world of this package for those who ask what a change of the control
// core costs. Spillgate plays it by the policy of that name.
type Telling struct {
	World *world.World
	// Worth is what the change is judged by, in requests: those answered in time in the
	// part that is judged; of the polite clients alone beside a greedy one; what is in
	// proportion where workflows have weights.
	Worth func(*world.Report) float64
}

// Tell returns a selection of the worlds of wild/single, wild/greedy and wild/hosts in
// which different parts of the core decide: one or two of each kind, the cheap ones.
func Tell() []Telling {
	var all []Telling
	names := map[string]bool{
		"constant service of 50 % of the objective, 2x": true, "exponential service of 20 % of the objective, 2x": true,
		"exponential service of 75 % of the objective, 2x": true, "callers wait for ever, 3x": true,
		"1 % of the requests take 100 times as long, 2x": true, "Pareto 1.5, 3x": true, "8 long polls of 2s beside 0.5x": true,
		"4 times slower for 6 s, 0.7x": true, "10 times slower for 6 s, 0.7x": true, "0.3x with 100 ms of 5x each second": true,
		"all stops for 150 ms every 2 s, 0.8x": true,
	}
	for _, r := range rows(false) {
		if names[r.name] {
			all = append(all, first(r))
		}
	}
	unknowing := steady("plain clients, exponential service of 20 % of the objective, 2x", base(200*ms, 40*ms, worlds.Exponential, 2), 1)
	unknowing.world.Clients[0].Kind = world.Plain
	all = append(all, first(unknowing))
	polite := func(r *world.Report) float64 { return float64(r.Groups[0].Good) }
	one := greedy{20 * ms, 0.5, 10}
	obeys, floods := one.world(world.Credits), one.world(world.Greedy)
	for _, w := range []*world.World{obeys, floods} {
		w.Warmup, w.Length = 2*time.Second, 6*time.Second
	}
	obeys.Name, floods.Name = "greedy, "+one.String()+", it obeys", "greedy, "+one.String()+", it floods"
	all = append(all, Telling{obeys, polite}, Telling{floods, polite})
	scenes := []scene{shared(1, 0.7), shared(1, 1.2), sharedLoop(1), retries(), fanOut(), ramp()}
	for _, s := range append(scenes, contention(true)...) {
		all = append(all, Telling{brief(s), between(s.from, s.to)})
	}
	return append(all, Telling{brief(weighted(world.Credits)), func(r *world.Report) float64 {
		return 4 * min(float64(r.Groups[0].Good)/3, float64(r.Groups[1].Good))
	}})
}

// first is a row's world up to the end of the first part that is judged, and no longer than
// shorter where it is steady.
func first(r row) Telling {
	part := r.judged[0]
	if r.world.Length = part.to; len(r.changes) == 0 {
		part.to, r.world.Length = shorter, shorter
	}
	return Telling{r.world, between(part.from, part.to)}
}

// shorter is how long a steady world is played.
const shorter = 8 * time.Second

// brief is the world of a scene, shorter where no part of it is judged apart.
func brief(s scene) *world.World {
	if s.to == 0 {
		s.world.Warmup, s.world.Length = 2*time.Second, 5*time.Second
	}
	return s.world
}

// between counts the answers in time from one time to another, or, if both are 0, after
// the warm-up.
func between(from, to time.Duration) func(*world.Report) float64 {
	return func(r *world.Report) float64 {
		sum := 0
		if to == 0 {
			for i := range r.Groups {
				sum += r.Groups[i].Good
			}
			return float64(sum)
		}
		for i, b := range r.Bins {
			if at := time.Duration(i) * r.Bin; at >= from && at < to {
				sum += b.Good
			}
		}
		return float64(sum)
	}
}
