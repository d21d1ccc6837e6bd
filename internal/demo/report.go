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
	r := &plot.Report{Title: "Spillgate demo: the same overload, plain and gated; tenants that share; checkouts in a flood of reads; a culprit; a topic that floods", Run: plot.ThisRun(s.Seed)}
	r.Text(s.Summary())
	r.Text(fmt.Sprintf("Three services, entry, middle and store, run as separate processes on loopback and call each other over gRPC. "+
		"An open-loop generator sends them Poisson arrivals over %d connections, the same arrivals in both acts. "+
		"The load is a multiple of %.0f requests/s, the capacity measured in this run. The store's workers can do %.0f, which no gate knows. "+
		"In the gated act each service stands behind a gate that knows the objective of %.0f ms and nothing else, and each client uses credits.",
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
		r.Text(fmt.Sprintf("In the third act tenants %s share the services over %d connections each. The gates give each tenant a rate "+
			"and its turn in the queue, and let a request wait for its rate for half of the objective; no tenant is configured. A request's tenant is the workflow in its tags.",
			strings.Join(s.Tenants.names(), ", "), s.Tenants.Conns))
		r.Table(tenants(s))
		for _, c := range tenantCharts(s) {
			r.Chart(c)
		}
	}
	if a := s.Checkout; a.Complete() {
		r.Text(fmt.Sprintf("In the fourth act checkouts go to %s, one after the other, each a separate process with %d workers of %.0f ms; a read goes to one of them. "+
			"Both orders get the same requests at the same instants and the same service times. First each server serves in order of arrival. "+
			"Then it learns which requests go on to further servers, and weighs the two classes in its queue, because a checkout waits in every queue and a read in one. "+
			"Only the order changes. No worker is idle while a request waits, so by the conservation law the reads pay for what the checkouts gain: "+
			"a little each, because there are many more reads.",
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
		r.Text(fmt.Sprintf("In the fifth act reads of a store hold its lock for a moment each, and then a report takes the lock for %.1f s. This is played twice, on two stores, "+
			"with the same reads at the same instants: first without a gate, then behind a gate that knows which request holds the lock and cancels the one that blocks the others. "+
			"The report's caller learns that, and gets a token to send the report again; here it does not.", a.HeldMS/1000))
		r.Table(culprits(s))
		r.Chart(culpritChart(s))
	}
	if s.Feed.Complete() {
		feedReport(r, s)
	}
	return r.Write(dir)
}

// feedReport writes what the act of the broker shows.
func feedReport(r *plot.Report, s State) {
	a := s.Feed
	r.Text(fmt.Sprintf("In the last act %d topics of %.0f messages/s each go through a message broker to one consumer, which takes %.0f ms for a message, so it can do %.0f/s. "+
		"Then one more topic sends %.0f/s. Without limits the broker passes on what comes, and the consumer is behind with all topics. "+
		"With a limit of %.0f/s and a burst of %.0f for each topic, what is too much of the one waits in its own queue or is dropped. Both runs get the same messages at the same instants; "+
		"latency is from the instant a message was meant to leave until the consumer is done with it.",
		a.Topics, a.Rate, a.WorkMS, 1000/a.WorkMS, a.Flood, a.Limit, a.Burst))
	r.Table(feeds(s))
	r.Chart(feedChart(s))
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
