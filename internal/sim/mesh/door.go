package mesh

import (
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	open "github.com/spillgate/spillgate/internal/baseline/none"
	control "github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/wire"
)

// openDoor gives p the node that decides about its requests in its new life.
func (w *World) openDoor(p *process) {
	p.place.Number = uint64(p.id) + 1 + uint64(p.life)<<32
	p.who = control.NewProcess(p.place.Number, p.place.Service)
	p.policy = open.Door{}
	if make := w.cfg.Control.Door; make != nil && !w.ungated(p) {
		policy, err := make(w.cfg.Seed, p.place)
		if err != nil {
			w.err = err
		} else {
			p.policy = policy
		}
	}
	var ours bool
	if p.door, ours = p.policy.(*control.Node); !ours {
		p.door = control.Around(p.policy)
	}
	p.watched = p.door.Rated() && len(p.door.Gate().Config().Rates.Resources) == len(p.resources)
	w.armDoor(p)
}

// gateOf returns the gate of a policy that is a node, or something around one, and nil
// for another.
func gateOf(policy baseline.Door) *admission.Gate {
	if d, ok := policy.(interface{ Gate() *admission.Gate }); ok {
		return d.Gate()
	}
	return nil
}

// wakeDoorOf lets p's node do what is due.
func (w *World) wakeDoorOf(p *process) {
	w.look(p)
	p.door.OnWake(w.Now())
	for q, ok := p.door.NextPoll(w.Now()); ok; q, ok = p.door.NextPoll(w.Now()) {
		if l := q.Callee.(*link); !l.down {
			tags := q.Tags // not q, which would be allocated to learn that there is none
			w.report.Polls++
			w.after(w.cfg.Network.Delay, event{pollAtProcess, w.newNote(note{link: l, ask: &tags, life: l.to.life}), 0})
		}
	}
	w.pumpDoor(p)
}

// look tells p's node how its resources are doing, if a period of its rates ends. It
// comes before every event of the node.
func (w *World) look(p *process) {
	if !p.watched || !p.door.Due(w.Now()) {
		return
	}
	for i := range p.resources {
		r := &p.resources[i]
		r.tell(w.Now())
		p.door.OnPressure(i, rates.Pressure{Delay: r.delay(w.Now())})
	}
}

// describe tells the node of c's process what its tags say, where they matter.
func (w *World) describe(c *call) {
	p := c.process
	c.stay = control.Stay{}
	if p.door.Described() || c.tags.Asks() {
		p.door.Describe(w.Now(), &c.ticket, &c.tags, &c.stay)
	}
	c.measured = c.stay.Measured || p.share != nil
}

// tagsOf fills in what c, a call of p, says of the request that it is made for.
func (w *World) tagsOf(p, c *call) {
	c.tags.Total = p.stay.Total
	if !p.measured {
		return
	}
	so := p.here(w.Now())
	c.tags.Elapsed = wire.Progress{Service: p.tags.Elapsed.Service + so.Service, Work: p.tags.Elapsed.Work + so.Work}
	c.tags.Process = p.process.place.Number
	w.countCall(p, c)
}

// countCall counts c, a call of p, at p's rates, if it is known who is called.
func (w *World) countCall(p, c *call) {
	if who := c.link.who; who != nil && p.process.door.Rated() {
		c.counted = true
		c.tags.Claim = p.process.door.Call(w.Now(), &p.ticket, who, 0)
	}
}

// hear tells the node of c's caller what the answer said.
func (w *World) hear(c *call) {
	p, l := c.parent, c.link
	if p == nil || p.process.door.Gate() != nil && !c.feedback.Announces {
		return // a client, or an answer that does not say who sent it
	}
	l.who = l.to.who
	if !c.counted {
		w.countCall(p, c)
	}
	p.process.door.OnAnswer(w.Now(), &p.ticket, l, &c.feedback)
}

// answerPoll tells a caller its rate.
func (w *World) answerPoll(n note) {
	p := n.link.to
	if !p.alive || p.life != n.life {
		return
	}
	if r, ok := p.door.OnPoll(w.Now(), n.ask, true); ok {
		told := r // not r, which would be allocated where there is no answer
		n.told = &told
		w.after(w.cfg.Network.Delay, event{rateAtCaller, w.newNote(n), 0})
	}
}

// pollAnswered takes the answer.
func (w *World) pollAnswered(n note) {
	if p := n.link.from.process; p.alive {
		p.door.OnPollAnswer(w.Now(), n.link, n.told)
	}
}

// Who returns the process that answered last at l's other end, nil before any did.
func (l *link) Who() *control.Process { return l.who }

// Asks reports whether the callee can be asked for a rate.
func (l *link) Asks() bool { return true }
