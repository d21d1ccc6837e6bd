package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/world"
)

// tally counts what a world.Report tells. A nil tally counts nothing.
type tally struct {
	world  *world.World
	report world.Report
	// latency and told are per group.
	latency, told []sim.Histogram
	who           []origins // per client
}

// origins are a client's group and its number in it.
type origins struct{ group, client int32 }

// binLength is the length of the bins of a world.Report, unless that made more than
// mostBins.
const (
	binLength = 100 * time.Millisecond
	mostBins  = 6000
)

func (w *World) startTally(d *world.World) {
	t := &tally{world: d, latency: make([]sim.Histogram, len(d.Clients)), told: make([]sim.Histogram, len(d.Clients))}
	w.tally = t
	t.report = world.Report{World: d.Name, Policy: w.cfg.Control.Name, Seed: w.cfg.Seed, Measured: d.Length - d.Warmup, Bin: binLength}
	for t.report.Bin*mostBins < d.Length {
		t.report.Bin *= 2
	}
	t.report.Bins = make([]world.Counts, (d.Length+t.report.Bin-1)/t.report.Bin)
	for i := range d.Clients {
		t.report.Groups = append(t.report.Groups, world.GroupReport{Name: d.Clients[i].Name, Clients: make([]world.Counts, d.Clients[i].Clients)})
	}
	for i := range d.Services {
		t.report.Services = append(t.report.Services, world.ServiceReport{Name: d.Services[i].Name})
	}
	for i := range w.clients {
		c := &w.clients[i]
		k := c.via - w.firstClient[c.group]
		t.who = append(t.who, origins{c.group, k / int32(d.Clients[c.group].Connections)})
	}
	w.after(t.report.Bin, event{kind: endTallyBin})
}

// counts calls f with the counters that r belongs to.
func (t *tally) counts(r *root, f func(*world.Counts)) {
	since := r.intended.Sub(origin)
	if i := int(since / t.report.Bin); i < len(t.report.Bins) {
		f(&t.report.Bins[i])
	}
	if since >= t.world.Warmup {
		o := t.who[r.client]
		g := &t.report.Groups[o.group]
		f(&g.Counts)
		f(&g.Clients[o.client])
	}
}

// counted reports whether r is part of the totals.
func (t *tally) counted(r *root) bool { return r.intended.Sub(origin) >= t.world.Warmup }

func (w *World) enter(r *root) {
	if w.tally != nil {
		w.tally.counts(r, func(c *world.Counts) { c.Offered++ })
	}
}

func (w *World) countSent(c *call) {
	if w.tally != nil && c.link.from.service == noService {
		w.tally.counts(c.root, func(c *world.Counts) { c.Attempts++ })
	}
}

// good reports whether an answer after some time is in time: for the caller, and for the
// objective of a described world.
func (w *World) good(r *root, took time.Duration) bool {
	d := w.cfg.described
	return (r.budget == 0 || took <= r.budget) && (d == nil || took <= d.world.Objective)
}

// patient reports whether a client waits beyond its deadlines.
func (w *World) patient(client int32) bool {
	d := w.cfg.described
	return d != nil && d.world.Clients[w.clients[client].group].Patient
}

// answered counts an answer after some time.
func (t *tally) answered(r *root, took time.Duration) {
	if t == nil {
		return
	}
	t.counts(r, func(c *world.Counts) {
		if r.good {
			c.Good++
		} else {
			c.Late++
		}
	})
	if t.counted(r) {
		t.latency[t.who[r.client].group].Add(took)
	}
}

// failed counts a request that got no answer, as its client learns at now.
func (w *World) failed(r *root, why cause) {
	t := w.tally
	if t == nil {
		return
	}
	if why.kind != shed {
		t.counts(r, func(c *world.Counts) { c.Failed++ })
		return
	}
	t.counts(r, func(c *world.Counts) { c.Refused++ })
	if t.counted(r) {
		group := t.who[r.client].group
		t.report.Groups[group].Reasons[why.reason]++
		t.told[group].Add(w.Now().Sub(r.intended))
	}
}

// expired counts a request that was given up.
func (t *tally) expired(r *root) {
	if t != nil {
		t.counts(r, func(c *world.Counts) { c.Expired++ })
	}
}

// at returns the counters of a service, nil where nothing counts at an instant since
// the start.
func (t *tally) at(service int32, since time.Duration) *world.ServiceReport {
	if t == nil || since < t.world.Warmup {
		return nil
	}
	return &t.report.Services[service]
}

func (t *tally) refused(service int32, since time.Duration) {
	if s := t.at(service, since); s != nil {
		s.Refused++
	}
}

// begun notes that c took a worker, or needs none.
func (w *World) begun(c *call) {
	c.heldFrom = w.Now()
	if s := w.tally.at(c.process.service, w.Since()); s != nil {
		s.Begun++
	}
}

// ended notes that the work on c is over.
func (w *World) ended(c *call, why cause) {
	s := w.tally.at(c.process.service, w.Since())
	if s == nil || c.heldFrom == 0 {
		return
	}
	s.Busy += w.Now().Sub(c.heldFrom)
	if why.kind == none {
		s.Finished++
	}
	if !c.open {
		s.Wasted++
	}
}

// noteLimits ends a bin.
func (w *World) noteLimits() {
	for i := range w.services {
		r := &w.tally.report.Services[i]
		r.Limits = append(r.Limits, limitOf(w.services[i].processes[0].policy))
	}
	w.after(w.tally.report.Bin, event{kind: endTallyBin})
}

// limitOf returns a policy's limit on what runs, 0 if it has none.
func limitOf(door baseline.Door) int {
	if g := gateOf(door); g != nil {
		return g.Slots().Limit()
	}
	if d, ok := door.(interface{ Limit() int }); ok {
		return d.Limit()
	}
	return 0
}

// Measured returns what a described world measured so far, and nil for another.
func (w *World) Measured() *world.Report {
	if w.tally == nil {
		return nil
	}
	out := w.tally.report
	out.Groups = append([]world.GroupReport(nil), out.Groups...)
	for i := range out.Groups {
		l := &w.tally.latency[i]
		out.Groups[i].P50, out.Groups[i].P99, out.Groups[i].Max = l.Quantile(0.5), l.Quantile(0.99), l.Max()
		out.Groups[i].Told = w.tally.told[i].Quantile(0.99)
	}
	return &out
}
