package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
)

// LockPlan is the act of the culprit: reads of a store with one lock, which a report
// seizes, first without a gate and then with one that cancels it. Lengths are whole
// numbers of quarters of a second.
type LockPlan struct {
	// Reads a second hold the lock for Read each.
	Reads float64
	Read  time.Duration
	// Conns is the number of connections to the store.
	Conns int
	// The report comes after Calm and holds the lock for Held if it is let; After is
	// what follows.
	Calm, Held, After time.Duration
}

// Length returns how long one run takes.
func (p LockPlan) Length() time.Duration { return p.Calm + p.Held + p.After }

// CulpritAct is the two runs in which a report seizes a store's lock.
type CulpritAct struct {
	// Rate is the reads a second, HeldMS how long the report holds the lock if it is
	// let.
	Rate   float64 `json:"rate"`
	HeldMS float64 `json:"held_ms"`
	Conns  int     `json:"connections"`
	// Length is that of one run.
	Length float64 `json:"length"`
	// Steps are before the report, the time for which it wants the lock, and after.
	Steps []StepState `json:"steps"`
	// Runs holds the plain one and then the gated one, as far as they began.
	Runs []LockRun `json:"runs"`
}

// The places of the steps in CulpritAct.Steps and in an outcome's.
const (
	BeforeReport = iota
	DuringReport
	AfterReport
	reportSteps
)

// LockRun is one of them, of the reads.
type LockRun struct {
	Run
	// Named is the request that the gate cancelled, nil if none yet; T is when, in seconds.
	Named *stage.Named `json:"named,omitempty"`
	T     float64      `json:"named_at,omitempty"`
	// Report is what became of the report, nil before it ended.
	Report *stage.Asked `json:"report,omitempty"`

	began time.Time
}

// Fate says in a few words what became of the report.
func (r *LockRun) Fate() string {
	switch {
	case r.Report == nil:
		return "not yet"
	case r.Report.End == stage.Answered:
		return fmt.Sprintf("answered after %.0f ms", r.Report.TookMS)
	}
	return fmt.Sprintf("%s after %.0f ms", r.Report.End, r.Report.TookMS)
}

// Culprit returns the method that was cancelled, without its service; empty if none
// was.
func (r *LockRun) Culprit() string {
	if r.Named == nil {
		return ""
	}
	return r.Named.Kind[strings.LastIndexByte(r.Named.Kind, '/')+1:]
}

// Verdict says in a few words which request was cancelled, if any, and when.
func (r *LockRun) Verdict() string {
	switch {
	case r.Name == string(Plain):
		return "no gate"
	case r.Named == nil:
		return "none"
	}
	return fmt.Sprintf("%s, there for %.0f ms", r.Culprit(), r.Named.AgeMS)
}

// Running returns the run that is played, nil if none is. A nil act has none.
func (a *CulpritAct) Running() *LockRun {
	if a == nil {
		return nil
	}
	return running(a.Runs)
}

// Step returns the index of the step that a time of a run falls into.
func (a *CulpritAct) Step(elapsed float64) int { return stepAt(a.Steps, elapsed) }

// Complete reports whether both runs have their outcomes. A nil act has not.
func (a *CulpritAct) Complete() bool {
	return a != nil && len(a.Steps) == reportSteps && complete(a.Runs, reportSteps)
}

func (a *CulpritAct) copy() *CulpritAct {
	if a == nil {
		return nil
	}
	out := *a
	out.Runs = clone(a.Runs)
	return &out
}

func newCulpritAct(p LockPlan) *CulpritAct {
	from, to, end := p.Calm.Seconds(), (p.Calm + p.Held).Seconds(), p.Length().Seconds()
	return &CulpritAct{
		Rate: p.Reads, HeldMS: ms(p.Held), Conns: p.Conns, Length: end, Runs: []LockRun{},
		Steps: []StepState{{"before", 1, 0, from}, {"a report", 1, from, to}, {"after", 1, to, end}},
	}
}

// culprit plays the act of the culprit.
func (d *director) culprit(ctx context.Context, c crew) error {
	for _, gated := range []bool{false, true} {
		if err := d.seize(ctx, c, gated); err != nil {
			return err
		}
	}
	return nil
}

// seize plays one run on a store of its own.
func (d *director) seize(ctx context.Context, c crew, gated bool) error {
	p := d.cfg.Plan.Lock
	name, note := string(Plain), "act 5: a report takes the store's lock; no gate"
	if gated {
		name, note = string(Gated), "act 5: the same seconds, and a gate that cancels the culprit"
	}
	i := 0
	d.update(func(st *State) {
		if st.Culprit == nil {
			st.Scene, st.Culprit = Seizing, newCulpritAct(p)
		}
		st.Note, i = note, len(st.Culprit.Runs)
		st.Culprit.Runs = append(st.Culprit.Runs, LockRun{Run: newRun(name)})
	})
	change := func(do func(*LockRun)) {
		d.mu.Lock()
		defer d.mu.Unlock()
		do(&d.state.Culprit.Runs[i])
	}
	on := func(l stage.Line) { change(func(r *LockRun) { r.take(l, p.Length().Seconds()) }) }
	part := stage.Locked{Name: "store", Gated: gated, Objective: d.cfg.Plan.SLO, Read: p.Read, Report: p.Held}
	load := stage.Load{
		Conns: p.Conns, Gated: gated, ReportAt: p.Calm,
		Steps: openloop.Profile{{Rate: p.Reads, For: p.Calm}, {Rate: p.Reads, For: p.Held}, {Rate: p.Reads, For: p.After}},
	}
	if err := d.alone(ctx, c, part.Name, stage.Part{Locked: &part}, load, on); err != nil {
		return err
	}
	ended := false
	change(func(r *LockRun) { r.Running, ended = false, r.Outcome != nil })
	if !ended {
		return errors.New("demo: the load on the store ended without a result")
	}
	return nil
}

// take adds what the load or the store tells.
func (r *LockRun) take(l stage.Line, length float64) {
	switch {
	case l.Named != nil && l.Named.Cancelled && r.Named == nil:
		r.Named = l.Named
		if !r.began.IsZero() {
			r.T = l.Named.At.Sub(r.began).Seconds()
		}
	case l.Asked != nil:
		r.Report = l.Asked
	case l.Progress != nil:
		r.began = l.Progress.Began
	}
	r.Run.take(l, length)
}

func (a *CulpritAct) invalid() []string {
	if a == nil {
		return nil
	}
	return invalid("culprit", a.Runs)
}

// summary says in a sentence what the gate changed.
func (a *CulpritAct) summary() string {
	plain, gated := &a.Runs[0], &a.Runs[1]
	before, _ := plain.During(DuringReport)
	after, _ := gated.During(DuringReport)
	text := fmt.Sprintf("While a report took the store's lock for %.1f s, %.0f of %.0f reads/s were in time without a gate, and %.0f with one", a.HeldMS/1000, before.Goodput, before.Offered, after.Goodput)
	if gated.Named == nil {
		return text + "; no request was cancelled."
	}
	return text + fmt.Sprintf(": %s was cancelled after %.0f ms.", gated.Culprit(), gated.Named.AgeMS)
}

// culprits is the table of both runs side by side.
func culprits(s State) *table.Table {
	a := s.Culprit
	t := &table.Table{
		Title:   fmt.Sprintf("a report that takes the store's lock for %.1f s, among %.0f reads/s", a.HeldMS/1000, a.Rate),
		Columns: []table.Column{{Name: ""}, {Name: "plain"}, {Name: "gated"}},
	}
	row := func(name string, show func(*LockRun) string) { t.Add(name, show(&a.Runs[0]), show(&a.Runs[1])) }
	during := func(show func(stage.StepStats) string) func(*LockRun) string {
		return func(r *LockRun) string {
			o, _ := r.During(DuringReport)
			return show(o)
		}
	}
	row("goodput before", func(r *LockRun) string {
		o := r.Outcome.Steps[BeforeReport]
		return fmt.Sprintf("%.0f of %.0f/s", o.Goodput, o.Offered)
	})
	row("goodput during", during(func(o stage.StepStats) string { return fmt.Sprintf("%.0f of %.0f/s", o.Goodput, o.Offered) }))
	row("p99 during", during(func(o stage.StepStats) string { return p99(o, &s) }))
	row("timed out", during(func(o stage.StepStats) string { return fmt.Sprint(o.TimedOut) }))
	row("refused", during(func(o stage.StepStats) string { return fmt.Sprint(o.Refused) }))
	row("cancelled", (*LockRun).Verdict)
	row("the report", (*LockRun).Fate)
	if bad := a.invalid(); len(bad) > 0 {
		t.Note = "This act does not count: " + strings.Join(bad, "; ") + "."
	}
	return t
}

// culpritChart returns the picture of the act.
func culpritChart(s State) *plot.Chart {
	a := s.Culprit
	over := a.Steps[DuringReport]
	c := &plot.Chart{
		Title: "Goodput while a report takes the store's lock",
		X:     plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "requests", Unit: "1/s"},
		Spans: []plot.Span{{Name: over.Name, From: over.From, To: over.To}},
	}
	for i := range a.Runs {
		line := plot.Series{Name: a.Runs[i].Name}
		for _, p := range a.Runs[i].Points {
			line.X, line.Y = append(line.X, p.T), append(line.Y, p.Goodput)
		}
		c.Series = append(c.Series, line)
	}
	return c
}
