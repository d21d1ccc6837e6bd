package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
)

// TenantAct is the run in which tenants share gated services, and one of them
// comes with more than there is.
type TenantAct struct {
	Running bool    `json:"running"`
	Elapsed float64 `json:"elapsed"`
	Length  float64 `json:"length"`
	// Conns is the number of connections of each tenant.
	Conns int `json:"connections"`
	// Steps are before, during and after the burst; a Factor is the load of all
	// tenants.
	Steps    []StepState    `json:"steps"`
	Each     []TenantState  `json:"each"`
	Services []stage.Report `json:"services"`
}

// TenantState is one tenant in it.
type TenantState struct {
	Name string `json:"name"`
	// Usual and Burst are its load as multiples of the capacity.
	Usual float64 `json:"usual"`
	Burst float64 `json:"burst"`
	Course
}

// The places of the steps in TenantAct.Steps and in an outcome's.
const (
	BeforeBurst = iota
	DuringBurst
	AfterBurst
	tenantSteps
)

// Aggressive reports whether it is the one whose load grows.
func (t *TenantState) Aggressive() bool { return t.Burst > t.Usual }

// Sheds lists its refusals, as it saw them, the commonest reason first.
func (t *TenantState) Sheds() []Shed {
	return sheds(t.Totals.Shed, nil)
}

// Complete reports whether every tenant has its outcome. A nil act is not.
func (a *TenantAct) Complete() bool {
	if a == nil || len(a.Each) == 0 || len(a.Steps) != tenantSteps {
		return false
	}
	for _, t := range a.Each {
		if t.Outcome == nil || len(t.Outcome.Steps) != tenantSteps {
			return false
		}
	}
	return true
}

// Step returns the index of the step that a time of the act falls into.
func (a *TenantAct) Step(elapsed float64) int { return stepAt(a.Steps, elapsed) }

// Settled returns the time up to which every tenant has points.
func (a *TenantAct) Settled() float64 {
	if len(a.Each) == 0 {
		return 0
	}
	at := a.Length
	for i := range a.Each {
		at = min(at, a.Each[i].Last().T)
	}
	return at
}

func (a *TenantAct) names() []string {
	var names []string
	for _, t := range a.Each {
		names = append(names, t.Name)
	}
	return names
}

func (a *TenantAct) copy() *TenantAct {
	if a == nil {
		return nil
	}
	out := *a
	out.Each = slices.Clone(a.Each)
	for i := range out.Each {
		out.Each[i].Points = slices.Clip(out.Each[i].Points)
	}
	out.Services = slices.Clone(a.Services)
	return &out
}

func newTenantAct(p Plan) *TenantAct {
	a := &TenantAct{Running: true, Length: p.TenantLength().Seconds(), Conns: p.TenantConns, Services: []stage.Report{}}
	usual, burst := 0.0, 0.0
	names := ""
	for _, t := range p.Tenants {
		usual, burst = usual+t.Usual, burst+t.Burst
		state := TenantState{Name: t.Name, Usual: t.Usual, Burst: t.Burst, Course: newCourse()}
		if state.Aggressive() {
			names += fmt.Sprintf("%s at %gx", t.Name, t.Burst)
		}
		a.Each = append(a.Each, state)
	}
	from, to := p.Before.Seconds(), (p.Before + p.During).Seconds()
	a.Steps = []StepState{{"before", usual, 0, from}, {names, burst, from, to}, {"after", usual, to, a.Length}}
	return a
}

// tenants plays the act of the tenants.
func (d *director) tenants(ctx context.Context, c crew, rate float64) error {
	p := d.cfg.Plan
	d.update(func(st *State) {
		st.Scene, st.Note = Sharing, "act 3: an aggressive tenant; a rate and a turn for each"
		st.Tenants = newTenantAct(p)
	})
	change := func(do func(*TenantAct)) {
		d.mu.Lock()
		defer d.mu.Unlock()
		do(d.state.Tenants)
	}
	s, err := c.open(ctx, p, d.cfg.Seed, sharedServices, func(r *stage.Report) {
		change(func(a *TenantAct) { a.Services = replace(a.Services, *r) })
	})
	if err != nil {
		return err
	}
	load := stage.Load{Target: s.entry, Conns: p.TenantConns, Gated: true, Objective: p.SLO, Timeout: p.Timeout, Seed: d.cfg.Seed}
	for _, t := range p.Tenants {
		load.Tenants = append(load.Tenants, stage.Tenant{Name: t.Name, Steps: p.share(t, rate)})
	}
	err = c.run(ctx, s, load, func(l stage.Line) {
		if l.Progress == nil && l.Outcome == nil {
			return
		}
		change(func(a *TenantAct) { a.take(l) })
		d.update(func(*State) {})
	})
	s.stop()
	if err != nil {
		return err
	}
	complete := false
	change(func(a *TenantAct) { a.Running, complete = false, a.Complete() })
	if !complete {
		return errors.New("demo: the load of a tenant ended without a result")
	}
	return nil
}

// take adds what a load tells of one tenant.
func (a *TenantAct) take(l stage.Line) {
	for i := range a.Each {
		a.Each[i].take(l, a.Each[i].Name)
	}
	if l.Progress != nil {
		a.Elapsed = max(a.Elapsed, min(l.Progress.Elapsed, a.Length))
	}
}

func (a *TenantAct) invalid() []string {
	if a == nil {
		return nil
	}
	var why []string
	for _, t := range a.Each {
		if t.Outcome != nil && !t.Outcome.Valid {
			why = append(why, "tenant "+t.Name+": "+strings.Join(t.Outcome.Invalid, ", "))
		}
	}
	return why
}

// summary says in sentences what became of each tenant.
func (a *TenantAct) summary() string {
	var calm, loud []string
	for i := range a.Each {
		t := &a.Each[i]
		before, during := t.Outcome.Steps[BeforeBurst], t.Outcome.Steps[DuringBurst]
		if t.Aggressive() {
			loud = append(loud, fmt.Sprintf("tenant %s sent %.0f requests/s, of which %.0f met the objective", t.Name, during.Offered, during.Goodput))
			continue
		}
		calm = append(calm, fmt.Sprintf("%s had %.1f %% in time before and %.1f %% during, p99 %.0f and %.0f ms",
			t.Name, 100*before.Attainment, 100*during.Attainment, before.P99MS, during.P99MS))
	}
	return "Then " + strings.Join(append(loud, calm...), "; ") + "."
}

// tenants is the table of what each tenant got before and during the burst.
func tenants(s State) *table.Table {
	a := s.Tenants
	t := &table.Table{
		Title: fmt.Sprintf("tenants at gates with a rate and a turn for each: before, and with %s", a.Steps[DuringBurst].Name),
		Columns: []table.Column{
			{Name: "tenant"}, {Name: "offered", Unit: "1/s", Format: "%.0f"}, {Name: "goodput", Unit: "1/s", Format: "%.0f"},
			{Name: "SLO met", Unit: "%", Format: "%.1f"}, {Name: "p99", Unit: "ms", Format: "%.0f"}, {Name: "refused, 1/s"},
		},
	}
	for i := range a.Each {
		tenant := &a.Each[i]
		for step, when := range []string{"before", "during"} {
			o := tenant.Outcome.Steps[step]
			if o.Offered == 0 {
				continue
			}
			t.Add(tenant.Name+" "+when, o.Offered, o.Goodput, 100*o.Attainment, served(o, o.P99MS), Refusals(o))
		}
	}
	if bad := a.invalid(); len(bad) > 0 {
		t.Note = "This act does not count: " + strings.Join(bad, "; ") + "."
	}
	return t
}

// Refusals says how many requests a second were not answered in a step, by
// reason.
func Refusals(o stage.StepStats) string {
	seconds := o.To - o.From
	if seconds <= 0 {
		return ""
	}
	var parts []string
	for _, name := range Reasons() {
		if n := o.Shed[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", strings.ReplaceAll(name, "_", " "), perSecond(float64(n)/seconds)))
		}
	}
	if o.TimedOut > 0 {
		parts = append(parts, "timed out "+perSecond(float64(o.TimedOut)/seconds))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// perSecond writes a rate that is above zero so that it does not look like zero.
func perSecond(rate float64) string {
	if rate < 1 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// tenantCharts returns the pictures of the act of the tenants.
func tenantCharts(s State) []*plot.Chart {
	a := s.Tenants
	over := a.Steps[DuringBurst]
	spans := []plot.Span{{Name: over.Name, From: over.From, To: over.To}}
	time := plot.Axis{Label: "time", Unit: "s"}
	goodput := &plot.Chart{
		Title: "Goodput of each tenant", X: time, Y: plot.Axis{Label: "requests", Unit: "1/s"}, Spans: spans,
		Levels: []plot.Level{{Name: "capacity", At: s.Capacity.Rate}},
	}
	latency := &plot.Chart{
		Title: "Latency of each tenant's answers, p99", X: time, Y: plot.Axis{Label: "latency", Unit: "ms", Log: true}, Spans: spans,
		Levels: []plot.Level{{Name: fmt.Sprintf("SLO %.0f ms", s.SLOMS), At: s.SLOMS}},
	}
	for i := range a.Each {
		t := &a.Each[i]
		good, p99 := plot.Series{Name: "tenant " + t.Name}, plot.Series{Name: "tenant " + t.Name}
		for _, p := range t.Points {
			good.X, good.Y = append(good.X, p.T), append(good.Y, p.Goodput)
			if p.P99MS > 0 { // nothing was answered: there is no latency
				p99.X, p99.Y = append(p99.X, p.T), append(p99.Y, p.P99MS)
			}
		}
		goodput.Series, latency.Series = append(goodput.Series, good), append(latency.Series, p99)
	}
	return []*plot.Chart{goodput, latency}
}
