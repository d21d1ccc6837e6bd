package mesh

import (
	"time"

	"github.com/spillgate/spillgate/admission"
	"github.com/spillgate/spillgate/baseline"
	"github.com/spillgate/spillgate/credit"
	"github.com/spillgate/spillgate/mono"
	"github.com/spillgate/spillgate/work"
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
	door      baseline.Door
	armed     mono.Time
	pumping   bool
	// queued and running are the calls that the door was told of.
	queued, running int
	busy            time.Duration
}

// boot starts a life of p.
func (w *World) boot(p *process) {
	s := &w.cfg.Services[p.service]
	p.alive, p.armed, p.door = true, mono.Never, nil
	use := make([]time.Duration, len(s.Resources))
	for i := range p.resources {
		use[i] = p.resources[i].use
	}
	p.resources = make([]resource, len(s.Resources))
	for i, r := range s.Resources {
		p.resources[i] = resource{process: p, number: int32(i), capacity: int32(r.Capacity), use: use[i], queue: &line{}}
	}
	p.place.Life = p.life
	if w.cfg.Control.Door != nil {
		door, err := w.cfg.Control.Door(w.cfg.Seed, p.place)
		if err != nil {
			w.err = err
			return
		}
		p.door = door
		w.armDoor(p)
	}
}

// requestAtProcess is the arrival of a call.
func (w *World) requestAtProcess(c *call) {
	p := c.process
	if !p.alive {
		w.lose(c)
		return
	}
	now := w.Now()
	c.deadline = mono.Never
	if d := c.root.deadline; d != mono.Never {
		c.deadline = now.Add(d.Sub(c.sent)) // the budget travels
	}
	if p.door == nil {
		w.start(c)
		return
	}
	w.arrive(c)
	w.pumpDoor(p)
}

// arrive shows c to the door.
func (w *World) arrive(c *call) {
	now := w.Now()
	demand := 0
	if c.link.sender != nil {
		demand = c.link.sender.Demand()
	}
	c.ticket = admission.Ticket{
		Request: work.Request{
			Workflow: w.cfg.Workflows[c.root.workflow].Name,
			Priority: c.root.priority,
			Deadline: c.deadline,
			Demand:   demand,
			Attempt:  int(c.root.attempt),
		},
		Client: w.account(c.link),
		Owner:  c,
	}
	w.decided(c, c.process.door.Arrive(now, &c.ticket), false)
}

// account returns the callee's side of a link. It is opened by the first call.
func (w *World) account(l *link) *credit.Client {
	p := l.to
	if l.life != p.life {
		l.life = p.life
		l.account = p.door.Connect(w.Now())
		if l.account != nil {
			l.account.Owner = l
		}
	}
	return l.account
}

// decided carries out the door's decision about c.
func (w *World) decided(c *call, v admission.Verdict, queued bool) {
	p := c.process
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
		c.state = notHere
		why := cause{shed, c.ticket.Reason()}
		w.countShed(p.service, why.reason)
		c.feedback = p.door.Feedback(w.Now(), &c.ticket)
		c.feedback.Reason = why.reason
		w.reply(c, why)
	}
}

// pumpDoor carries out what the door has decided.
func (w *World) pumpDoor(p *process) {
	if p.door == nil || !p.alive || p.pumping {
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
	for {
		account, g, ok := p.door.NextGrant()
		if !ok {
			break
		}
		l := account.Owner.(*link)
		w.after(w.cfg.Network.Delay, event{grantAtLink, w.newNote(note{link: l, grant: g, life: p.life}), 0})
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

// cancelAtProcess is when a process learns that nobody waits for c.
func (w *World) cancelAtProcess(c *call) {
	p := c.process
	c.canceled = true
	switch c.state {
	case atDoor:
		if p.door.Cancel(w.Now(), &c.ticket) {
			p.door.Feedback(w.Now(), &c.ticket)
			p.queued--
			c.state, c.there = notHere, false
			w.release(c)
			w.pumpDoor(p)
		}
	case inQueue:
		c.waits.queue.remove(c)
		c.waits = nil
		w.finish(c, cause{kind: gaveUp})
	case calling:
		w.fail(c, cause{kind: gaveUp})
	case working, resuming, notHere:
		// Work is not interrupted.
	}
}
