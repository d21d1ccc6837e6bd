package screen

import (
	"fmt"
	"strings"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/stage"
)

// orderLines are the lines of an order's panel that are no chart.
const orderLines = 9

// orders draws a panel for each order, side by side and with the same scales. The
// second one's place is empty before it begins.
func (l *look) orders(s *demo.State, width, height int) []string {
	half := width / 2
	left := l.order(s, demo.FIFO, half, height)
	right := l.order(s, demo.Shares, width-half, height)
	for i := range left {
		left[i] += right[i]
	}
	return left
}

// scale returns the longest latency that both panels have room for: the largest p95
// so far, but for what a single half second may show beyond three times its mean.
func scale(a *demo.CheckoutAct, kind string) float64 {
	most := 0.0
	for i := range a.Orders {
		for _, p := range a.Orders[i].Kind(kind).Points {
			most = max(most, min(p.P95MS, 3*p.MeanMS))
		}
	}
	return 1.05 * most
}

// timesOf returns the latencies of a kind that a panel shows: those of the flood
// once the order is over, those of the last half second before.
func timesOf(o *demo.OrderState, kind string) (mean, p95 float64) {
	if f, ok := o.Flood(kind); ok && !o.Running {
		return f.MeanMS, f.P95MS
	}
	p := o.Kind(kind).Last()
	return p.MeanMS, p.P95MS
}

// known writes a latency; there is none before the first answers.
func known(ms float64) string {
	if ms <= 0 {
		return "  –"
	}
	return fmt.Sprintf("%3.0f", ms)
}

// order draws one of them.
func (l *look) order(s *demo.State, name string, width, height int) []string {
	inside := width - 4
	free := max(height-orderLines, 3)
	top := min((free+1)/3, tallest)
	bottom := min((free-top+1)/2, tallest)
	last := min(free-top-bottom, tallest)
	a := s.Checkout
	o := a.Order(name)
	title := map[string]string{demo.FIFO: "fifo, first come, first served", demo.Shares: "shares, the same requests"}[name]
	if o == nil {
		o = &demo.OrderState{Name: name}
		title += ", next"
	} else if !o.Running {
		title = name + ", figures of the flood"
	}
	own := demo.State{ActLength: a.Length, Steps: a.Steps}
	var rows []string
	for i, kind := range []string{stage.Checkouts, stage.Reads} {
		mean, p95 := timesOf(o, kind)
		rows = append(rows, fmt.Sprintf("%-10s", kind)+l.key(layerP50)+"mean "+l.title.Render(known(mean))+"  "+l.key(layerP99)+"p95 "+known(p95)+" ms")
		act := demo.Act{Points: o.Kind(kind).Points}
		rows = append(rows, l.timesChart(&own, &act, scale(a, kind), inside, [2]int{top, bottom}[i])...)
	}
	rows = append(rows, l.weights(&own, o, inside, last)...)
	rows = append(rows, l.verdict(a, o, inside)...)
	return l.box(title, rows, width, len(rows)+2)
}

// timesChart draws the mean before the p95.
func (l *look) timesChart(s *demo.State, a *demo.Act, most float64, width, height int) []string {
	columns := make([]column, width)
	for x, points := range sample(s, a, width) {
		mean, p95 := 0.0, 0.0
		for _, p := range points {
			mean, p95 = mean+p.MeanMS/float64(len(points)), p95+p.P95MS/float64(len(points))
		}
		columns[x] = column{toEighths(mean/most, height), toEighths(p95/most, height), layerP50, layerP99}
	}
	return l.area(columns, height, -1, marks(s, width))
}

// weights draws the mean of the servers' weights, from 0 to 1, in a line and a
// chart.
func (l *look) weights(s *demo.State, o *demo.OrderState, width, height int) []string {
	if o.Name != demo.Shares {
		out := []string{l.faint.Render("weight    ") + "none, in order of arrival"}
		for range height {
			out = append(out, "")
		}
		return out
	}
	text := "not yet"
	if w, ok := o.Weight(); ok {
		text = "checkouts " + l.title.Render(fmt.Sprintf("%.2f", w)) + fmt.Sprintf("  reads %.2f", 1-w)
	}
	columns := make([]column, width)
	for x := range columns {
		if w, ok := weightAt(o, s.ActLength*(float64(x)+0.5)/float64(width)); ok {
			at := toEighths(w, height)
			columns[x] = column{at, at, layerGood, layerGood}
		}
	}
	return append([]string{l.faint.Render("weight    ") + text}, l.area(columns, height, -1, marks(s, width))...)
}

// weightAt returns the mean of the servers' weights at a time, and false where
// none is known, or not yet.
func weightAt(o *demo.OrderState, t float64) (float64, bool) {
	sum, n := 0.0, 0
	if o.Running && t > o.Elapsed {
		return 0, false
	}
	for _, w := range o.Weights {
		for i := len(w.Points) - 1; i >= 0; i-- {
			if w.Points[i].T <= t {
				sum += w.Points[i].Weight
				n++
				break
			}
		}
	}
	return sum / float64(max(n, 1)), n > 0
}

// whys say in few words what a class was decided by, at the first server.
var whys = map[string]string{
	"unknown": "too few seen", "few": "too few seen", "hops": "it goes on", "total": "it goes on",
	"history": "it went on", "neither": "it ends here",
}

// verdict says in four lines what the order made of the flood.
func (l *look) verdict(a *demo.CheckoutAct, o *demo.OrderState, inside int) []string {
	name := func(s string) string { return l.faint.Render(fmt.Sprintf("%-10s", s)) }
	if o.Name == demo.FIFO {
		way := strings.Join(a.Servers, " → ")
		if len([]rune(way)) > inside-10 {
			way = fmt.Sprintf("all %d servers in turn", len(a.Servers))
		}
		lost := uint64(0)
		for _, k := range o.Kinds {
			lost += k.Totals.Refused + k.Totals.TimedOut + k.Totals.Failed
		}
		return []string{
			name("checkout") + way,
			name("read") + "one of them",
			name("server") + fmt.Sprintf("%d workers, %.0f ms, %.0f/s", a.Workers, a.MeanMS, a.Capacity),
			name("lost") + count(lost),
		}
	}
	why := func(verdict func(demo.WeightState) stage.Verdict) string {
		if len(o.Weights) == 0 || verdict(o.Weights[0]).Class == "" {
			return "unknown"
		}
		v := verdict(o.Weights[0])
		if says := whys[v.Why]; says != "" {
			return v.Class + ", " + says
		}
		return v.Class + ", " + v.Why
	}
	rows := []string{
		name("checkout") + why(func(w demo.WeightState) stage.Verdict { return w.Checkout }),
		name("read") + why(func(w demo.WeightState) stage.Verdict { return w.Read }),
	}
	if _, over := o.Flood(stage.Checkouts); !over || o.Running {
		return append(rows, name("change")+"when it is over", "")
	}
	change := func(kind string) string {
		c := a.Change(kind)
		style := l.good
		if c > 0 {
			style = l.bad
		}
		return kind + " " + style.Render(fmt.Sprintf("%+.0f%%", 100*c))
	}
	lost := uint64(0)
	for _, k := range o.Kinds {
		lost += k.Totals.Refused + k.Totals.TimedOut + k.Totals.Failed
	}
	return append(rows, name("mean")+change(stage.Checkouts)+"  "+change(stage.Reads), name("lost")+count(lost))
}
