package mesh

import (
	"errors"
	"fmt"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/rates"
)

// Audit recounts the world's books from the state of every call: requests inside,
// units of resources, tickets at doors, calls outstanding on links. It returns
// the differences. It walks the whole world: for checks after an event.
func (w *World) Audit() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("mesh: "+format, args...)) }
	type atProcess struct{ queued, running, credited int }
	at := make([]atProcess, len(w.processes))
	out := make([]int32, len(w.links))
	taken := map[*resource]int32{}
	waits := map[*resource]int{}
	alive := make([]int32, len(w.roots))
	for _, c := range w.calls {
		if c.root == nil {
			continue
		}
		alive[c.root.id]++
		if !c.open && !c.there {
			bad("call %d has neither a caller nor a callee", c.id)
		}
		if c.open && c.phase == sent {
			out[c.link.id]++
		}
		if c.parent != nil && c.parent.state != calling {
			bad("call %d is open, and its caller is not calling", c.id)
		}
		children := int32(0)
		for k := c.children; k != nil; k = k.next {
			if children++; k.parent != c || !k.open {
				bad("call %d is listed below %d, which it does not belong to", k.id, c.id)
			}
		}
		if children != c.pending {
			bad("call %d has %d open children, its books say %d", c.id, children, c.pending)
		}
		p := c.process
		switch c.state {
		case notHere, shaped, arriving, answering:
		case atDoor:
			at[p.id].queued++
		default:
			if c.abandoned {
				break // the door was told that it left
			}
			at[p.id].running++
		}
		if c.credited() {
			at[p.id].credited++
		}
		if c.state == inQueue {
			waits[c.waits]++
		}
		if c.state == working && w.program.steps[c.pc].kind == stepWork {
			taken[&p.resources[w.program.steps[c.pc].resource]]++
		}
		for h := c.holds; h != nil; h = h.next {
			taken[h.resource]++
		}
	}
	for i, p := range w.processes {
		taken[&p.resources[0]] += p.busyChores
		if at[i].queued != p.queued || at[i].running != p.running {
			bad("%s %d has %d tickets waiting and %d running by their state, %d and %d by its books",
				p.place.Service, p.place.Process, at[i].queued, at[i].running, p.queued, p.running)
		}
		for k := range p.resources {
			r := &p.resources[k]
			if taken[r] != r.inUse || r.inUse > r.capacity || waits[r] != r.queue.len() {
				bad("%s %d, resource %d: %d of %d units are taken and %d calls wait, its books say %d and %d",
					p.place.Service, p.place.Process, k, taken[r], r.capacity, waits[r], r.inUse, r.queue.len())
			}
			if r.queue.len() > 0 && r.inUse < r.capacity {
				bad("%s %d, resource %d: %d calls wait while a unit is free", p.place.Service, p.place.Process, k, r.queue.len())
			}
		}
		if g, ok := p.door.(interface{ Waiting() int }); ok && p.alive && g.Waiting()+shaping(p) != p.queued {
			bad("%s %d: the door says %d tickets wait, %d were told to", p.place.Service, p.place.Process, g.Waiting()+shaping(p), p.queued)
		}
		if g, ok := p.door.(interface{ InUse() int }); ok && p.alive && g.InUse() != p.running {
			bad("%s %d: the door says %d tickets run, %d were told to", p.place.Service, p.place.Process, g.InUse(), p.running)
		}
		if g, ok := p.door.(interface{ Pool() *credit.Pool }); ok && p.alive && g.Pool().Pending() != at[i].credited {
			bad("%s %d: the pool says %d requests are pending, %d are", p.place.Service, p.place.Process, g.Pool().Pending(), at[i].credited)
		}
	}
	for i, l := range w.links {
		if out[i] != l.outstanding {
			bad("link %d has %d calls outstanding, its books say %d", i, out[i], l.outstanding)
		}
	}
	w.auditShares(bad)
	inside := 0
	for i, r := range w.roots {
		if r.open {
			inside++
		}
		if alive[i] != r.calls {
			bad("request %d has %d calls alive, its books say %d", i, alive[i], r.calls)
		}
	}
	if inside != w.inside {
		bad("%d requests are inside, the books say %d", inside, w.inside)
	}
	return errors.Join(errs...)
}

// credited reports whether c waits or runs on the credit of an account that still exists.
func (c *call) credited() bool {
	a := c.ticket.Client
	return a != nil && c.state != notHere && c.state != shaped && c.state != arriving && c.state != answering &&
		!c.abandoned && c.link.life == c.process.life && c.link.account == a
}

// shaping returns how many tickets wait at p's door for the rate of their workflow.
func shaping(p *process) int {
	if g, ok := p.door.(interface{ Shaping() int }); ok {
		return g.Shaping()
	}
	return 0
}

// auditShares checks that what a process announced to its callers at the last
// decision sums to no more than its rate.
func (w *World) auditShares(bad func(string, ...any)) {
	if w.cfg.Control.Rates == nil {
		return
	}
	sums := make([]float64, len(w.processes)*len(w.cfg.Workflows))
	name := func(f int32) string { return w.cfg.Workflows[f].Name }
	for _, l := range w.links {
		p := l.to
		if l.from.service == noService || !p.alive || l.down {
			continue
		}
		decided := p.rates.NextWake().Add(-p.rates.Config().Period)
		from := p.rates.Peer(w.Now(), l.from.place.Service, l.from.name)
		for _, t := range l.told {
			forgotten := w.Now().Sub(t.arrived[1]) > p.rates.Config().Forget
			if t.arrived[0] == 0 || t.arrived[0] > decided || forgotten {
				continue
			}
			f := p.rates.Workflow(w.Now(), name(t.workflow))
			sum := &sums[int(p.id)*len(w.cfg.Workflows)+int(t.workflow)]
			*sum += p.rates.Announce(f, from)
			if rate := p.rates.Rate(f); rate < rates.NoLimit && *sum > rate*(1+1e-9) {
				bad("%s %d announced %v/s of %s, and lets in %v/s", p.place.Service, p.place.Process, *sum, name(t.workflow), rate)
			}
		}
	}
}

// Inside returns the requests that are not over.
func (w *World) Inside() int { return w.inside }
