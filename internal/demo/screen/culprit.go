package screen

import (
	"fmt"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/stage"
)

// culpritLines are the lines of a run's panel that are no chart.
const culpritLines = 8

// seized draws a panel for each run, side by side and with the same scales. The
// second one's place is empty before it begins.
func (l *look) seized(s *demo.State, width, height int) []string {
	half := width / 2
	left, right := l.seizure(s, 0, half, height), l.seizure(s, 1, width-half, height)
	for i := range left {
		left[i] += right[i]
	}
	return left
}

// readsOf returns the figures that a panel shows: those of the report's time once it
// is over, those of the last half second before.
func readsOf(r *demo.LockRun) figures {
	if o, ok := r.During(); ok && !r.Running {
		return figures{o.Offered, o.Goodput, o.P50MS, o.P99MS}
	}
	p := r.Last()
	return figures{p.Offered, p.Goodput, p.P50MS, p.P99MS}
}

// seizure draws one of them.
func (l *look) seizure(s *demo.State, i, width, height int) []string {
	inside := width - 4
	free := max(height-culpritLines, 2)
	top := min((free+1)/2, tallest)
	bottom := min(max(free-top, 1), tallest)
	a := s.Culprit
	title := []string{"plain, no gate", "gated, culprit cancelled"}[i]
	r := &demo.LockRun{Name: []string{string(demo.Plain), string(demo.Gated)}[i]}
	switch {
	case i >= len(a.Runs):
		title += ", next"
	default:
		if r = &a.Runs[i]; !r.Running {
			title = r.Name + ", figures of that time"
		}
		if r.Outcome != nil && !r.Outcome.Valid {
			title = r.Name + ": does not count"
		}
	}
	own := *s
	own.ActLength, own.Steps, own.Capacity.Rate = a.Length, a.Steps, a.Rate
	name := func(text string) string { return l.faint.Render(fmt.Sprintf("%-11s", text)) }
	rows := l.served(&own, r.Points, readsOf(r), inside, top, bottom)
	rows = append(rows,
		name("timed out")+count(r.Totals.TimedOut), name("refused")+count(r.Totals.Refused),
		name("cancelled")+r.Verdict(), name("the report")+r.Fate())
	return l.box(title, rows, width, len(rows)+2)
}

// served draws the load and the latency of one run of an act, each with its figures above.
func (l *look) served(own *demo.State, points []stage.Point, v figures, width, top, bottom int) []string {
	act := demo.Act{Points: points}
	good, p99, key := l.good, l.good, layerP99
	if v.goodput < 0.9*v.offered {
		good = l.bad
	}
	if v.p99 > own.SLOMS {
		p99, key = l.bad, layerLate
	}
	if v.none() {
		p99 = l.bad
	}
	rows := []string{l.key(layerGood) + "goodput " + good.Render(fmt.Sprintf("%3.0f/s", v.goodput)) + " " + l.key(layerOffered) + fmt.Sprintf("offered %3.0f/s", v.offered)}
	rows = append(rows, l.loadChart(own, &act, width, top)...)
	rows = append(rows, l.key(layerP50)+fmt.Sprintf("p50 %4s ", v.took(v.p50))+l.key(key)+"p99 "+p99.Render(fmt.Sprintf("%4s ms", v.took(v.p99)))+l.faint.Render(fmt.Sprintf(" ┄ SLO %.0f", own.SLOMS)))
	return append(rows, l.latencyChart(own, &act, width, bottom)...)
}
