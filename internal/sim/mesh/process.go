package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/rates"
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
	door      baseline.Door
	armed     mono.Time
	pumping   bool
	// queued and running are the calls that the door was told of.
	queued, running int
	busy            time.Duration

	// Of a world with hosts and faults that end.
	host  *host
	jobs  ring[job]
	ready bool // in the line of its host
	pace  pace
	lag   lag
	used  float64 // ns of processors
	// Of a service whose workers handle messages.
	chores     ring[chore]
	busyChores int32
	messages   time.Duration

	share     *sharing
	rates     *rates.Adapter
	shapers   []shaper // per workflow
	shaping   []int32  // the workflows that ever waited
	pressures []rates.Pressure
	totals    *progress.Totals // of the requests that enter here
	parts     *progress.Totals // of the calls that come from other processes
	// pool is the door's, if it has one. bound is for how long since boundFrom
	// clients wanted credits; wanted is whether they did at notedAt.
	pool               *credit.Pool
	bound              time.Duration
	boundFrom, notedAt mono.Time
	wanted             bool
	// came and refused count the requests at the door, smoothed.
	came, refused float64
}

// boot starts a life of p.
func (w *World) boot(p *process) {
	p.alive, p.armed, p.door = true, mono.Never, nil
	if f := w.cfg.Hooks.Booted; f != nil {
		f(w, int(p.id))
	}
	p.rates, p.pool, p.boundFrom, p.wanted = nil, nil, w.Now(), false
	p.place.Life = p.life
	w.clear(p)
	p.share = nil
	if w.cfg.Control.Share != nil {
		w.bootShare(p)
	}
	if w.cfg.Control.Door != nil && !w.ungated(p) {
		door, err := w.cfg.Control.Door(w.cfg.Seed, p.place)
		if err != nil {
			w.err = err
			return
		}
		p.door = door
		if g := gateOf(door); g != nil && !g.Config().NoCredit {
			p.pool = g.Pool()
		}
		w.setShares(p)
		w.armDoor(p)
	}
	if w.tracked {
		p.totals, _ = progress.NewTotals(progress.TotalsConfig{Workflows: len(w.cfg.Workflows)})
		p.parts, _ = progress.NewTotals(progress.TotalsConfig{Workflows: len(w.cfg.Workflows)})
	}
	if w.cfg.Control.Rates != nil {
		w.bootRates(p)
	}
}

// clear gives p idle resources.
func (w *World) clear(p *process) {
	kinds := w.cfg.Services[p.service].Resources
	w.dropChores(p)
	if p.resources == nil {
		p.resources = make([]resource, len(kinds))
	}
	for i := range p.resources {
		p.resources[i] = resource{process: p, number: int32(i), capacity: int32(kinds[i].Capacity), use: p.resources[i].use, queue: w.newQueue(), armed: mono.Never}
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
	w.track(c)
	if p.rates == nil || w.shape(c) {
		w.admit(c)
	}
}

// admit shows c to the door, if there is one.
func (w *World) admit(c *call) {
	if c.process.door == nil {
		w.start(c)
		return
	}
	w.arrive(c)
	w.pumpDoor(c.process)
}

// arrive shows c to the door.
func (w *World) arrive(c *call) {
	now := w.Now()
	c.ticket = admission.Ticket{
		Request: work.Request{
			Workflow: w.cfg.Workflows[c.root.workflow].Name,
			Priority: c.root.priority,
			Deadline: c.deadline,
			Demand:   c.demand,
			Attempt:  int(c.root.attempt),
		},
		Client: w.account(c.link),
		Done:   c.worked,
		Owner:  c,
	}
	w.tag(c)
	w.measure(c.process)
	w.decided(c, c.process.door.Arrive(now, &c.ticket), false)
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
	} else {
		p.came++
	}
	switch v {
	case admission.Wait:
		c.state = atDoor
		p.queued++
	case admission.Run:
		w.start(c)
	case admission.Shed:
		p.refused++
		c.feedback = p.door.Feedback(w.Now(), &c.ticket)
		if p.rates != nil {
			p.rates.OnCancel(&c.req)
		}
		w.refuseHere(c, c.ticket.Reason())
	}
}

// refuseHere answers c, of which nothing ran, with a refusal.
func (w *World) refuseHere(c *call, reason work.Reason) {
	c.state, c.service, c.work = notHere, 0, 0
	c.feedback.Reason = reason
	w.countShed(c.process.service, reason)
	w.tally.refused(c.process.service, w.Since())
	w.refusalLeaves(c, reason)
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
		w.grantLeaves(note{link: l, grant: g, life: p.life})
	}
	p.pumping = false
	if p.pool != nil {
		p.noteDemand(now)
	}
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
	if w.deaf(p) && c.state != arriving && c.state != atDoor {
		if w.cfg.described.world.Services[p.service].Proxied {
			w.abandon(c)
		}
		return
	}
	c.canceled = true
	switch c.state {
	case shaped:
		p.shapers[c.root.workflow].queue.remove(c)
		p.rates.OnCancel(&c.req)
		c.state, c.there = notHere, false
		w.release(c)
	case atDoor:
		if p.door.Cancel(w.Now(), &c.ticket) {
			if f := w.cfg.Hooks.Canceled; f != nil {
				f(w, int(p.id), &c.ticket)
			}
			p.door.Feedback(w.Now(), &c.ticket)
			if p.rates != nil {
				p.rates.OnCancel(&c.req)
			}
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
