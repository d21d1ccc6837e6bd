package mesh

import (
	"errors"
	"strconv"

	"github.com/spillgate/spillgate/internal/mono"
	control "github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// sharing is what a process knows of its two classes.
type sharing struct {
	*control.Shares
	classes *share.Classifier
	report  *ProcessShare
}

// bootShare gives p a controller and a classifier for its new life. Periods of
// different processes begin at different times.
func (w *World) bootShare(p *process) {
	cfg := *w.cfg.Control.Share
	if cfg.Servers == 0 {
		cfg.Servers = float64(p.place.Workers)
	}
	classes, errClass := share.NewClassifier(share.ClassifierConfig{})
	shares, err := control.NewShares(cfg, classes)
	if err = errors.Join(err, errClass); err != nil {
		w.err = err
		return
	}
	report := &ProcessShare{Service: p.place.Service, Process: p.place.Process, Life: p.life, Calls: make([][work.NumClasses]int, len(w.cfg.Workflows))}
	w.shares = append(w.shares, report)
	p.share = &sharing{shares, classes, report}
	w.weigh(p)
	period := cfg.Period
	if period == 0 {
		period = share.DefaultPeriod
	}
	phase := durationOf(draws(w.cfg.Seed).of(drawPhase, uint64(p.id)).unit() * float64(period))
	w.engine.At(w.Now().Add(phase), event{wakeShare, p.id, int32(p.life)})
}

// wakeShareOf lets p's controller end a period.
func (w *World) wakeShareOf(p *process) {
	s := p.share
	d := s.OnWake(w.Now())
	w.weigh(p)
	s.report.At, s.report.Decisions = append(s.report.At, w.Since()), append(s.report.Decisions, d)
	w.engine.At(s.NextWake(), event{wakeShare, p.id, int32(p.life)})
}

// weigh tells p's node and the queues of its resources the controller's weight.
func (w *World) weigh(p *process) {
	p.share.Weigh(p.door.SetWeight)
	for i := range p.resources {
		if q, ok := p.resources[i].queue.(*ordered); ok {
			p.share.Weigh(q.SetWeight)
		}
	}
}

// classify gives c, which has just arrived, its class: by who calls, and which method.
func (w *World) classify(c *call) {
	c.class = work.Default
	if w.cfg.Workflows[c.root.workflow].Class == Interactive {
		c.class = work.Interactive
	}
	s := c.process.share
	if s == nil {
		return
	}
	if w.methods == nil {
		for stage := range w.program.stages {
			w.methods = append(w.methods, strconv.Itoa(stage))
		}
	}
	key := share.Key{Caller: c.link.from.place.Service, Callee: c.process.place.Service, Method: w.methods[c.stage]}
	c.class = control.Classify(s.classes, key, c.class)
	c.visit = control.Begin(key, c.class, w.Now(), c.deadline)
	s.report.Calls[c.root.workflow][c.class]++
}

// gaveUp takes a call whose caller left while it waited for the node.
func (s *sharing) gaveUp(now mono.Time, c *call) {
	if s != nil {
		s.GaveUpWaiting(now, &c.visit)
	}
}

// end takes how a call ended that was let in, and what it took. The server that the
// classes share is the resource which it works on, so that who leaves before it had any
// of it gave up waiting.
func (s *sharing) end(now mono.Time, c *call, o work.Outcome, r progress.Result) {
	if o == work.Ignored && r.Own == 0 {
		s.GaveUp(c.visit.Class, c.ticket.Queued()+r.Waited)
		return
	}
	did := share.Course{Hops: c.made, Total: c.tags.Elapsed.Service + r.Service, Service: r.Service, Own: r.Own}
	s.End(now, &c.visit, o, c.ticket.Queued()+r.Waited, r.Own, c.canceled, did)
}
