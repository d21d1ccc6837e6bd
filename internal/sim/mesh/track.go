package mesh

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/progress"
)

// track begins to measure c, which has just arrived.
func (w *World) track(c *call) {
	if !w.tracked {
		return
	}
	now := w.Now()
	c.span.Begin(now)
	c.span.BeginWait(now)
	if c.link.from.service == noService {
		r := c.root
		name := w.cfg.Workflows[r.workflow].Name
		r.total, r.totalWork, _ = c.process.totals.Expect(name)
		r.least = c.process.totals.Least(name)
	}
}

// trackCall begins to measure a call that p makes.
func (w *World) trackCall(p, c *call) {
	if !w.tracked {
		return
	}
	now := w.Now()
	so := p.span.At(now)
	c.elapsed, c.worked = p.elapsed+so.Service, p.worked+so.Work
	c.callID = p.span.CallBegin(now)
}

// trackAnswer takes what a call of p took. A refused call took nothing, and one
// that failed on the way says nothing.
func (w *World) trackAnswer(p, c *call) {
	if w.tracked {
		p.hops += 1 + c.hops
		p.span.CallEnd(w.Now(), c.callID, c.service, c.work, c.why.kind == none || c.why.kind == shed)
	}
}

// trackEnd ends the measurement of c.
func (w *World) trackEnd(c *call, good bool) {
	if !w.tracked {
		return
	}
	r := c.span.End(w.Now())
	c.service, c.work = r.Service, r.Work
	if c.process.share != nil {
		w.learn(c, r, good)
	}
	if r.Service > r.Wall {
		w.err = fmt.Errorf("mesh: a call to %s reports %v of service in %v", c.process.place.Service, r.Service, r.Wall)
	}
	if !good {
		return
	}
	of := c.process.parts
	if c.link.from.service == noService {
		of = c.process.totals
	}
	of.OnDone(w.Now(), w.cfg.Workflows[c.root.workflow].Name, r.Service, r.Work)
}

// remaining returns the service that c's request still needs, 0 if unknown.
func (w *World) remaining(c *call) time.Duration {
	if !w.tracked {
		return 0
	}
	return progress.Remaining(c.root.total, c.elapsed+c.span.At(w.Now()).Service)
}

// surely returns the service that c's request still needs but for few, for
// schedule.Task.Least: by what whole requests of the workflow take, or by what its
// calls take at this process and below, whichever is more. Near the end of a request
// the first says nothing, for some requests are over by then.
func (w *World) surely(c *call) time.Duration {
	if !w.tracked {
		return 1
	}
	so := c.span.At(w.Now()).Service
	least := progress.Remaining(c.root.least, c.elapsed+so)
	if c.link.from.service != noService {
		least = max(least, progress.Remaining(c.process.parts.Least(w.cfg.Workflows[c.root.workflow].Name), so))
	}
	return max(least, 1)
}
