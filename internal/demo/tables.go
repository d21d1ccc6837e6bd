package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/table"
)

// Overload returns the index of the step with the highest load.
func (s *State) Overload() int {
	most := 0
	for i, step := range s.Steps {
		if step.Factor > s.Steps[most].Factor {
			most = i
		}
	}
	return most
}

// Complete reports whether both acts have their outcome.
func (s *State) Complete() bool {
	if len(s.Acts) != 2 {
		return false
	}
	for _, a := range s.Acts {
		if a.Outcome == nil || len(a.Outcome.Steps) != len(s.Steps) {
			return false
		}
	}
	return true
}

// Summary says the result in a few sentences, a paragraph for each act.
func (s *State) Summary() string {
	if !s.Complete() {
		return s.Note
	}
	i := s.Overload()
	step := s.Steps[i]
	sentence := func(a *Act) string {
		o := a.Outcome.Steps[i]
		text := fmt.Sprintf("%s: %.0f of %.0f requests/s met the objective of %.0f ms, %.0f %% of the capacity; ",
			a.Name, o.Goodput, o.Offered, s.SLOMS, 100*o.Goodput/s.Capacity.Rate)
		if o.Served > 0 {
			text += fmt.Sprintf("p99 %.0f ms; ", o.P99MS)
		}
		return text + "after the overload it " + recovered(a, s) + "."
	}
	text := fmt.Sprintf("At %.1fx the measured capacity of %.0f requests/s: ", step.Factor, s.Capacity.Rate) +
		sentence(&s.Acts[0]) + " " + sentence(&s.Acts[1])
	if s.Tenants.Complete() {
		text += "\n\n" + s.Tenants.summary()
	}
	if s.Checkout.Complete() {
		text += "\n\n" + s.Checkout.summary()
	}
	if s.Culprit.Complete() {
		text += "\n\n" + s.Culprit.summary()
	}
	if s.Feed.Complete() {
		text += "\n\n" + s.Feed.summary()
	}
	if bad := s.Invalid(); bad != "" {
		text += "\n\nThe run does not count: " + bad + "."
	}
	return text
}

// mostReasons is how many reasons Invalid says in full.
const mostReasons = 2

// Invalid says why the run does not count, the first reasons in full; empty if it does.
func (s *State) Invalid() string {
	var why []string
	for _, a := range s.Acts {
		if a.Outcome != nil && !a.Outcome.Valid {
			why = append(why, a.Name+": "+strings.Join(a.Outcome.Invalid, ", "))
		}
	}
	why = slices.Concat(why, s.Tenants.invalid(), s.Checkout.invalid(), s.Culprit.invalid(), s.Feed.invalid())
	if n := len(why) - mostReasons; n > 1 { // on a machine that was busy throughout, each part has one like the others
		why = append(why[:mostReasons:mostReasons], fmt.Sprintf("and %d more parts, each with its table", n))
	}
	return strings.Join(why, "; ")
}

func recovered(a *Act, s *State) string {
	switch r := a.Outcome.Recovery; {
	case r < 0:
		last := s.Steps[len(s.Steps)-1]
		return fmt.Sprintf("did not recover within %.1f s", last.To-last.From)
	case r == 0:
		return "recovered at once"
	default:
		return fmt.Sprintf("recovered in %.2f s", r)
	}
}

// Tables returns the result as tables: the acts side by side, every step, the
// refusals, the tenants, the checkouts, the culprit, and the broker. Before the first two acts are
// over there are none.
func Tables(s State) []*table.Table {
	if !s.Complete() {
		return nil
	}
	tables := []*table.Table{comparison(s), steps(s)}
	if t := refusals(s); t.Len() > 0 {
		tables = append(tables, t)
	}
	if s.Tenants.Complete() {
		tables = append(tables, tenants(s))
	}
	if s.Checkout.Complete() {
		tables = append(tables, checkouts(s))
		if t := classes(s); t.Len() > 0 {
			tables = append(tables, t)
		}
	}
	if s.Culprit.Complete() {
		tables = append(tables, culprits(s))
	}
	if s.Feed.Complete() {
		tables = append(tables, feeds(s))
	}
	return tables
}

func comparison(s State) *table.Table {
	i := s.Overload()
	plain, gated := &s.Acts[0], &s.Acts[1]
	t := &table.Table{
		Title:   fmt.Sprintf("plain and gated at %.1fx of %.0f requests/s", s.Steps[i].Factor, s.Capacity.Rate),
		Columns: []table.Column{{Name: ""}, {Name: "plain"}, {Name: "gated"}},
	}
	row := func(name string, show func(*Act) string, mark func(*Act) table.Mark) {
		cell := func(a *Act) table.Cell {
			c := table.Cell{Value: show(a)}
			if mark != nil {
				c.Mark = mark(a)
			}
			return c
		}
		t.Add(name, cell(plain), cell(gated))
	}
	at := func(a *Act) stage.StepStats { return a.Outcome.Steps[i] }
	mark := func(good func(*Act) bool) func(*Act) table.Mark {
		return func(a *Act) table.Mark {
			if good(a) {
				return table.Good
			}
			return table.Bad
		}
	}
	row("offered", func(a *Act) string { return fmt.Sprintf("%.0f/s", at(a).Offered) }, nil)
	row("goodput", func(a *Act) string {
		return fmt.Sprintf("%.0f/s, %.0f %% of capacity", at(a).Goodput, 100*at(a).Goodput/s.Capacity.Rate)
	}, mark(func(a *Act) bool { return at(a).Goodput >= 0.9*s.Capacity.Rate }))
	row("SLO attainment", func(a *Act) string {
		return fmt.Sprintf("%.1f %% of offered", 100*at(a).Attainment)
	}, nil)
	row("p50 of answers", func(a *Act) string {
		if at(a).Served == 0 {
			return noAnswer
		}
		return fmt.Sprintf("%.0f ms", at(a).P50MS)
	}, nil)
	row("p99 of answers", func(a *Act) string { return p99(at(a), &s) },
		mark(func(a *Act) bool { return at(a).Served > 0 && at(a).P99MS <= s.SLOMS }))
	row("not answered", func(a *Act) string {
		o := at(a)
		total := float64(o.Refused+o.TimedOut+o.Failed) / (o.To - o.From)
		switch {
		case o.Refused == 0:
			return fmt.Sprintf("%.0f/s timed out after %g s", float64(o.TimedOut)/(o.To-o.From), s.TimeoutMS/1000)
		case o.TimedOut+o.Failed == 0:
			return fmt.Sprintf("%.0f/s refused after %.0f ms", total, o.RefusalP50MS)
		}
		return fmt.Sprintf("%.0f/s refused, %.0f/s timed out", float64(o.Refused)/(o.To-o.From), float64(o.TimedOut)/(o.To-o.From))
	}, nil)
	row("after the overload", func(a *Act) string { return recovered(a, &s) },
		mark(func(a *Act) bool { return a.Outcome.Recovery >= 0 && a.Outcome.Recovery <= 1 }))
	row("wasted work", func(a *Act) string {
		r, _ := a.Service("store")
		if r.Work == nil || r.Work.Finished == 0 {
			return "–"
		}
		return fmt.Sprintf("%.1f %% of the store's work", 100*float64(r.Work.Wasted)/float64(r.Work.Finished))
	}, nil)
	row("generator's lag", func(a *Act) string {
		text := fmt.Sprintf("p99 %.2f ms", a.Outcome.LagP99MS)
		if !a.Outcome.Valid {
			text += ", INVALID"
		}
		return text
	}, mark(func(a *Act) bool { return a.Outcome.Valid }))
	if bad := s.Invalid(); bad != "" {
		t.Note = "This run does not count: " + bad + ". Something else kept this machine busy; run it again."
	}
	return t
}

// noAnswer stands where a latency would, if nothing was served: a latency of 0 ms would look like the best of all.
const noAnswer = "none, nothing was served"

// p99 says the 99th percentile of what was served in a step, beside the objective.
func p99(o stage.StepStats, s *State) string {
	if o.Served == 0 {
		return noAnswer
	}
	return fmt.Sprintf("%.0f ms, objective %.0f", o.P99MS, s.SLOMS)
}

// served is a latency of a step in a column of numbers, a dash if nothing was served.
func served(o stage.StepStats, ms float64) any {
	if o.Served == 0 {
		return "–"
	}
	return ms
}

func steps(s State) *table.Table {
	t := &table.Table{
		Title: "every step of the load",
		Columns: []table.Column{
			{Name: "act"}, {Name: "load"}, {Name: "offered", Unit: "1/s", Format: "%.0f"}, {Name: "goodput", Unit: "1/s", Format: "%.0f"},
			{Name: "SLO met", Unit: "%", Format: "%.1f"}, {Name: "p50", Unit: "ms", Format: "%.0f"}, {Name: "p99", Unit: "ms", Format: "%.0f"},
			{Name: "refused", Unit: "1/s", Format: "%.0f"}, {Name: "timed out", Unit: "1/s", Format: "%.0f"},
		},
		Note: fmt.Sprintf("Latency from the instant a request was meant to leave; objective %.0f ms, callers give up after %g s.", s.SLOMS, s.TimeoutMS/1000),
	}
	for _, a := range s.Acts {
		for i, o := range a.Outcome.Steps {
			seconds := o.To - o.From
			t.Add(a.Name, s.Steps[i].Name, o.Offered, o.Goodput, 100*o.Attainment, served(o, o.P50MS), served(o, o.P99MS),
				float64(o.Refused)/seconds, float64(o.TimedOut)/seconds)
		}
	}
	return t
}

func refusals(s State) *table.Table {
	t := &table.Table{Title: "where the gated act refused requests, and why", Columns: []table.Column{{Name: "reason"}}}
	for _, place := range Places() {
		t.Columns = append(t.Columns, table.Column{Name: place})
	}
	gated := &s.Acts[1]
	var order []string
	counts := map[string]map[string]uint64{}
	for _, shed := range gated.Sheds {
		if counts[shed.Reason] == nil {
			order = append(order, shed.Reason)
			counts[shed.Reason] = map[string]uint64{}
		}
		counts[shed.Reason][shed.Where] += shed.Count
	}
	for _, reason := range order {
		row := []any{strings.ReplaceAll(reason, "_", " ")}
		for _, place := range Places() {
			row = append(row, counts[reason][place])
		}
		t.Add(row...)
	}
	return t
}
