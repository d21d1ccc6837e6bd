package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/work"
)

// maxShapingPushback is the longest that a client is told to stay away for what
// waits for its workflow's rate. By then the rate was decided anew a hundred times,
// so a longer hint would be a guess.
const maxShapingPushback = 10 * time.Second

// Pushback returns the retry-after of a refused client: the time until the requests
// that wait now have left the queue, at least a tenth of the objective. Requests that
// wait for the rate of the same workflow leave at that rate, and count for at most
// 10 s. Pushback is negative if the client should not try again.
func (g *Gate) Pushback(now mono.Time, t *Ticket) time.Duration {
	if !t.reason.Retryable() {
		return -1
	}
	wait := max(g.Expect(now, t), g.cfg.Objective/10)
	if g.shaper != nil && t.reason != work.Draining { // who comes back then finds another server
		// Both go at the same time, so the longer one counts.
		wait = max(wait, min(g.shaper.clear(now, t.rated.Workflow), maxShapingPushback))
	}
	return wait
}

// clear returns how long it takes at today's rate until all that waits of a workflow
// has passed: one when there is a token, and one for each token after it.
func (s *shaper) clear(now mono.Time, w rates.Workflow) time.Duration {
	if s.adapter == nil {
		return 0
	}
	n, rate := s.adapter.Backlog(w), s.adapter.Rate(w)
	if n == 0 || rate >= rates.NoLimit {
		return 0
	}
	// Cut before it is a Duration, which could not hold it all.
	others := min(float64(n-1)/rate, maxShapingPushback.Seconds())
	return s.adapter.ReadyAt(now, w).Sub(now) + time.Duration(others*float64(time.Second))
}
