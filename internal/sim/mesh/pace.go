package mesh

import (
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/world"
)

// pace is how fast a process works while faults last.
type pace struct {
	slower []float64 // of the faults that last
	stops  int       // how many stop it
}

// factor returns how many times longer work takes. Stops are apart.
func (p *pace) factor() float64 {
	f := 1.0
	for _, s := range p.slower {
		f *= s
	}
	return f
}

// pass lets the time of a step pass.
func (w *World) pass(c *call, s *step) {
	p := c.process
	ns := c.chance.of(drawTime, uint64(c.pc)).draw(&s.draw)
	c.state, c.began, c.ends = working, w.Now(), mono.Never
	if s.kind == stepCompute && p.host != nil {
		w.give(p, job{kind: jobCompute, who: c.id, gen: c.gen, left: ns * p.pace.factor()})
		return
	}
	if s.kind == stepWait && p.thronged() {
		w.jostle(c, ns)
		return
	}
	c.left, c.since = ns, w.Now()
	w.armWait(c)
}

// armWait schedules the end of a wait at the present pace.
func (w *World) armWait(c *call) {
	if c.process.pace.stops > 0 {
		c.ends = mono.Never
		return
	}
	c.ends = w.Now().Add(durationOf(c.left * c.process.pace.factor()))
	w.engine.AlongLane(laneWork, c.ends, event{endWait, c.id, c.gen})
}

// passed goes on with c after a wait or a computation.
func (w *World) passed(c *call) {
	c.state = resuming
	c.pc++
	w.resume(c)
}

// changePace lets change change p's pace; what is under way goes on at the new one.
func (w *World) changePace(p *process, change func(*pace)) {
	before, stopped := p.pace.factor(), p.pace.stops > 0
	if p.host != nil {
		p.pace.stops++ // it must not go on before the change
		w.preempt(p)
		p.pace.stops--
	}
	w.catchUp(p)
	change(&p.pace)
	w.armThrong(p)
	after := p.pace.factor()
	for i := p.jobs.head; i < len(p.jobs.buf); i++ {
		if p.jobs.buf[i].kind == jobCompute {
			p.jobs.buf[i].left *= after / before
		}
	}
	for _, c := range w.calls {
		if c.root == nil || c.process != p || c.state != working {
			continue
		}
		s := &w.program.steps[c.pc]
		if s.kind == stepWait && p.thronged() {
			continue
		}
		if s.kind != stepWait && (s.kind != stepCompute || p.host != nil) {
			continue
		}
		if !stopped {
			c.left = max(c.left-float64(w.Now().Sub(c.since))/before, 0)
		}
		c.since = w.Now()
		w.armWait(c)
	}
	w.serve(&p.resources[0])
	if p.host != nil {
		w.makeReady(p)
		w.dispatch(p.host)
	}
}

// faultBegins lets a fault of a described world begin.
func (w *World) faultBegins(i int32) {
	f := &w.cfg.described.world.Faults[i]
	w.after(f.For, event{faultEnds, i, 0})
	if f.Every > 0 {
		w.after(f.Every, event{faultBegins, i, 0})
	}
	if f.Vanish > 0 {
		w.clientsVanish(i, f)
	}
	w.struck(f, func(p *process) {
		switch {
		case f.Slower > 0:
			w.changePace(p, func(k *pace) { k.slower = append(k.slower, f.Slower) })
		case f.Stop:
			w.changePace(p, func(k *pace) { k.stops++ })
		case f.Kill && p.alive:
			w.kill(p)
		}
	})
}

// faultEnds undoes it. A process that two faults killed starts after the first.
func (w *World) faultEnds(i int32) {
	f := &w.cfg.described.world.Faults[i]
	w.struck(f, func(p *process) {
		switch {
		case f.Slower > 0:
			w.changePace(p, func(k *pace) { k.recover(f.Slower) })
		case f.Stop:
			w.changePace(p, func(k *pace) { k.stops-- })
		case f.Kill && !p.alive:
			w.restart(p)
		}
	})
}

// recover takes out a factor.
func (p *pace) recover(factor float64) {
	for i, s := range p.slower {
		if s == factor {
			p.slower = append(p.slower[:i], p.slower[i+1:]...)
			return
		}
	}
}

// struck calls do for the processes that a fault happens to.
func (w *World) struck(f *world.Fault, do func(*process)) {
	for i := range w.cfg.Services {
		if w.cfg.Services[i].Name != f.Service {
			continue
		}
		for k, p := range w.services[i].processes {
			if f.Replica == 0 || f.Replica == k+1 {
				do(p)
			}
		}
	}
}
