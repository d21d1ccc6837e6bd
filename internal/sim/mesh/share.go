package mesh

import (
	"errors"
	"strconv"

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
	if w.methods == nil {
		for stage := range w.program.stages {
			w.methods = append(w.methods, strconv.Itoa(stage))
		}
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

// weigh tells p's queues the controller's weight.
func (w *World) weigh(p *process) {
	for i := range p.resources {
		if q, ok := p.resources[i].queue.(*ordered); ok {
			p.share.Weigh(q.SetWeight)
		}
	}
}

// classify gives c, which is about to run its stage, its class.
func (w *World) classify(c *call) {
	s := c.process.share
	switch w.cfg.Workflows[c.root.workflow].Class {
	case Interactive:
		c.class = work.Interactive
	case NonInteractive:
		c.class = work.Default
	default:
		if s != nil {
			c.class = s.classes.Classify(w.key(c))
		}
	}
	if s != nil {
		s.Admitted(c.class)
		s.report.Calls[c.root.workflow][c.class]++
	}
}

// key is what a process can see of a call: who calls, and which method.
func (w *World) key(c *call) share.Key {
	return share.Key{Caller: c.link.from.place.Service, Callee: c.process.place.Service, Method: w.methods[c.stage]}
}

// learn takes what came of c, which took r at its process.
func (w *World) learn(c *call, r progress.Result, good bool) {
	s := c.process.share
	switch {
	case good:
		// At the entry the total is known. Further on it is what the entry expects.
		total := r.Service
		if c.link.from.service != noService {
			total = max(c.root.total, total)
		}
		now := w.Now()
		v := control.Begin(w.key(c), c.class, now.Add(-r.Wall), c.deadline)
		s.End(now, &v, work.Done, r.Waited, r.Own, false, share.Course{Hops: c.hops, Total: total, Service: r.Service, Own: r.Own})
	case c.canceled && c.class == work.Interactive:
		s.GaveUp(c.class, r.Wall)
	case c.canceled && r.Own == 0:
		s.GaveUp(c.class, r.Waited)
	}
}
