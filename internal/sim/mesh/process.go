package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	control "github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// service is what runs of a Service.
type service struct {
	processes []*process
	pick      Pick
	first     int32 // number of its first process
}

// process is one process of a service.
type process struct {
	node
	id        int32
	resources []resource
	speed     float64
	alive     bool
	life      int
	// door decides about requests: policy, or a node around it.
	door    *control.Node
	policy  baseline.Door
	who     *control.Process
	armed   mono.Time
	pumping bool
	watched bool // the node hears of the resources
	// queued and running are the calls that the door was told of.
	queued, running int
	busy            time.Duration

	// Of a world with hosts and faults that end.
	host   *host
	jobs   ring[job]
	ready  bool // in the line of its host
	pace   pace
	throng throng
	lag    lag
	used   float64 // ns of processors
	// Of a service whose workers handle messages.
	chores     ring[chore]
	busyChores int32
	messages   time.Duration

	share *sharing // nil: classes are not learned
}

// boot starts a life of p.
func (w *World) boot(p *process) {
	p.alive, p.armed = true, mono.Never
	if f := w.cfg.Hooks.Booted; f != nil {
		f(w, int(p.id))
	}
	p.place.Life = p.life
	w.clear(p)
	w.openDoor(p)
	p.share = nil
	if w.cfg.Control.Share != nil {
		w.bootShare(p)
	}
}

// clear gives p idle resources.
func (w *World) clear(p *process) {
	kinds := w.cfg.Services[p.service].Resources
	w.dropChores(p)
	w.disperse(p)
	if p.resources == nil {
		p.resources = make([]resource, len(kinds))
	}
	for i := range p.resources {
		p.resources[i] = resource{process: p, number: int32(i), capacity: int32(kinds[i].Capacity), batch: w.batched(p, i), use: p.resources[i].use, queue: w.newQueue(), armed: mono.Never}
	}
}

// requestAtProcess is the arrival of a call.
func (w *World) requestAtProcess(c *call) {
	p := c.process
	switch {
	case c.canceled: // while its message waited for a processor
		c.state, c.there = notHere, false
		w.release(c)
		return
	case !p.alive:
		w.lose(c)
		return
	}
	c.state = notHere
	now := w.Now()
	if c.deadline != mono.Never {
		c.deadline = now.Add(c.deadline.Sub(c.sent)) // the budget travels
	}
	w.measure(p)
	w.look(p)
	w.classify(c)
	w.issue(c)
	w.tag(c)
	w.describe(c)
	w.decided(c, p.door.Arrive(now, &c.ticket), false)
	w.pumpDoor(p)
}

// issue fills in c's ticket, in place: it is large.
func (w *World) issue(c *call) {
	if w.cfg.Control.ordered() {
		c.task = schedule.Task{}
	}
	t := &c.ticket
	t.Reset()
	t.Workflow, t.Class, t.Priority, t.Deadline = c.label, c.class, c.root.priority, c.deadline
	t.Demand, t.Asks, t.Attempt = c.demand, c.waiter.Asked(), int(c.root.attempt)
	t.Client, t.Owner, t.Kind = w.account(c.link), c, &w.program.stages[c.stage]
}

// account returns the callee's side of a link. It is opened by the first call.
func (w *World) account(l *link) *credit.Client {
	p := l.to
	if l.gone {
		if l.life != p.life {
			return nil
		}
		return l.account // it is not opened again
	}
	if l.life != p.life {
		l.life = p.life
		if l.account = nil; !l.from.plain {
			l.account = p.door.Connect(w.Now())
		}
		if l.account != nil {
			l.account.Owner = l
			p.door.ByReply(l.account, l.from.byReply)
		}
	}
	return l.account
}

// decided carries out the door's decision about c.
func (w *World) decided(c *call, v admission.Verdict, queued bool) {
	p := c.process
	if f := w.cfg.Hooks.Decision; f != nil {
		f(w, int(p.id), &c.ticket, v, queued)
	}
	if queued {
		p.queued--
	}
	switch v {
	case admission.Wait:
		c.state = atDoor
		p.queued++
	case admission.Run:
		w.start(c)
	case admission.Shed:
		c.feedback = p.door.Feedback(w.Now(), &c.ticket)
		w.refuseHere(c, c.ticket.Reason())
	}
}

// refuseHere answers c, of which nothing ran, with a refusal.
func (w *World) refuseHere(c *call, reason work.Reason) {
	c.state, c.took = notHere, wire.Progress{}
	c.feedback.Reason = reason
	w.countShed(c.process.service, reason)
	w.tally.refused(c.process.service, w.Since())
	w.refusalLeaves(c, reason)
}

// pumpDoor carries out what the door has decided.
func (w *World) pumpDoor(p *process) {
	if !p.alive || p.pumping {
		return
	}
	p.pumping = true
	now := w.Now()
	for {
		t, v := p.door.Next(now)
		if t == nil {
			break
		}
		w.decided(t.Owner.(*call), v, true)
	}
	for p.door.Granting() {
		account, g, ok := p.door.NextGrant()
		if !ok {
			break
		}
		if l := account.Owner.(*link); !l.from.byReply { // else the next answer says it
			w.grantLeaves(note{link: l, grant: g, life: p.life})
		}
	}
	p.pumping = false
	w.armDoor(p)
}

func (w *World) armDoor(p *process) {
	at := p.door.NextWake()
	if at != mono.Never {
		at = max(at, w.Now()+1)
	}
	if at < p.armed {
		p.armed = at
		w.engine.At(at, event{wakeDoor, p.id, int32(p.life)})
	}
}

// cancelAtProcess: the process that works on c learns that c was given up.
func (w *World) cancelAtProcess(c *call) {
	p := c.process
	if w.deaf(p) && c.state != arriving && c.state != atDoor {
		if w.cfg.described.world.Services[p.service].Proxied {
			w.abandon(c)
		}
		return
	}
	c.canceled = true
	switch c.state {
	case atDoor:
		if p.door.Cancel(w.Now(), &c.ticket) {
			if f := w.cfg.Hooks.Canceled; f != nil {
				f(w, int(p.id), &c.ticket)
			}
			p.door.Feedback(w.Now(), &c.ticket)
			p.share.gaveUp(w.Now(), c)
			p.queued--
			c.state, c.there = notHere, false
			w.release(c)
			w.pumpDoor(p)
		}
	case inQueue:
		c.waits.queue.remove(c)
		c.waits = nil
		w.finish(c, cause{kind: gaveUp}, work.Canceled)
	case calling:
		w.fail(c, cause{kind: gaveUp})
	case arriving, answering:
		// It is dropped when its message has its turn.
	case working, resuming, notHere:
		// Work is not interrupted.
	}
}
