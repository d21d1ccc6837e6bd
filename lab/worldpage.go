package lab

import (
	"fmt"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/world"
)

// worldPage returns the report of a world: plots over time, and the tables.
func worldPage(w *world.World, results []played, seed uint64) *plot.Report {
	page := &plot.Report{Title: w.Name, Run: plot.ThisRun(seed)}
	page.Text(describeWorld(w))
	goodput := &plot.Chart{Title: "Goodput over time", X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "goodput", Unit: "requests/s"}, Spans: faultSpans(w)}
	for i := range results {
		p := &results[i]
		if i == 0 {
			x, y := p.overTime(func(c *world.Counts) int { return c.Offered })
			goodput.Series = append(goodput.Series, plot.Series{Name: "offered", X: x, Y: y, Dashed: true})
		}
		x, y := p.overTime(func(c *world.Counts) int { return c.Good })
		goodput.Series = append(goodput.Series, plot.Series{Name: p.policy, X: x, Y: y})
	}
	page.Chart(goodput)
	for s := range w.Services {
		if c := limitChart(w, results, s); len(c.Series) > 0 {
			page.Chart(c)
		}
	}
	for _, t := range worldTables(w, results) {
		page.Table(t)
	}
	return page
}

// limitChart shows the limits of a service over time, of the first seed.
func limitChart(w *world.World, results []played, s int) *plot.Chart {
	c := &plot.Chart{Title: "Limit of " + w.Services[s].Name, X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "limit", Unit: "requests at once"}, Spans: faultSpans(w)}
	for i := range results {
		r := results[i].reports[0]
		series := plot.Series{Name: results[i].policy}
		some := false
		for k, limit := range r.Services[s].Limits {
			series.X = append(series.X, float64(k+1)*r.Bin.Seconds())
			series.Y = append(series.Y, float64(limit))
			some = some || limit > 0
		}
		if some {
			c.Series = append(c.Series, series)
		}
	}
	return c
}

// maxSpans is the most repetitions of a fault that are shaded: the first ones.
const maxSpans = 50

// faultSpans returns when faults last, each repetition for itself.
func faultSpans(w *world.World) []plot.Span {
	var spans []plot.Span
	for _, f := range w.Faults {
		what := "stopped"
		switch {
		case f.Kill:
			what = "killed"
		case f.Slower > 0:
			what = fmt.Sprintf("%gx slower", f.Slower)
		}
		name := f.Service + " " + what
		for k, at := 0, f.At; k < maxSpans && at < w.Length; k, at = k+1, at+f.Every {
			spans = append(spans, plot.Span{Name: name, From: at.Seconds(), To: min(at+f.For, w.Length).Seconds()})
			name = "" // once is enough
			if f.Every == 0 {
				break
			}
		}
	}
	return spans
}
