package screen

import (
	"fmt"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/stage"
)

// pane is what the panel of one run of an act shows: an act that is played without control, and then with it.
type pane struct {
	// run is nil before it begins.
	run *demo.Run
	// what is the run and its control, over whose figures are shown once it has ended: those of a step of the act.
	what, over string
	step       int
	// The act's length in seconds, its steps, and the load of the chart.
	length float64
	steps  []demo.StepState
	rate   float64
	// rest are names and texts below the charts.
	rest [][2]string
}

// paneLines are the lines of a panel that are no chart: the borders, the figures of two charts, and four of rest.
const paneLines = 8

// pair draws the panels of both runs side by side and with the same scales. The second one's place is empty before it
// begins.
func (l *look) pair(s *demo.State, width, height int, of func(i int) pane) []string {
	half := width / 2
	left, right := l.pane(s, of(0), half, height), l.pane(s, of(1), width-half, height)
	for i := range left {
		left[i] += right[i]
	}
	return left
}

func (l *look) pane(s *demo.State, p pane, width, height int) []string {
	inside := width - 4
	free := max(height-paneLines, 2)
	top := min((free+1)/2, tallest)
	bottom := min(max(free-top, 1), tallest)
	title, r := p.what, p.run
	switch {
	case r == nil:
		title, r = title+", next", &demo.Run{}
	case r.Outcome != nil && !r.Outcome.Valid:
		title = r.Name + ": does not count"
	case !r.Running:
		title = r.Name + ", figures of " + p.over
	}
	own := *s
	own.ActLength, own.Steps, own.Capacity.Rate = p.length, p.steps, p.rate
	rows := l.served(&own, r.Points, figuresOfRun(r, p.step), inside, top, bottom)
	for _, x := range p.rest {
		rows = append(rows, l.faint.Render(fmt.Sprintf("%-11s", x[0]))+x[1])
	}
	return l.box(title, rows, width, len(rows)+2)
}

// figuresOfRun returns the figures that a panel shows: those of the step once the run is over, those of the last half
// second before.
func figuresOfRun(r *demo.Run, step int) figures {
	if o, ok := r.During(step); ok && !r.Running {
		return figures{o.Offered, o.Goodput, o.P50MS, o.P99MS}
	}
	p := r.Last()
	return figures{p.Offered, p.Goodput, p.P50MS, p.P99MS}
}

// served draws the load and the latency of one run of an act, each with its figures above.
func (l *look) served(own *demo.State, points []stage.Point, v figures, width, top, bottom int) []string {
	act := demo.Act{Points: points}
	good := l.good
	if v.goodput < 0.9*v.offered {
		good = l.bad
	}
	p99, key := l.tail(v, own.SLOMS)
	rows := []string{l.key(layerGood) + "goodput " + good.Render(fmt.Sprintf("%3.0f/s", v.goodput)) + " " + l.key(layerOffered) + fmt.Sprintf("offered %3.0f/s", v.offered)}
	rows = append(rows, l.loadChart(own, &act, width, top)...)
	rows = append(rows, l.key(layerP50)+fmt.Sprintf("p50 %4s ", v.took(v.p50))+l.key(key)+"p99 "+p99.Render(fmt.Sprintf("%4s ms", v.took(v.p99)))+l.faint.Render(fmt.Sprintf(" ┄ SLO %.0f", own.SLOMS)))
	return append(rows, l.latencyChart(own, &act, width, bottom)...)
}
