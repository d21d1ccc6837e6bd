package culprit

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// intake says what of a queue tasks use in normal times, so that one that takes a part of it can be told from demand that has grown. Where a
// task has kept units for unusually long, since just before the objective was missed, and fewer requests end than before, by the noise of that, what the
// others lack is what it took of the units that are free in normal times:
//
//	units ├── normal use ──┬────── free in normal times ──────┤
//	then  ├─ the others ───────────┬── what the task keeps ───┤   blame: kept ÷ free in normal times
//
// In an overload as many requests end as before, and a task that kept its units while the objective was met harmed none, but for the time
// that a backlog takes: where a tenth less ends than comes, a request waits for an objective after ten of them.
type intake struct {
	normal []float64 // units in use in normal times, by resource; nil: it does not count
	usual  []float64 // use by a task, by resource
	since  mono.Time // before that the objective was met
}

// longestBacklog is how many objectives a backlog takes at most until requests are late: one that takes longer has another cause
// than a task that keeps a unit or more of a pool.
const longestBacklog = 20

// intake returns what is normal, nothing if that does not explain what happens.
func (e *Engine) intake() intake {
	n := &e.normal
	now, left := e.recent.throughput(), n.left(&e.recent)*n.throughput
	if n.seen < settled || now >= left || now > left-n.left(&e.recent)*n.noise {
		return intake{}
	}
	builds := float64(e.cfg.Objective) * min(left/(left-now), longestBacklog)
	return intake{n.held, n.usual, e.met.Add(-2*window(e.cfg.Objective, e.view.dt) - time.Duration(builds))}
}

// takes reports whether a hold is of a queue, unusually long and new.
func (in *intake) takes(v *view, i int) bool {
	h := &v.s.Holds[i]
	r := int(h.Resource)
	return r < len(in.normal) && v.s.Resources[r].Kind == Queue && h.HeldSince != Unset && h.HeldSince >= in.since && v.uses[i].sofar > rare*in.usual[r]
}

// takes has those that take units out of normal use keep from the others their part of what is free in normal times, and
// the others the rest.
func (g *graph) takes(v *view, in intake) {
	if in.normal == nil {
		return
	}
	g.taken = resized(g.taken, v.r)
	for i := range v.s.Holds {
		if in.takes(v, i) {
			g.taken[v.s.Holds[i].Resource] += v.uses[i].now
		}
	}
	for i := range v.s.Holds {
		r := int(v.s.Holds[i].Resource)
		taken := g.taken[r]
		if taken == 0 || g.queued[r].edges {
			continue
		}
		whole := g.queued[r].whole(v, r)
		free := max(whole-min(in.normal[r], g.queued[r].used-taken), taken)
		if at := int(v.s.Holds[i].Task)*v.r + r; in.takes(v, i) {
			g.keeps[at] *= whole / free
		} else if whole > taken {
			g.keeps[at] *= (1 - taken/free) / (1 - taken/whole)
		}
	}
}
