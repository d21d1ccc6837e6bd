package mesh

import (
	"errors"
	"fmt"

	"github.com/spillgate/spillgate/internal/admission"
)

// Audit recounts the world's books from the state of every call: requests inside,
// units of resources, tickets at doors, calls outstanding on links. It returns
// the differences. It walks the whole world: for checks after an event.
func (w *World) Audit() error {
	b := books{world: w, at: make([]atProcess, len(w.processes)), out: make([]int32, len(w.links)),
		taken: map[*resource]int32{}, waits: map[*resource]int{}, alive: make([]int32, len(w.roots))}
	for _, c := range w.calls {
		if c.root != nil {
			b.call(c)
		}
	}
	for i, p := range w.processes {
		b.process(p, b.at[i])
	}
	for i, l := range w.links {
		if b.out[i] != l.outstanding {
			b.bad("link %d has %d calls outstanding, its books say %d", i, b.out[i], l.outstanding)
		}
	}
	inside := 0
	for i, r := range w.roots {
		if r.open {
			inside++
		}
		if b.alive[i] != r.calls {
			b.bad("request %d has %d calls alive, its books say %d", i, b.alive[i], r.calls)
		}
	}
	if inside != w.inside {
		b.bad("%d requests are inside, the books say %d", inside, w.inside)
	}
	return errors.Join(b.errs...)
}

// books are what Audit counts.
type books struct {
	world *World
	errs  []error
	at    []atProcess
	out   []int32 // per link, calls sent
	taken map[*resource]int32
	waits map[*resource]int
	alive []int32 // per root, calls
}

// atProcess counts the calls that a process's door knows of.
type atProcess struct{ queued, running, credited int }

func (b *books) bad(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf("mesh: "+format, args...))
}

// call counts c.
func (b *books) call(c *call) {
	b.alive[c.root.id]++
	if !c.open && !c.there {
		b.bad("call %d has neither a caller nor a callee", c.id)
	}
	if c.open && c.phase == sent {
		b.out[c.link.id]++
	}
	if c.parent != nil && c.parent.state != calling {
		b.bad("call %d is open, and its caller is not calling", c.id)
	}
	children := int32(0)
	for k := c.children; k != nil; k = k.next {
		if children++; k.parent != c || !k.open {
			b.bad("call %d is listed below %d, which it does not belong to", k.id, c.id)
		}
	}
	if children != c.pending {
		b.bad("call %d has %d open children, its books say %d", c.id, children, c.pending)
	}
	p := c.process
	switch c.state {
	case notHere, arriving, answering:
	case atDoor:
		b.at[p.id].queued++
	default:
		if !c.abandoned { // of those the door was told that they left
			b.at[p.id].running++
		}
	}
	if c.credited() {
		b.at[p.id].credited++
	}
	if c.state == inQueue {
		b.waits[c.waits]++
	}
	if c.state == working && b.world.program.steps[c.pc].kind == stepWork {
		b.taken[&p.resources[b.world.program.steps[c.pc].resource]]++
	}
	for h := c.holds; h != nil; h = h.next {
		b.taken[h.resource]++
	}
}

// process compares what was counted at p with its books and its door's.
func (b *books) process(p *process, at atProcess) {
	who := fmt.Sprintf("%s %d", p.place.Service, p.place.Process)
	b.taken[&p.resources[0]] += p.busyChores
	if at.queued != p.queued || at.running != p.running {
		b.bad("%s has %d tickets waiting and %d running by their state, %d and %d by its books", who, at.queued, at.running, p.queued, p.running)
	}
	for k := range p.resources {
		r := &p.resources[k]
		if b.taken[r] != r.inUse || r.inUse > r.capacity || b.waits[r] != r.queue.len() {
			b.bad("%s, resource %d: %d of %d units are taken and %d calls wait, its books say %d and %d",
				who, k, b.taken[r], r.capacity, b.waits[r], r.inUse, r.queue.len())
		}
		if r.queue.len() > 0 && r.idle() {
			b.bad("%s, resource %d: %d calls wait while a unit is free", who, k, r.queue.len())
		}
	}
	if !p.alive {
		return
	}
	if g := gateOf(p.policy); g != nil {
		b.gate(who, g, p, at)
	}
}

// gate compares p's books with its gate's.
func (b *books) gate(who string, g *admission.Gate, p *process, at atProcess) {
	if n := g.Waiting() + g.Shaping(); n != p.queued {
		b.bad("%s: the door says %d tickets wait, %d were told to", who, n, p.queued)
	}
	if n := g.Slots().Running(); n != p.running {
		b.bad("%s: the door says %d tickets run, %d were told to", who, n, p.running)
	}
	if g.Pool().Pending() != at.credited {
		b.bad("%s: the pool says %d requests are pending, %d are", who, g.Pool().Pending(), at.credited)
	}
	if g.Config().Rates == nil {
		return
	}
	for _, s := range g.Rates(b.world.Now()).AppendStates(nil) {
		if s.Limited() && s.Shared > s.Rate*(1+1e-9) {
			b.bad("%s announced %v/s of %q, and lets in %v/s", who, s.Shared, s.Name, s.Rate)
		}
	}
}

// credited reports whether c waits or runs on the credit of an account that still exists.
func (c *call) credited() bool {
	a := c.ticket.Client
	return a != nil && c.state != notHere && c.state != arriving && c.state != answering &&
		!c.abandoned && c.link.life == c.process.life && c.link.account == a
}

// Inside returns the requests that are not over.
func (w *World) Inside() int { return w.inside }
