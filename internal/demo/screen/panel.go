package screen

import (
	"fmt"
	"math"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/stage"
)

// figures are the numbers of an act that a panel shows: those of the last half
// second while it runs, those of the overload afterwards.
type figures struct {
	offered, goodput, p50, p99 float64
}

// none reports whether nothing was served of what was offered: then there is no latency.
func (v figures) none() bool { return v.p99 == 0 && v.offered > 0 }

// took is one of the latencies, a dash if there is none.
func (v figures) took(ms float64) string {
	if v.none() {
		return "–"
	}
	return fmt.Sprintf("%.0f", ms)
}

// tail returns how the p99 of v is written, and its layer: where none was served it is bad, and no layer is late.
func (l *look) tail(v figures, sloMS float64) (lipgloss.Style, layer) {
	switch {
	case v.none():
		return l.bad, layerP99
	case v.p99 > sloMS:
		return l.bad, layerLate
	}
	return l.good, layerP99
}

func figuresOf(s *demo.State, a *demo.Act) figures {
	if o := a.Outcome; o != nil && len(o.Steps) > s.Overload() {
		step := o.Steps[s.Overload()]
		return figures{step.Offered, step.Goodput, step.P50MS, step.P99MS}
	}
	p := a.Last()
	return figures{p.Offered, p.Goodput, p.P50MS, p.P99MS}
}

// panel draws one act.
func (l *look) panel(s *demo.State, a *demo.Act, width, height int) []string {
	inside := width - 4
	free := height - fixedLines
	top := min((free+1)/2, tallest)
	bottom := min(free-top, tallest)
	v := figuresOf(s, a)

	title := a.Name
	switch over := s.Steps[s.Overload()]; {
	case a.Outcome != nil && !a.Outcome.Valid:
		title += ": does not count"
	case a.Outcome != nil:
		title += fmt.Sprintf(", figures at %s", over.Name)
	case a.Name == string(demo.Plain):
		title += ", no gates"
	default:
		title += ", the same load"
	}

	var rows []string
	good := l.good
	if v.goodput < 0.9*min(v.offered, s.Capacity.Rate) {
		good = l.bad
	}
	share := 0.0
	if s.Capacity.Rate > 0 {
		share = 100 * v.goodput / s.Capacity.Rate
	}
	capacity := ""
	if inside >= 60 {
		capacity = l.faint.Render(fmt.Sprintf(" ┄ capacity %.0f", s.Capacity.Rate))
	}
	rows = append(rows, l.key(layerGood)+"goodput "+good.Render(fmt.Sprintf("%4.0f/s %3.0f%%", v.goodput, share))+" "+l.key(layerOffered)+fmt.Sprintf("offered %4.0f", v.offered)+capacity)
	rows = append(rows, l.loadChart(s, a, inside, top)...)
	p99, key := l.tail(v, s.SLOMS)
	rows = append(rows, l.key(layerP50)+fmt.Sprintf("p50 %4s ", v.took(v.p50))+l.key(key)+"p99 "+p99.Render(fmt.Sprintf("%4s ms", v.took(v.p99)))+l.faint.Render(fmt.Sprintf(" ┄ SLO %.0f", s.SLOMS)))
	rows = append(rows, l.latencyChart(s, a, inside, bottom)...)
	rows = append(rows, l.lost(a, inside)...)
	rows = append(rows, l.store(s, a)...)
	return l.box(title, rows, width, len(rows)+2)
}

// key is the sign of a layer in front of its name.
func (l *look) key(layer layer) string {
	if l.mono {
		return string(monoFull[layer]) + " "
	}
	return l.r.NewStyle().Foreground(l.charts[layer]).Render("█") + " "
}

// lost says what became of requests without an answer, in five lines.
func (l *look) lost(a *demo.Act, width int) []string {
	t := a.Totals
	if a.Name == string(demo.Plain) {
		return []string{
			l.title.Render("timed out ") + count(t.TimedOut),
			l.faint.Render("in flight ") + count(uint64(max(a.InFlight, 0))),
			l.faint.Render("refused   ") + "nothing is refused",
			"", "",
		}
	}
	rows := []string{l.title.Render("refused ") + count(t.Refused) + l.faint.Render("  timed out ") + count(t.TimedOut)}
	most := uint64(1)
	for _, place := range demo.Places() {
		most = max(most, a.ShedAt(place))
	}
	const name, number = 7, 7
	bar := 0
	if width >= 64 {
		bar = 20
	}
	for _, place := range demo.Places() {
		n := a.ShedAt(place)
		row := l.faint.Render(fmt.Sprintf("%-*s", name, place))
		if bar > 0 {
			full := int(math.Ceil(float64(n) / float64(most) * float64(bar)))
			row += l.accent.Render(strings.Repeat("█", full)) + strings.Repeat(" ", bar-full) + " "
		}
		row += fmt.Sprintf("%*s", number, count(n))
		var why []string
		for _, shed := range a.Sheds {
			if shed.Where != place {
				continue
			}
			text := strings.ReplaceAll(shed.Reason, "_", " ")
			if bar > 0 {
				text += " " + count(shed.Count)
			}
			why = append(why, text)
		}
		rows = append(rows, row+"  "+l.faint.Render(strings.Join(why, ", ")))
	}
	return rows
}

// store says how the store is, or once the act is over how it went, in two
// lines.
func (l *look) store(s *demo.State, a *demo.Act) []string {
	r, _ := a.Service("store")
	if r.Work == nil {
		r.Work = &stage.Work{}
	}
	if a.Outcome != nil {
		vain := 0.0
		if r.Work.Finished > 0 {
			vain = 100 * float64(r.Work.Wasted) / float64(r.Work.Finished)
		}
		after := l.bad.Render("did not recover in time")
		if seconds := a.Outcome.Recovery; seconds >= 0 {
			style := l.good
			if seconds > 1 {
				style = l.bad
			}
			after = style.Render(fmt.Sprintf("recovered in %.2f s", seconds))
		}
		return []string{l.faint.Render("after it  ") + after, l.faint.Render("in vain   ") + fmt.Sprintf("%.0f%% of the store's work", vain)}
	}
	rows := []string{l.faint.Render("store  ") + fmt.Sprintf("busy %d/%d  queue %s", r.Work.Busy, r.Work.Workers, count(uint64(r.Work.Queued)))}
	if !r.Gated {
		return append(rows, l.faint.Render("       no limit, no credits"))
	}
	return append(rows, l.faint.Render("       ")+fmt.Sprintf("slots %d/%d  credits %d/%d", r.Running, r.Limit, r.Granted, r.Credits))
}
