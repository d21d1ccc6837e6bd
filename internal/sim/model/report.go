package model

import (
	"time"

	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/work"
)

// Report is what happened in a run. Totals count from Config.Warmup on.
type Report struct {
	// Seconds is the length of what Total counts.
	Seconds float64
	// Total sums all groups; Groups are in the order of Config.Groups.
	Total  Count
	Groups []Count
	// Bins cover the whole run, warm-up included, if Config.Bin is set.
	Bins []Count
	// BinLength is Config.Bin.
	BinLength time.Duration
	// Clients is per client, in the order of the groups, from the start.
	Clients []ClientStats
	// Events is how many events the run took.
	Events uint64
	// Busy is the share of core time spent on requests, Messages that spent on
	// refusals, grants and demand. Both from the start.
	Busy, Messages float64
	// Grants and Demands count messages without a request, from the start.
	Grants, Demands int
}

// Count is what became of requests. Offered and Retries count at the intended
// and the actual time of sending, the others when the client knows.
type Count struct {
	Offered int
	Retries int
	// Good answers came within the objective, Late ones after.
	Good, Late int
	// Refused requests by reason; those that were retried count once, by their
	// last refusal.
	Refused [work.NumReasons]int
	// Lost requests were on a connection that broke, Abandoned ones were given
	// up by a client at their deadline.
	Lost, Abandoned int
	// Response is of good and late answers, from the intended send time.
	Response sim.Histogram
	// Known is, for refused requests, from the intended send time until the
	// client knows.
	Known sim.Histogram
}

// AllRefused returns the refused requests, whatever the reason.
func (c *Count) AllRefused() int {
	n := 0
	for _, r := range c.Refused {
		n += r
	}
	return n
}

// RefusedByServer returns the requests that were sent and then refused.
func (c *Count) RefusedByServer() int {
	n := 0
	for r, m := range c.Refused {
		if work.Reason(r).Sent() {
			n += m
		}
	}
	return n
}

func (c *Count) merge(o *Count) {
	c.Offered += o.Offered
	c.Retries += o.Retries
	c.Good += o.Good
	c.Late += o.Late
	c.Lost += o.Lost
	c.Abandoned += o.Abandoned
	for i := range c.Refused {
		c.Refused[i] += o.Refused[i]
	}
	c.Response.Merge(&o.Response)
	c.Known.Merge(&o.Known)
}

// Goodput returns the good answers per second.
func (r *Report) Goodput() float64 { return float64(r.Total.Good) / r.Seconds }

// Between sums the bins from one time to another, both from the start.
func (r *Report) Between(from, to time.Duration) Count {
	var sum Count
	for i := range r.Bins {
		if at := time.Duration(i) * r.BinLength; at >= from && at < to {
			sum.merge(&r.Bins[i])
		}
	}
	return sum
}

// Fairness is Jain's index of the good answers per client of a group that
// offered anything: 1 if all got the same, 1/n if one got all.
func (r *Report) Fairness() float64 {
	var n, sum, squares float64
	for _, c := range r.Clients {
		if c.Offered > 0 {
			n++
			sum += float64(c.Good)
			squares += float64(c.Good) * float64(c.Good)
		}
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (n * squares)
}
