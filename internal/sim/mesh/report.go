package mesh

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/work"
)

// Report is what happened in a run. Totals are of requests whose intended send
// time is after Config.Warmup.
type Report struct {
	// Seconds is the length of what the totals count.
	Seconds float64
	// Total is of all workflows.
	Total Count
	// Workflows are in the order of Config.Workflows, Services in that of
	// Config.Services.
	Workflows []Count
	Services  []ServiceCount
	// ClientSheds counts, by reason, what clients refused unsent.
	ClientSheds [work.NumReasons]int
	// Bins are, per bin and workflow, of the whole run. Offered counts in the bin
	// of the intended send time, what became of it in the bin in which the client
	// knew.
	Bins      [][]Count
	BinLength time.Duration
	// Rates are those of the processes of Config.RatesOf, at the end of each bin.
	Rates []ProcessRates
	// Shares are what the controllers of Control.Share decided, one for each
	// process and life.
	Shares []ProcessShare
	// Polls is how many times a process asked for a rate that no answer brought.
	Polls int
	// Events is how many events the run took.
	Events uint64
}

// ProcessShare is what happened to the weight of a process's interactive class.
type ProcessShare struct {
	Service       string
	Process, Life int
	// At are the instants of Decisions, since the start.
	At        []time.Duration
	Decisions []share.Decision
	// Calls counts, per workflow and class, as what calls were taken.
	Calls [][work.NumClasses]int
}

// Count is what became of a workflow's requests.
type Count struct {
	Offered, Retries int
	// Good answers came within the deadline, Late ones after.
	Good, Late int
	// Refused counts by the reason of the last attempt's refusal, wherever in the
	// call graph it was made.
	Refused [work.NumReasons]int
	// TimedOut requests failed because a caller lost patience with a call, GaveUp
	// ones were canceled by the client at the deadline, Lost ones were at a
	// process that was killed.
	TimedOut, GaveUp, Lost int
	// Latency is of good and late answers, from the intended send time.
	Latency sim.Histogram
	// Told is, for refused requests, from the intended send time until the client knows.
	Told sim.Histogram
	// Busy is the time of workers spent on requests that are over, Wasted the
	// part of it spent on those without a good answer.
	Busy, Wasted time.Duration

	ratio sim.Histogram
}

// ratioUnit is a ratio of 1 in Count.ratio.
const ratioUnit = float64(time.Second)

// Ratio returns the q-quantile of latency ÷ deadline of good and late answers.
func (c *Count) Ratio(q float64) float64 { return float64(c.ratio.Quantile(q)) / ratioUnit }

// MeanRatio returns the mean of latency ÷ deadline.
func (c *Count) MeanRatio() float64 { return float64(c.ratio.Mean()) / ratioUnit }

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

// Ended returns how many requests are over.
func (c *Count) Ended() int {
	return c.Good + c.Late + c.AllRefused() + c.TimedOut + c.GaveUp + c.Lost
}

func (c *Count) merge(o *Count) {
	c.Offered += o.Offered
	c.Retries += o.Retries
	c.Good += o.Good
	c.Late += o.Late
	c.TimedOut += o.TimedOut
	c.GaveUp += o.GaveUp
	c.Lost += o.Lost
	for i := range c.Refused {
		c.Refused[i] += o.Refused[i]
	}
	c.Latency.Merge(&o.Latency)
	c.Told.Merge(&o.Told)
	c.ratio.Merge(&o.ratio)
	c.Busy += o.Busy
	c.Wasted += o.Wasted
}

// Goodput returns the good answers per second.
func (r *Report) Goodput() float64 { return float64(r.Total.Good) / r.Seconds }

// Between sums the bins of some workflows, by their numbers, from one time to
// another, both from the start.
func (r *Report) Between(from, to time.Duration, workflows ...int) Count {
	var sum Count
	for i := range r.Bins {
		if at := time.Duration(i) * r.BinLength; at >= from && at < to {
			for _, f := range workflows {
				sum.merge(&r.Bins[i][f])
			}
		}
	}
	return sum
}

// ServiceCount is what happened at a service, from the start.
type ServiceCount struct {
	Name string
	// Sheds counts the calls that it refused, and those that it would have made
	// and refused unsent, by reason.
	Sheds [work.NumReasons]int
	// Timeouts counts the calls to it with which the caller lost patience.
	Timeouts int
	// Use is, per resource, the share of its units' time that was taken.
	Use []float64
	// Busy is the share of the workers' time spent on work, which holds do not
	// count as.
	Busy float64
	// Messages is the share of the workers' time spent on messages.
	Messages float64
}

func (w *World) startReport() {
	w.report.Workflows = make([]Count, len(w.cfg.Workflows))
	if w.cfg.Bin > 0 && len(w.cfg.RatesOf) > 0 {
		w.after(w.cfg.Bin, event{kind: endBin})
	}
	w.report.Services = make([]ServiceCount, len(w.cfg.Services))
	for i := range w.cfg.Services {
		w.report.Services[i].Name = w.cfg.Services[i].Name
	}
	if w.cfg.Bin > 0 {
		w.report.BinLength = w.cfg.Bin
		w.report.Bins = make([][]Count, (w.cfg.Length+w.cfg.Bin-1)/w.cfg.Bin)
		for i := range w.report.Bins {
			w.report.Bins[i] = make([]Count, len(w.cfg.Workflows))
		}
	}
}

// ProcessRates are the rates of a process over time.
type ProcessRates struct {
	Service string
	Process int
	// Rate is per bin and workflow, in requests/s; rates.NoLimit is none.
	Rate [][]float64
}

// noteRates ends a bin.
func (w *World) noteRates() {
	if w.report.Rates == nil {
		for _, p := range w.processes {
			if slices.Contains(w.cfg.RatesOf, p.place.Service) && p.door.Rated() {
				w.report.Rates = append(w.report.Rates, ProcessRates{Service: p.place.Service, Process: p.place.Process})
				w.watched = append(w.watched, p)
			}
		}
	}
	for i, p := range w.watched {
		now := make([]float64, len(w.cfg.Workflows))
		for f := range now {
			if p.alive {
				a := p.door.Gate().Rates(w.Now())
				now[f] = a.Rate(a.Workflow(w.Now(), w.cfg.Workflows[f].Name))
			}
		}
		w.report.Rates[i].Rate = append(w.report.Rates[i].Rate, now)
	}
	w.after(w.cfg.Bin, event{kind: endBin})
}

// count calls f with the counters of r's workflow that an occurrence at an
// instant belongs to.
func (w *World) count(r *root, at mono.Time, f func(*Count)) {
	if r.intended.Sub(origin) >= w.cfg.Warmup {
		f(&w.report.Workflows[r.workflow])
	}
	if w.cfg.Bin > 0 {
		if i := int(at.Sub(origin) / w.cfg.Bin); i < len(w.report.Bins) {
			f(&w.report.Bins[i][r.workflow])
		}
	}
}

func (w *World) countShed(service int32, reason work.Reason) {
	if service == noService {
		w.report.ClientSheds[reason]++
	} else {
		w.report.Services[service].Sheds[reason]++
	}
}

// settle books the work that was done for r, all of which is over.
func (w *World) settle(r *root) {
	if r.busy == 0 {
		return
	}
	w.count(r, w.Now(), func(n *Count) {
		n.Busy += r.busy
		if !r.good {
			n.Wasted += r.busy
		}
	})
}

// Report returns what happened so far.
func (w *World) Report() (*Report, error) {
	if w.log != nil {
		if err := w.log.Flush(); err != nil && w.err == nil {
			w.err = fmt.Errorf("mesh: writing the log: %w", err)
		}
	}
	r := w.report
	r.Seconds = math.Max((w.Since() - w.cfg.Warmup).Seconds(), 0)
	r.Events = w.engine.Done()
	r.Total = Count{}
	for i := range r.Workflows {
		r.Total.merge(&r.Workflows[i])
	}
	for _, s := range w.shares {
		r.Shares = append(r.Shares, *s)
	}
	r.Services = append([]ServiceCount(nil), r.Services...)
	for i := range w.services {
		s := &w.services[i]
		out := &r.Services[i]
		out.Use = make([]float64, len(w.cfg.Services[i].Resources))
		time := float64(w.Since()) * float64(len(s.processes))
		if time == 0 {
			continue
		}
		for _, p := range s.processes {
			for k := range p.resources {
				out.Use[k] += float64(p.resources[k].use) / time / float64(p.resources[k].capacity)
			}
			out.Busy += float64(p.busy) / time / float64(p.resources[0].capacity)
			out.Messages += float64(p.messages) / time / float64(p.resources[0].capacity)
		}
	}
	return &r, w.err
}

// WastedShare returns the share of work done for requests without a good answer.
func (c *Count) WastedShare() float64 {
	if c.Busy == 0 {
		return 0
	}
	return float64(c.Wasted) / float64(c.Busy)
}
