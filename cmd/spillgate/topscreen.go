package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/table"
)

// topLook draws views for one output; colours are there on a terminal alone, and say
// nothing that the text does not.
type topLook struct{ bold, faint, bad lipgloss.Style }

func newTopLook(w io.Writer) *topLook {
	r := lipgloss.NewRenderer(w)
	return &topLook{bold: r.NewStyle().Bold(true), faint: r.NewStyle().Faint(true), bad: r.NewStyle().Foreground(lipgloss.Color("1")).Bold(true)}
}

// screen returns a view as lines of at most width columns.
func (l *topLook) screen(v *topView, width int) string {
	var out strings.Builder
	line := func(style lipgloss.Style, text string) {
		for part := range strings.SplitSeq(ansi.Wrap(text, width, ""), "\n") {
			out.WriteString(style.Render(part) + "\n")
		}
	}
	line(l.bold, fmt.Sprintf("spillgate top  %s  sources: %d", v.At.Format(time.TimeOnly), len(v.Sources)))
	for i := range v.Sources {
		s := &v.Sources[i]
		out.WriteString("\n")
		line(l.bold, strings.TrimSpace(clean(strings.Join([]string{s.Kind, s.Name, s.Phase}, " "))))
		if s.Error != "" {
			line(l.bad, "cannot be read: "+clean(s.Error))
		}
		if len(s.Gates) > 0 {
			out.WriteString(fit(gatesTable(s.Gates), width))
			for k := range s.Gates {
				for _, text := range gateLines(&s.Gates[k]) {
					line(l.faint, text)
				}
			}
			if slices.ContainsFunc(s.Gates, func(g topGate) bool { return g.Rate != nil && len(g.Rate.Sheds)+len(g.Rate.Would) > 0 }) {
				line(l.faint, "why a request was refused: spillgate explain "+clean(s.Name))
			}
		}
		for _, k := range s.KeptOut {
			line(l.bad, clean(fmt.Sprintf("kept out: %s for %s, because %s", k.Route, seconds(k.For), k.Cause)))
		}
		if s.Broker != nil {
			l.broker(line, &out, s.Broker, width)
		}
		for k := range s.Apps {
			l.app(line, &out, &s.Apps[k], width)
		}
	}
	return out.String()
}

// broker draws what a broker carries.
func (l *topLook) broker(line func(lipgloss.Style, string), out *strings.Builder, b *topBroker, width int) {
	for _, text := range brokerLines(b) {
		line(l.faint, text)
	}
	if len(b.Topics) == 0 {
		return
	}
	out.WriteString(fit(topicsTable(b.Topics), width))
	for i := range b.Topics {
		for _, text := range topicLines(&b.Topics[i]) {
			line(l.faint, text)
		}
	}
}

// app draws one application whose tasks are watched.
func (l *topLook) app(line func(lipgloss.Style, string), out *strings.Builder, a *guard.Status, width int) {
	style, state := l.faint, a.State
	if a.Why != "" {
		state += " (" + a.Why + ")"
	}
	switch a.State {
	case "idle", "normal", "connecting":
	default:
		style = l.bad
	}
	line(style, clean(fmt.Sprintf("%s  %s: %s", a.Server, a.Mode, state)))
	line(l.faint, fmt.Sprintf("slo %s  in flight %d  late %d  stuck %d  %s/s (normally %s/s)", seconds(a.Objective), a.InFlight, a.Late, a.Stuck, short(a.Throughput), short(a.Baseline)))
	if a.Blind != "" {
		line(l.bad, "cannot be seen: "+clean(a.Blind))
	}
	for _, n := range a.Notes {
		line(l.faint, "note: "+clean(n))
	}
	for _, t := range []*table.Table{lostTable(a.Lost), presentTable("holds", a.Holding), presentTable("waits for", a.Waiting), candidatesTable(a.Candidates), cancelsTable(a.Cancels), keptOutTable(a.KeptOut)} {
		if t.Len() > 0 {
			out.WriteString(fit(t, width))
		}
	}
}

// fit draws a table, and cuts lines that cannot be made narrow enough.
func fit(t *table.Table, width int) string {
	var out strings.Builder
	for part := range strings.SplitSeq(strings.TrimRight(t.Text(width), "\n"), "\n") {
		out.WriteString(ansi.Truncate(part, width, "…") + "\n")
	}
	return out.String()
}

func gatesTable(gates []topGate) *table.Table {
	t := &table.Table{Columns: columns("gate", "mode", "load/s", "good/s", "slots", "queue", "delay", "slo")}
	for _, g := range gates {
		load, good := "", ""
		if r := g.Rate; r != nil {
			load, good = short(r.Load), short(r.Good)
		}
		t.Add(clean(g.Name), clean(g.Mode), load, good, fmt.Sprintf("%d/%d", g.Running, g.Limit), fmt.Sprint(g.Waiting), seconds(g.Delay), seconds(g.Objective))
	}
	return t
}

// gateLines says in words what a row of numbers cannot: refusals, culprits, what is wrong.
func gateLines(g *topGate) (all []string) {
	say := func(what, text string) {
		if text != "" {
			all = append(all, clean(g.Name+"  "+what+text))
		}
	}
	if r := g.Rate; r != nil {
		say("refused/s: ", reasons(r.Sheds))
		say("would refuse/s: ", reasons(r.Would))
	} else {
		say("refused so far: ", reasons(g.Total.Sheds))
		say("would have refused so far: ", reasons(g.Total.Would))
	}
	culprit := g.Culprit
	switch culprit {
	case "idle", "normal":
		culprit = ""
	case "overload":
		culprit = "none, an overload"
	}
	for _, n := range []struct {
		verb string
		n    float64
	}{{"cancelled", g.Cancelled}, {"would cancel", g.WouldCancel}} {
		if n.n > 0 {
			culprit = strings.TrimPrefix(culprit+", "+n.verb+" "+short(n.n), ", ")
		}
	}
	if v := reasons(g.Verdicts); v != "" {
		culprit += " (" + v + ")"
	}
	say("culprits: ", culprit)
	say("", strings.Join(g.Notes, ", "))
	return all
}

func lostTable(lost map[string]float64) *table.Table {
	t := &table.Table{Columns: columns("contention", "", "lost")}
	names := slices.SortedFunc(maps.Keys(lost), func(a, b string) int {
		if lost[a] != lost[b] {
			return int(math.Copysign(1, lost[b]-lost[a]))
		}
		return strings.Compare(a, b)
	})
	for _, name := range names[:min(len(names), 6)] {
		share := min(max(lost[name], 0), 1)
		t.Add(clean(name), strings.Repeat("█", int(math.Round(share*20))), fmt.Sprintf("%.0f %%", 100*share))
	}
	return t
}

func presentTable(verb string, list []guard.Present) *table.Table {
	t := &table.Table{Columns: columns("who", "what", verb, "for", "behind")}
	for _, p := range list {
		behind := ""
		if p.Behind != 0 {
			behind = fmt.Sprint(p.Behind)
		}
		t.Add(who(&p.Task), what(&p.Task), clean(p.Resource), seconds(p.For), behind)
	}
	return t
}

func candidatesTable(list []guard.CandidateStatus) *table.Table {
	t := &table.Table{Columns: columns("candidate", "what", "resource", "score", "victims", "age", "saves", "why not")}
	for _, c := range list {
		t.Add(who(&c.Task), what(&c.Task), clean(c.Resource), fmt.Sprintf("%.2f", c.Score), short(c.Victims), seconds(c.Age), seconds(c.Net), clean(c.Why))
	}
	return t
}

// cancelsTable shows the last five cancels, newest first.
func cancelsTable(list []guard.Cancel) *table.Table {
	t := &table.Table{Columns: columns("at", "cancel", "who", "what", "resource", "result")}
	for _, c := range slices.Backward(list[max(0, len(list)-5):]) {
		result := c.Verdict
		switch {
		case c.Error != "":
			result = "failed: " + c.Error
		case c.Would:
			result = "would: the mode is monitor"
		case !c.Met:
			result = "came too late"
		case c.Verdict != "":
			result += " after " + seconds(c.After)
		}
		t.Add(c.At.Format(time.TimeOnly), clean(c.Step), who(&c.Task), what(&c.Task), clean(c.Resource), clean(result))
	}
	return t
}

// keptOutTable shows the kinds of which no other should begin.
func keptOutTable(list []guard.KeptOut) *table.Table {
	t := &table.Table{Columns: columns("kept out", "kind", "took from others", "for")}
	for _, k := range list[:min(len(list), mostShown)] {
		t.Add(clean(k.Route), ansi.Truncate(clean(k.Fingerprint), 6, ""), clean(k.Resource), seconds(k.For))
	}
	return t
}

func who(t *guard.Task) string {
	return clean(strings.TrimSpace(fmt.Sprintf("%d %s", t.Process, t.User)))
}

// what says what a task does: its statement, or kind and the start of the fingerprint.
func what(t *guard.Task) string {
	if t.Statement != "" {
		return ansi.Truncate(clean(t.Statement), 48, "…")
	}
	return strings.TrimSpace(clean(t.Kind) + " " + ansi.Truncate(clean(t.Fingerprint), 6, ""))
}

func columns(names ...string) (all []table.Column) {
	for _, n := range names {
		all = append(all, table.Column{Name: n})
	}
	return all
}

// reasons lists numbers by name, largest first.
func reasons(of map[string]float64) string {
	var all []string
	for _, name := range slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		if of[a] != of[b] {
			return int(math.Copysign(1, of[b]-of[a]))
		}
		return strings.Compare(a, b)
	}) {
		all = append(all, name+" "+short(of[name]))
	}
	return strings.Join(all, ", ")
}

// short writes a number for people: three digits at least, and no more decimals than
// they need.
func short(v float64) string {
	if v >= 10 || v == math.Trunc(v) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// seconds writes a duration in seconds for people.
func seconds(s float64) string {
	switch a := math.Abs(s); {
	case s == 0:
		return "0"
	case a < 0.01:
		return fmt.Sprintf("%.2gms", s*1e3)
	case a < 1:
		return fmt.Sprintf("%.0fms", s*1e3)
	case a < 100:
		return fmt.Sprintf("%.1fs", s)
	}
	return fmt.Sprintf("%.0fs", s)
}

// clean takes out what could steer a terminal: names come from other programs.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, s)
}
