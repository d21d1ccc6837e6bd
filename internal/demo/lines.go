package demo

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spillgate/spillgate/internal/demo/stage"
)

// Lines writes what happens as lines of text: each scene as it begins, and about
// a line a second. It is the view for a file or a pipe. It is not safe for
// concurrent use.
type Lines struct {
	out    io.Writer
	scene  Scene
	tries  int
	second float64
	step   int
	order  string
	run    int // of the act of the culprit, from 1
	named  int // the run whose culprit was told
	fed    int // of the act of the broker, from 1
}

// NewLines returns a view that writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{out: w, step: -1} }

// Show writes what is new in s.
func (l *Lines) Show(s State) {
	if s.Scene != l.scene {
		l.scene, l.second, l.step = s.Scene, math.Inf(-1), -1
		if !s.Scene.Over() {
			fmt.Fprintf(l.out, "%5.1fs  %s\n", s.Elapsed, s.Note)
		}
	}
	for ; l.tries < len(s.Capacity.Tries); l.tries++ {
		t := s.Capacity.Tries[l.tries]
		load := fmt.Sprintf("%d in flight", t.InFlight)
		if t.InFlight == 0 {
			load = fmt.Sprintf("%.0f/s, open loop", t.Load)
		}
		fmt.Fprintf(l.out, "%5.1fs    %-16s  goodput %5.0f/s  p99 %4.0f ms\n", s.Elapsed, load, t.Goodput, t.P99MS)
	}
	switch s.Scene {
	case Sharing:
		l.tenants(s)
		return
	case Checkout:
		l.checkouts(s)
		return
	case Seizing:
		l.culprit(s)
		return
	case Flooding:
		l.flood(s)
		return
	}
	if s.Scene != Plain && s.Scene != Gated || len(s.Acts) == 0 {
		return
	}
	a := &s.Acts[len(s.Acts)-1]
	if len(a.Points) == 0 {
		return
	}
	p := a.Last()
	if i := s.Step(p.T - 1e-3); i != l.step {
		l.step = i
		fmt.Fprintf(l.out, "%5.1fs    load %s of %.0f requests/s\n", s.Elapsed, s.Steps[i].Name, s.Capacity.Rate)
	}
	if p.T-l.second < 1-1e-3 {
		return
	}
	l.second = p.T
	text := fmt.Sprintf("%5.1fs    offered %5.0f/s  goodput %5.0f/s  p50 %s  p99 %s", s.Elapsed, p.Offered, p.Goodput, took(p, p.P50MS, 4), took(p, p.P99MS, 4))
	if p.TimedOut > 0 {
		text += fmt.Sprintf("  timed out %.0f/s", p.TimedOut)
	}
	for _, reason := range Reasons() {
		if n := p.Shed[reason]; n > 0 {
			text += fmt.Sprintf("  %s %.0f/s", strings.ReplaceAll(reason, "_", " "), n)
		}
	}
	fmt.Fprintln(l.out, text)
}

// tenants writes a line a second about all tenants.
func (l *Lines) tenants(s State) {
	a := s.Tenants
	if a == nil {
		return
	}
	at := a.Settled()
	if !l.due(s, at, a.Steps) {
		return
	}
	text := fmt.Sprintf("%5.1fs  ", s.Elapsed)
	for i := range a.Each {
		t := &a.Each[i]
		p := t.Last()
		text += fmt.Sprintf("  %s: goodput %4.0f of %4.0f/s  p99 %s", t.Name, p.Goodput, p.Offered, took(p, p.P99MS, 3))
		if lost := shedRate(p) + p.TimedOut; lost > 0 {
			text += fmt.Sprintf("  not answered %.0f/s", lost)
		}
	}
	fmt.Fprintln(l.out, text)
}

// checkouts writes a line a second about checkouts and reads.
func (l *Lines) checkouts(s State) {
	o := s.Checkout.Running()
	if o == nil {
		return
	}
	if o.Name != l.order {
		if l.order != "" { // the scene's own line said so of the first
			fmt.Fprintf(l.out, "%5.1fs  %s\n", s.Elapsed, s.Note)
		}
		l.order, l.second, l.step = o.Name, math.Inf(-1), -1
	}
	at := min(o.Kind(stage.Checkouts).Last().T, o.Kind(stage.Reads).Last().T)
	if !l.due(s, at, s.Checkout.Steps) {
		return
	}
	text := fmt.Sprintf("%5.1fs  ", s.Elapsed)
	for _, k := range o.Kinds {
		p := k.Last()
		text += fmt.Sprintf("  %s: %4.0f/s  mean %3.0f ms  p95 %3.0f ms", k.Name, p.Offered, p.MeanMS, p.P95MS)
	}
	if w, ok := o.Weight(); ok {
		text += fmt.Sprintf("  weight of checkouts %.2f", w)
	}
	fmt.Fprintln(l.out, text)
}

// culprit writes a line a second about the reads of the store, and one about whom its
// gate cancelled.
func (l *Lines) culprit(s State) {
	r := s.Culprit.Running()
	if r == nil {
		return
	}
	l.begun(s, len(s.Culprit.Runs), &l.run)
	if r.Named != nil && l.named != l.run {
		l.named = l.run
		fmt.Fprintf(l.out, "%5.1fs    cancelled: %s, which held the %s; %.0f waited for it\n", s.Elapsed, r.Verdict(), r.Named.Resource, r.Named.Victims)
	}
	p := r.Last()
	if !l.due(s, p.T, s.Culprit.Steps) {
		return
	}
	text := fmt.Sprintf("%5.1fs    goodput %4.0f of %4.0f/s  p99 %s", s.Elapsed, p.Goodput, p.Offered, took(p, p.P99MS, 4))
	if lost := shedRate(p) + p.TimedOut; lost > 0 {
		text += fmt.Sprintf("  not answered %.0f/s", lost)
	}
	fmt.Fprintln(l.out, text)
}

// flood writes a line a second about the topics that keep to their rate, and the one that
// does not.
func (l *Lines) flood(s State) {
	r := s.Feed.Running()
	if r == nil {
		return
	}
	l.begun(s, len(s.Feed.Runs), &l.fed)
	p := r.Last()
	if !l.due(s, p.T, s.Feed.Steps) {
		return
	}
	text := fmt.Sprintf("%5.1fs    %d topics: goodput %4.0f of %4.0f/s  p99 %s", s.Elapsed, s.Feed.Topics, p.Goodput, p.Offered, took(p, p.P99MS, 4))
	if p.TimedOut > 0 {
		text += fmt.Sprintf("  given up %.0f/s", p.TimedOut)
	}
	if r.Flooded.Sent > 0 {
		text += fmt.Sprintf("  the flood: sent %d, came %d", r.Flooded.Sent, r.Flooded.Came)
	}
	fmt.Fprintln(l.out, text)
}

// begun writes what a run of an act is when it begins: the n-th, where told is the last one of which it wrote.
func (l *Lines) begun(s State, n int, told *int) {
	if n == *told {
		return
	}
	if n > 1 { // the scene's own line said so of the first
		fmt.Fprintf(l.out, "%5.1fs  %s\n", s.Elapsed, s.Note)
	}
	*told, l.second, l.step = n, math.Inf(-1), -1
}

// due reports whether a second has passed since the last line of an act, whose newest point is of the instant at. It
// writes which of the act's steps has begun.
func (l *Lines) due(s State, at float64, steps []StepState) bool {
	if at == 0 || at-l.second < 1-1e-3 {
		return false
	}
	if i := stepAt(steps, at-1e-3); i != l.step {
		l.step = i
		fmt.Fprintf(l.out, "%5.1fs    %s\n", s.Elapsed, steps[i].Name)
	}
	l.second = at
	return true
}

// took is a latency of a point, in so many columns: a dash where nothing was served.
func took(p stage.Point, ms float64, width int) string {
	if p.P99MS == 0 {
		return fmt.Sprintf("%*s ms", width, "–")
	}
	return fmt.Sprintf("%*.0f ms", width, ms)
}
