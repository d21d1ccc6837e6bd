package demo

import (
	"fmt"
	"strings"

	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/plot"
)

// WriteReport writes the report of a finished demo into dir and returns the path
// of its page.
func WriteReport(dir string, s State) (string, error) {
	r := &plot.Report{Title: "Spillgate demo: the same overload, plain and gated, tenants who share, checkouts in a flood of reads, and a culprit", Run: plot.ThisRun(s.Seed)}
	r.Text(s.Summary())
	r.Text(fmt.Sprintf("Three services, entry, middle and store, run as processes of their own on loopback and call each other over gRPC. "+
		"An open-loop generator sends them Poisson arrivals over %d connections, the same ones in both acts. "+
		"The load is a multiple of %.0f requests/s, the capacity measured in this run; the store's workers can do %.0f, which nobody was told. "+
		"In the gated act every service stands behind a gate that knows the objective of %.0f ms and nothing else, and every client holds credits.",
		s.Conns, s.Capacity.Rate, s.Capacity.Nominal, s.SLOMS))
	if s.Capacity.Doubt != "" {
		r.Text("The capacity is in doubt: " + s.Capacity.Doubt + ".")
	}
	if s.Complete() {
		r.Table(comparison(s))
		for _, c := range charts(s) {
			r.Chart(c)
		}
		r.Table(steps(s))
		if t := refusals(s); t.Len() > 0 {
			r.Table(t)
		}
	}
	if s.Tenants.Complete() {
		r.Text(fmt.Sprintf("In the third act tenants %s share the services over %d connections each. The gates give every tenant a rate, "+
			"and its turn in the queue; nobody told them who is who. A request's tenant is the workflow in its tags.",
			strings.Join(s.Tenants.names(), ", "), s.Tenants.Conns))
		r.Table(tenants(s))
		for _, c := range tenantCharts(s) {
			r.Chart(c)
		}
	}
	if a := s.Checkout; a.Complete() {
		r.Text(fmt.Sprintf("In the fourth act checkouts go to %s, one after the other, each a process of its own with %d workers of %.0f ms; a read goes to one of them. "+
			"Both orders get the same requests at the same instants, and servers with the same service times. First every server serves in order of arrival; "+
			"then it learns which requests go on to further servers, and weighs the two classes in its queue: a checkout waits in every queue, a read in one. "+
			"Only the order changes. No worker is idle with a request at hand, so what checkouts gain reads pay, as the conservation law has it: "+
			"little, since there are many more of them.",
			strings.Join(a.Servers, ", "), a.Workers, a.MeanMS))
		r.Table(checkouts(s))
		for _, c := range checkoutCharts(s) {
			r.Chart(c)
		}
		if t := classes(s); t.Len() > 0 {
			r.Table(t)
		}
	}
	if a := s.Culprit; a.Complete() {
		r.Text(fmt.Sprintf("In the last act reads of a store hold its lock for a moment each, and then a report takes it for %.1f s. It comes twice, to a store "+
			"of its own, with the same reads at the same instants: first without a gate, then behind one that knows who holds the lock and cancels who keeps the others waiting. "+
			"The report's caller is told so, with a token to come again with; here it does not.", a.HeldMS/1000))
		r.Table(culprits(s))
		r.Chart(culpritChart(s))
	}
	return r.Write(dir)
}

// charts returns the pictures of both acts.
func charts(s State) []*plot.Chart {
	series := func(a Act, name string, value func(stage.Point) float64) plot.Series {
		out := plot.Series{Name: name}
		for _, p := range a.Points {
			out.X = append(out.X, p.T)
			out.Y = append(out.Y, value(p))
		}
		return out
	}
	over := s.Steps[s.Overload()]
	spans := []plot.Span{{Name: over.Name, From: over.From, To: over.To}}
	time := plot.Axis{Label: "time", Unit: "s"}
	plain, gated := s.Acts[0], s.Acts[1]

	offered := series(gated, "offered", func(p stage.Point) float64 { return p.Offered })
	offered.Dashed = true
	load := &plot.Chart{
		Title: "Offered load and goodput", X: time, Y: plot.Axis{Label: "requests", Unit: "1/s"}, Spans: spans,
		Series: []plot.Series{
			series(gated, "gated", func(p stage.Point) float64 { return p.Goodput }),
			series(plain, "plain", func(p stage.Point) float64 { return p.Goodput }),
			offered,
		},
		Levels: []plot.Level{{Name: "capacity", At: s.Capacity.Rate}},
	}
	latency := &plot.Chart{
		Title: "Latency of answers", X: time, Y: plot.Axis{Label: "latency", Unit: "ms", Log: true}, Spans: spans,
		Series: []plot.Series{
			series(gated, "gated p99", func(p stage.Point) float64 { return p.P99MS }),
			series(plain, "plain p99", func(p stage.Point) float64 { return p.P99MS }),
			series(gated, "gated p50", func(p stage.Point) float64 { return p.P50MS }),
			series(plain, "plain p50", func(p stage.Point) float64 { return p.P50MS }),
		},
		Levels: []plot.Level{{Name: fmt.Sprintf("SLO %.0f ms", s.SLOMS), At: s.SLOMS}},
	}
	lost := &plot.Chart{
		Title: "Requests not answered", X: time, Y: plot.Axis{Label: "requests", Unit: "1/s"}, Spans: spans,
		Series: []plot.Series{
			series(gated, "gated: refused", shedRate),
			series(plain, "plain: timed out", func(p stage.Point) float64 { return p.TimedOut }),
		},
	}
	return []*plot.Chart{load, latency, lost}
}

// shedRate is the refusals of a point, for whatever reason.
func shedRate(p stage.Point) float64 {
	total := 0.0
	for _, n := range p.Shed {
		total += n
	}
	return total
}
