package screen

import (
	"fmt"
	"strings"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/stage"
)

const (
	// tenantLines are the lines of a tenant's panel that are no chart.
	tenantLines = 12
	// tenantReasons is the most reasons for refusals that a panel names; the
	// commonest come first.
	tenantReasons = 3
)

// tenants draws a panel for each tenant, side by side.
func (l *look) tenants(s *demo.State, width, height int) []string {
	each := s.Tenants.Each
	var out []string
	for i := range each {
		own := width*(i+1)/len(each) - width*i/len(each)
		panel := l.tenant(s, &each[i], own, height)
		if out == nil {
			out = make([]string, len(panel))
		}
		for row := range out {
			out[row] += panel[row]
		}
	}
	return out
}

// alone is a tenant's run as a state and an act of its own, for the charts.
func alone(s *demo.State, t *demo.TenantState) (demo.State, demo.Act) {
	own := *s
	own.ActLength = s.Tenants.Length
	own.Steps = append([]demo.StepState(nil), s.Tenants.Steps...)
	for i := range own.Steps {
		own.Steps[i].Factor = t.Usual
		if i == demo.DuringBurst {
			own.Steps[i].Factor = t.Burst
		}
	}
	return own, demo.Act{Points: t.Points}
}

// tenant draws one of them.
func (l *look) tenant(s *demo.State, t *demo.TenantState, width, height int) []string {
	inside := width - 4
	free := max(height-tenantLines, 2)
	top := min((free+1)/2, tallest)
	bottom := min(max(free-top, 1), tallest)
	own, act := alone(s, t)
	p := t.Last()

	title := fmt.Sprintf("%s, %gx", t.Name, t.Usual)
	switch {
	case t.Outcome != nil && !t.Outcome.Valid:
		title = t.Name + ": does not count"
	case t.Aggressive():
		title = fmt.Sprintf("%s, comes with %gx", t.Name, t.Burst)
	}
	good := l.text
	if !t.Aggressive() {
		good = l.good
		if p.Goodput < 0.9*p.Offered {
			good = l.bad
		}
	}
	rows := []string{l.key(layerGood) + "goodput " + good.Render(fmt.Sprintf("%4.0f", p.Goodput)) + " " + l.key(layerOffered) + fmt.Sprintf("%4.0f", p.Offered)}
	rows = append(rows, l.loadChart(&own, &act, inside, top)...)
	v := figures{offered: p.Offered, p99: p.P99MS}
	p99, key := l.tail(v, s.SLOMS)
	rows = append(rows, l.key(key)+"p99 "+p99.Render(fmt.Sprintf("%3s ms", v.took(v.p99)))+l.faint.Render(fmt.Sprintf(" ┄ SLO %.0f", s.SLOMS)))
	rows = append(rows, l.latencyChart(&own, &act, inside, bottom)...)
	rows = append(rows, l.turn(t)...)
	rows = append(rows, l.title.Render("refused ")+count(t.Totals.Refused))
	for i, shed := range t.Sheds() {
		if i == tenantReasons {
			break
		}
		rows = append(rows, " "+l.faint.Render(strings.ReplaceAll(shed.Reason, "_", " "))+" "+count(shed.Count))
	}
	for len(rows) < tenantLines-2+top+bottom {
		rows = append(rows, "")
	}
	return l.box(title, rows, width, len(rows)+2)
}

// turn sets what a tenant got before the burst against what it got during it, in
// four lines. Until a step is over it has no figures.
func (l *look) turn(t *demo.TenantState) []string {
	cell := func(step int, show func(stage.StepStats) float64) string {
		if step >= len(t.Steps) || t.Steps[step].Offered == 0 {
			return fmt.Sprintf("%7s", "–")
		}
		return fmt.Sprintf("%7.0f", show(t.Steps[step]))
	}
	row := func(name string, show func(stage.StepStats) float64) string {
		return l.faint.Render(fmt.Sprintf("%-8s", name)) + cell(demo.BeforeBurst, show) + cell(demo.DuringBurst, show)
	}
	return []string{
		l.faint.Render(fmt.Sprintf("%8s%7s%7s", "", "before", "during")),
		row("offered", func(o stage.StepStats) float64 { return o.Offered }),
		row("goodput", func(o stage.StepStats) float64 { return o.Goodput }),
		row("p99 ms", func(o stage.StepStats) float64 { return o.P99MS }),
	}
}
