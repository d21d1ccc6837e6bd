package stage

import (
	"context"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// Point is the half second that ends T seconds after the start of a run. Rates
// are requests a second; a latency is that of answers, counted from the instant
// a request was meant to leave, and 0 where there was no answer.
type Point struct {
	T       float64 `json:"t"`
	Offered float64 `json:"offered"`
	Served  float64 `json:"served"`
	Goodput float64 `json:"goodput"`
	P50MS   float64 `json:"p50_ms"`
	P99MS   float64 `json:"p99_ms"`
	// MeanMS and P95MS are of what was answered in it; only flows have them.
	MeanMS   float64            `json:"mean_ms,omitempty"`
	P95MS    float64            `json:"p95_ms,omitempty"`
	Shed     map[string]float64 `json:"shed,omitempty"` // a second, by reason
	TimedOut float64            `json:"timed_out"`
}

// Progress is a run as it goes on.
type Progress struct {
	// Tenant is whose requests these are, or the name of the flow; empty without
	// both.
	Tenant string `json:"tenant,omitempty"`
	// Began is when the run began.
	Began time.Time `json:"began"`
	// New are the points since the last Progress.
	New      []Point `json:"new,omitempty"`
	Elapsed  float64 `json:"elapsed"` // seconds
	InFlight int     `json:"in_flight"`
	Totals   Totals  `json:"totals"`
	// Over are the steps that were over an objective ago. What was in flight at
	// their end may be missing.
	Over []StepStats `json:"over,omitempty"`
}

// Totals counts a run's requests so far.
type Totals struct {
	Offered  uint64 `json:"offered"`
	Good     uint64 `json:"good"`
	Served   uint64 `json:"served"`
	TimedOut uint64 `json:"timed_out"`
	Failed   uint64 `json:"failed"`
	Refused  uint64 `json:"refused"`
	// Shed counts refusals as the callers saw them, by reason, Unsent those of
	// them that their own wallets made before anything was sent.
	Shed   map[string]uint64 `json:"shed"`
	Unsent map[string]uint64 `json:"unsent"`
}

// Outcome is a finished run.
type Outcome struct {
	// Tenant is as in Progress.
	Tenant string `json:"tenant,omitempty"`
	// Valid says whether the run counts, Invalid why not.
	Valid   bool     `json:"valid"`
	Invalid []string `json:"invalid,omitempty"`
	// LagP50MS and LagP99MS are how late requests left.
	LagP50MS float64     `json:"lag_p50_ms"`
	LagP99MS float64     `json:"lag_p99_ms"`
	Steps    []StepStats `json:"steps"`
	Totals   Totals      `json:"totals"`
	// Recovery is how many seconds after the last step down the load's requests
	// were met again, or -1 if they were not by the end.
	Recovery float64 `json:"recovery"`
}

// StepStats describes the requests of one step of the load.
type StepStats struct {
	From    float64 `json:"from"` // seconds
	To      float64 `json:"to"`
	Offered float64 `json:"offered"` // requests a second
	Goodput float64 `json:"goodput"` // answers within the objective, a second
	// Attainment is the share of the step's offered requests that were met.
	Attainment float64 `json:"attainment"`
	P50MS      float64 `json:"p50_ms"`
	P99MS      float64 `json:"p99_ms"`
	// MeanMS and P95MS are of the step's own requests; only flows have them.
	MeanMS   float64 `json:"mean_ms,omitempty"`
	P95MS    float64 `json:"p95_ms,omitempty"`
	Served   uint64  `json:"served"`
	Refused  uint64  `json:"refused"`
	TimedOut uint64  `json:"timed_out"`
	Failed   uint64  `json:"failed"`
	// RefusalP50MS is the time until a refused caller knew.
	RefusalP50MS float64           `json:"refusal_p50_ms"`
	Shed         map[string]uint64 `json:"shed,omitempty"`
}

// play makes the run of the steps.
func (l Load) play(ctx context.Context, send openloop.Send, unsent *tally, out *writer) error {
	arrivals, err := openloop.Poisson(l.Steps, l.Seed)
	if err != nil {
		return err
	}
	generator, err := openloop.New(openloop.Config{
		Arrivals: arrivals, Send: send, SLO: l.Objective, Window: window, Drain: l.Timeout + l.Objective,
	})
	if err != nil {
		return err
	}
	recorder := generator.Recorder()
	reporting, stop := context.WithCancel(ctx)
	defer stop()
	var reports sync.WaitGroup
	told := 0
	reports.Go(func() {
		tick := time.NewTicker(progressEvery / 5)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				var p *Progress
				// A window is left to settle before it is told.
				if p, told = l.progress(recorder, unsent, now, now.Add(-window), told); p != nil {
					out.line(Line{Progress: p})
				}
			case <-reporting.Done():
				return
			}
		}
	})
	result, err := generator.Run(ctx)
	stop()
	reports.Wait()
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Every request has ended, so what is left of the points is settled.
	if p, _ := l.progress(recorder, unsent, time.Now(), time.Now().Add(l.Steps.Duration()), told); p != nil {
		out.line(Line{Progress: p})
	}
	out.line(Line{Outcome: l.outcome(recorder, result, unsent)})
	return nil
}

// progress returns how the run is at now, with the points that end until settled
// after the first told ones, or nil if there is no new one.
func (l Load) progress(r *measure.Recorder, unsent *tally, now, settled time.Time, told int) (*Progress, int) {
	look := r.Live(now)
	whole := min(int((look.Elapsed+settled.Sub(now))/progressEvery), int(l.Steps.Duration()/progressEvery))
	if whole <= told {
		return nil, told
	}
	began := now.Add(-look.Elapsed)
	p := &Progress{
		Tenant: l.tenant, Began: began, Elapsed: look.Elapsed.Seconds(), InFlight: look.InFlight,
		Totals: totals(look.Total.Counts, look.Total.RefusedBy, unsent),
	}
	for ; told < whole; told++ {
		p.New = append(p.New, l.point(r, began, time.Duration(told+1)*progressEvery))
	}
	var from time.Duration
	for _, step := range l.Steps {
		to := from + step.For
		if to+l.Objective > look.Elapsed {
			break
		}
		p.Over = append(p.Over, l.stats(r, began, from, to))
		from = to
	}
	return p, told
}

// point describes the span that ends at an instant.
func (l Load) point(r *measure.Recorder, began time.Time, at time.Duration) Point {
	s := r.Span(max(at-span, 0), at)
	seconds := (s.To - s.From).Seconds()
	p := Point{
		T: at.Seconds(), Offered: s.OfferedRate, Served: s.ServedRate, Goodput: s.Goodput,
		P50MS: milliseconds(s.Latency.P50), P99MS: milliseconds(s.Latency.P99),
		TimedOut: float64(s.TimedOut) / seconds,
	}
	p.MeanMS, p.P95MS = l.times.answered(began.Add(s.From), began.Add(s.To))
	for reason, n := range s.RefusedBy {
		if p.Shed == nil {
			p.Shed = map[string]float64{}
		}
		p.Shed[reason] = float64(n) / seconds
	}
	return p
}

func totals(c measure.Counts, shed map[string]uint64, unsent *tally) Totals {
	if shed == nil {
		shed = map[string]uint64{}
	}
	return Totals{
		Offered: c.Offered, Good: c.Good, Served: c.Served, TimedOut: c.TimedOut, Failed: c.Failed,
		Refused: c.Refused, Shed: shed, Unsent: unsent.all(),
	}
}

// outcome judges the run.
func (l Load) outcome(r *measure.Recorder, result measure.Result, unsent *tally) *Outcome {
	o := &Outcome{
		Tenant: l.tenant, Valid: result.Valid, Invalid: result.Invalid,
		LagP50MS: milliseconds(result.SendLag.P50), LagP99MS: milliseconds(result.SendLag.P99),
		Totals: totals(result.Total.Counts, result.Total.RefusedBy, unsent),
	}
	now := time.Now()
	began := now.Add(-r.Live(now).Elapsed)
	var from time.Duration
	for _, step := range l.Steps {
		o.Steps = append(o.Steps, l.stats(r, began, from, from+step.For))
		from += step.For
	}
	last := l.Steps[len(l.Steps)-1].For
	var met []float64
	for at := from - last; at+progressEvery <= from; at += progressEvery {
		met = append(met, r.Span(at, at+progressEvery).Attainment)
	}
	o.Recovery = recovery(met, progressEvery)
	return o
}

// stats describes what was recorded of a step.
func (l Load) stats(r *measure.Recorder, began time.Time, from, to time.Duration) StepStats {
	s := r.Span(from, to)
	mean, p95 := l.times.meant(began.Add(from), began.Add(to))
	return StepStats{
		MeanMS: mean, P95MS: p95,
		From: s.From.Seconds(), To: s.To.Seconds(),
		Offered: s.OfferedRate, Goodput: s.Goodput, Attainment: s.Attainment,
		P50MS: milliseconds(s.Latency.P50), P99MS: milliseconds(s.Latency.P99),
		Served: s.Served, Refused: s.Refused, TimedOut: s.TimedOut, Failed: s.Failed,
		RefusalP50MS: milliseconds(s.Refusal.P50), Shed: s.RefusedBy,
	}
}

// metAgain is the share of a stretch's requests that must be met for the
// stretch to count as recovered.
const metAgain = 0.9

// recovery returns the seconds until the stretches, each of the given length,
// are met and stay so, or -1 if they are not in the end.
func recovery(met []float64, each time.Duration) float64 {
	for i := len(met) - 1; i >= 0; i-- {
		if met[i] < metAgain {
			if i == len(met)-1 {
				return -1
			}
			return (time.Duration(i+1) * each).Seconds()
		}
	}
	return 0
}
