package mesh

import (
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// start lets c run its stage.
func (w *World) start(c *call) {
	c.process.running++
	if c.measured {
		c.span.Begin(w.Now()) // the waits before it are over
	}
	if s := c.process.share; s != nil {
		s.Admitted(c.visit.Class, 1)
	}
	c.pc = w.program.stages[c.stage].first
	w.advance(c)
}

// advance runs c's steps until one has to wait.
func (w *World) advance(c *call) {
	last := w.program.stages[c.stage].last
	for c.pc < last {
		s := &w.program.steps[c.pc]
		r := &c.process.resources[s.resource]
		switch s.kind {
		case stepWork:
			if w.acquire(c, r, s.mean) {
				w.beginWork(c, s)
			}
			return
		case stepHold:
			if !w.acquire(c, r, 0) {
				return
			}
			w.keep(c, r)
		case stepFree:
			w.letGo(c, r)
		case stepCalls:
			c.state, c.callAt, c.callLeft = calling, s.first, -1
			if w.makeCalls(c, s) {
				return
			}
		case stepWait, stepCompute:
			w.pass(c, s)
			return
		case stepBegin:
			w.begun(c)
		}
		c.pc++
	}
	w.finish(c, cause{}, work.None)
}

// makeCalls makes the calls of step s that are due, and reports whether any is
// pending.
func (w *World) makeCalls(c *call, s *step) bool {
	for k := c.upcoming(&w.program, s, c.chance); k != nil; k = c.upcoming(&w.program, s, c.chance) {
		w.callDown(c, k)
		if !s.parallel {
			return true
		}
	}
	return c.pending > 0
}

// childDone goes on with p, one of whose calls was answered well.
func (w *World) childDone(p *call) {
	s := &w.program.steps[p.pc]
	if s.parallel && p.pending > 0 || !s.parallel && w.makeCalls(p, s) {
		return
	}
	p.pc++
	p.state = resuming
	w.advance(p)
}

// beginWork occupies the unit that c has just got.
func (w *World) beginWork(c *call, s *step) {
	ns := c.chance.of(drawTime, uint64(c.pc)).time(s.mean, s.shape) / c.process.speed
	c.state, c.began, c.need = working, w.Now(), durationOf(ns)
	c.process.resources[s.resource].took(c.began, c)
	w.engine.AlongLane(laneWork, c.began.Add(c.need), event{endWork, c.id, c.gen})
}

func (w *World) endWork(c *call) {
	p := c.process
	c.root.busy += c.need
	p.busy += c.need
	r := &p.resources[w.program.steps[c.pc].resource]
	c.state = resuming
	c.pc++
	settle(r.queue, c, c.need)
	w.free(c, r, c.began)
	w.resume(c)
}

// resume goes on with c after a wait, unless it was canceled meanwhile.
func (w *World) resume(c *call) {
	if c.canceled {
		w.finish(c, cause{kind: gaveUp}, work.Canceled)
		return
	}
	w.advance(c)
}

// hopeless drops c, which waited for a resource until that made no sense.
func (w *World) hopeless(c *call) {
	c.state = resuming
	why := cause{kind: shed, reason: work.Infeasible}
	w.countShed(c.process.service, why.reason)
	w.finish(c, why, why.reason)
}

// fail ends c because a call of its failed.
func (w *World) fail(c *call, why cause) {
	w.dropChildren(c)
	why.nested = true
	w.finish(c, why, work.Downstream)
}

func (w *World) dropChildren(c *call) {
	for c.children != nil {
		w.drop(c.children)
	}
}

// finish ends the callee's side of c. why is zero if all went well; as is what the
// caller's policy sees of it.
func (w *World) finish(c *call, why cause, as work.Reason) {
	for c.holds != nil {
		w.letGo(c, c.holds.resource)
	}
	p := c.process
	c.state = notHere
	w.ended(c, why)
	if c.abandoned {
		c.there = false
		w.release(c)
		return
	}
	p.running--
	w.leaveDoor(c, why)
	c.feedback.Reason = as
	w.reply(c, why)
	w.pumpDoor(p)
}

// leaveDoor tells the node and the class shares that c is over.
func (w *World) leaveDoor(c *call, why cause) {
	p, now := c.process, w.Now()
	outcome := work.Done
	switch why.kind {
	case none:
	case gaveUp:
		outcome = work.Ignored
	default:
		outcome = work.Dropped
	}
	w.look(p)
	outcome, _ = p.door.End(now, &c.ticket, outcome)
	var r progress.Result
	if c.measured {
		r = c.span.End(now)
		c.took = wire.Progress{Service: r.Service, Work: r.Work}
		if r.Service > r.Wall {
			w.err = fmt.Errorf("mesh: a call to %s reports %v of service in %v", p.place.Service, r.Service, r.Wall)
		}
	}
	if c.stay.Measured && why.kind == none {
		p.door.Took(now, &c.ticket, r, outcome)
	}
	p.door.Leave(now, &c.ticket, outcome)
	c.feedback = baseline.Feedback{}
	p.door.Reply(now, &c.ticket, &c.feedback)
	if p.share != nil {
		p.share.end(now, c, outcome, r)
	}
}

// here returns what c has taken at its process and below up to now.
func (c *call) here(now mono.Time) wire.Progress {
	if !c.measured {
		return wire.Progress{}
	}
	r := c.span.At(now)
	return wire.Progress{Service: r.Service, Work: r.Work}
}

// reply sends the answer, or nothing if the caller has given up.
func (w *World) reply(c *call, why cause) {
	c.why = why
	if !c.open {
		c.there = false
		w.release(c)
		return
	}
	if f := &c.feedback; f.HasGrant {
		f.HasGrant = w.spoil(note{link: c.link, grant: f.Grant, life: c.process.life})
	}
	if why.kind != lost {
		if w.charge(c.process, job{kind: jobAnswer, who: c.id, gen: c.gen}) {
			c.state = answering
			return
		}
	}
	w.engine.AlongLane(laneMessage, w.down(c.link), event{replyAtCaller, c.id, c.gen})
}

func durationOf(ns float64) time.Duration {
	return time.Duration(math.Min(math.Max(math.Round(ns), 0), math.MaxInt64/4))
}
