package bed

import (
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// tally counts what became of the requests of a group.
type tally struct {
	plan  *plan
	group *world.Group

	mu       sync.Mutex
	all      world.Counts // of those after the warm-up
	clients  []world.Counts
	bins     []world.Counts
	reasons  [work.NumReasons]int
	answered []time.Duration
	told     []time.Duration
	requests []Request
}

func newTally(p *plan, g *world.Group) *tally {
	return &tally{plan: p, group: g, clients: make([]world.Counts, g.Clients), bins: make([]world.Counts, (p.Length+bin-1)/bin)}
}

// one is one request.
type one struct {
	client   int
	intended time.Duration // from the beginning
	took     time.Duration
	attempts int
	end
}

// add counts a request that is over.
func (t *tally) add(o one) {
	c := world.Counts{Offered: 1, Attempts: o.attempts}
	how := Failed
	switch {
	case o.kind == served && o.took <= t.plan.Objective && (t.group.Deadline < 0 || o.took <= t.group.Deadline):
		c.Good, how = 1, Good
	case o.kind == served:
		c.Late, how = 1, Late
	case o.kind == refused && o.below:
		c.Refused, how = 1, RefusedBelow
	case o.kind == refused:
		c.Refused, how = 1, Refused
	case o.kind == expired:
		c.Expired, how = 1, Expired
	default:
		c.Failed = 1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests = append(t.requests, Request{o.intended, o.took, how})
	if i := int(o.intended / bin); i >= 0 && i < len(t.bins) {
		addCounts(&t.bins[i], &c)
	}
	if o.intended < t.plan.Warmup {
		return
	}
	addCounts(&t.all, &c)
	addCounts(&t.clients[o.client], &c)
	switch o.kind {
	case served:
		t.answered = append(t.answered, o.took)
	case refused:
		t.told = append(t.told, o.took)
		t.reasons[o.reason]++
	}
}

// skip counts n requests of a bin that were not sent, because too many were under way.
func (t *tally) skip(at time.Duration, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := world.Counts{Offered: n, Failed: n}
	for range n {
		t.requests = append(t.requests, Request{at, 0, Failed})
	}
	if i := int(at / bin); i < len(t.bins) {
		addCounts(&t.bins[i], &c)
	}
	if at >= t.plan.Warmup {
		addCounts(&t.all, &c)
	}
}

// tallied is what a group saw, as it travels to the parent.
type tallied struct {
	Group world.GroupReport `json:"group"`
	Bins  []world.Counts    `json:"bins"`
	Lag   time.Duration     `json:"lag"`
	// Requests are in the order in which they ended.
	Requests []Request `json:"requests"`
}

func (t *tally) result() tallied {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.answered)
	slices.Sort(t.told)
	return tallied{Bins: t.bins, Requests: t.requests, Group: world.GroupReport{Name: t.group.Name, Counts: t.all, Clients: t.clients,
		P50: quantile(t.answered, 0.5), P99: quantile(t.answered, 0.99), Max: quantile(t.answered, 1), Told: quantile(t.told, 0.99), Reasons: t.reasons}}
}

// quantile returns the least of the sorted values that a share q does not exceed, 0 of
// none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q*float64(len(sorted))+0.9999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func addCounts(to, c *world.Counts) {
	to.Offered += c.Offered
	to.Good += c.Good
	to.Late += c.Late
	to.Refused += c.Refused
	to.Expired += c.Expired
	to.Failed += c.Failed
	to.Attempts += c.Attempts
}
