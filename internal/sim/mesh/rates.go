package mesh

import (
	"strconv"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/work"
)

// shortOfTime is the share of refused requests that is an overload whether or not
// credits bind: with more callers than credits each holds one, nobody waits for any,
// and the refusals do the work.
const shortOfTime = 0.05

// The counts of refused requests are smoothed over about five periods, and mean
// nothing before there are a few.
const (
	keepCounts = 0.8
	fewest     = 20
)

// shaper is where one workflow's requests wait for its rate, at one process.
type shaper struct {
	queue queue
	armed mono.Time
}

// told is what a link carried about one workflow.
type told struct {
	workflow int32
	rate     float64   // last announced, NoLimit before
	heard    mono.Time // when
	// arrived is when the first and the last call reached the callee, 0 before.
	arrived [2]mono.Time
}

// bootRates gives p an adapter for its new life. Periods of different processes
// begin at different times.
func (w *World) bootRates(p *process) {
	cfg := *w.cfg.Control.Rates
	cfg.Service, cfg.Process, cfg.Resources = p.place.Service, p.name, nil
	for i := range p.resources {
		cfg.Resources = append(cfg.Resources, rates.Resource{Name: w.cfg.Services[p.service].Resources[i].Name, Capacity: float64(p.resources[i].capacity)})
	}
	a, err := rates.New(w.Now(), cfg)
	if err != nil {
		w.err = err
		return
	}
	p.rates = a
	p.shapers, p.shaping = make([]shaper, len(w.cfg.Workflows)), nil
	period := a.NextWake().Sub(w.Now())
	w.engine.At(a.NextWake().Add(durationOf(draws(w.cfg.Seed).of(drawPhase, uint64(p.id)).unit()*float64(period))), event{wakeRates, p.id, int32(p.life)})
	p.pressures = make([]rates.Pressure, len(p.resources))
}

// name names a process to others.
func name(process int) string { return strconv.Itoa(process) }

// shape lets c through its workflow's limit at p. It reports whether c may go on;
// else it waits or was refused.
func (w *World) shape(c *call) bool {
	p, now := c.process, w.Now()
	a := p.rates
	c.req.Workflow = a.Workflow(now, w.cfg.Workflows[c.root.workflow].Name)
	c.req.From = 0
	if c.link.from.service != noService {
		c.req.From = a.Peer(now, c.link.from.place.Service, c.link.from.name)
	}
	c.req.Attempt, c.req.Demand = int(c.root.attempt), c.claim
	c.req.Deadline, c.req.Remaining = c.deadline, w.remaining(c)
	a.OnArrival(now, &c.req)
	if c.link.from.service != noService {
		t := c.link.about(c.root.workflow)
		if t.arrived[1] = now; t.arrived[0] == 0 {
			t.arrived[0] = now
		}
	}
	switch v, reason := a.Enter(now, &c.req); v {
	case rates.Wait:
		s := &p.shapers[c.root.workflow]
		if s.queue == nil {
			s.queue, s.armed = w.newQueue(), mono.Never
			p.shaping = append(p.shaping, c.root.workflow)
		}
		c.state, c.queuedAt = shaped, now
		w.fillTask(c, 0)
		s.queue.push(now, c)
		w.pumpShaper(p, c.root.workflow)
		return false
	case rates.Drop:
		w.refuseUnseen(c, reason)
		return false
	}
	return true
}

// pumpShaper lets through what has a token.
func (w *World) pumpShaper(p *process, workflow int32) {
	s, now := &p.shapers[workflow], w.Now()
	if s.queue == nil {
		return
	}
	for {
		c, drop := s.queue.peek(now)
		if c == nil {
			return
		}
		v, reason := rates.Drop, work.Infeasible
		if drop {
			p.rates.OnCancel(&c.req)
		} else {
			v, reason = p.rates.Next(now, &c.req)
		}
		switch v {
		case rates.Wait:
			at := max(min(p.rates.ReadyAt(now, c.req.Workflow), s.queue.nextWake()), now+1)
			if at < s.armed {
				s.armed = at
				w.engine.At(at, event{wakeShaper, p.id, workflow})
			}
			return
		case rates.Pass:
			s.queue.remove(c)
			w.admit(c)
		case rates.Drop:
			s.queue.remove(c)
			w.refuseUnseen(c, reason)
		}
	}
}

// refuseUnseen refuses c before the door saw it. A door with credits still
// answers with a grant.
func (w *World) refuseUnseen(c *call, reason work.Reason) {
	p := c.process
	c.feedback.HasGrant = false
	if p.pool != nil {
		if account := w.account(c.link); account != nil {
			p.pool.OnRequest(w.Now(), account, c.demand)
			c.feedback.Grant, c.feedback.HasGrant = p.pool.OnReply(w.Now(), account), true
		}
	}
	w.refuseHere(c, reason)
}

// wakeRatesOf ends a period of p's adapter.
func (w *World) wakeRatesOf(p *process) {
	now := w.Now()
	s := rates.Signals{Resources: p.pressures}
	for i := range p.resources {
		p.resources[i].tell(now)
		p.pressures[i] = rates.Pressure{Delay: p.resources[i].delay(now), Target: p.place.Objective * 2 / 5}
	}
	if p.pool != nil {
		p.noteDemand(now)
		s.Credits, s.Bound = true, p.bound.Seconds()/now.Sub(p.boundFrom).Seconds()
		if p.refused > shortOfTime*p.came && p.came >= fewest {
			s.Bound = 1
		}
		p.bound, p.boundFrom = 0, now
		p.came, p.refused = keepCounts*p.came, keepCounts*p.refused
	}
	p.rates.OnWake(now, s)
	for _, f := range p.shaping {
		w.pumpShaper(p, f)
	}
	w.poll(p)
	w.engine.At(p.rates.NextWake(), event{wakeRates, p.id, int32(p.life)})
}

// noteDemand measures for how long credits bind: all are issued, and clients have
// more to send.
func (p *process) noteDemand(now mono.Time) {
	if p.wanted {
		p.bound += now.Sub(p.notedAt)
	}
	p.notedAt = now
	p.wanted = p.pool.Demand() > 0 && p.pool.Issued() >= p.pool.Total()
}

// poll asks the processes that limited p and from which no answer has come for a
// period: their rates cannot be told otherwise.
func (w *World) poll(p *process) {
	silent := w.Now().Add(-p.rates.Config().Period)
	for _, links := range p.links {
		for _, l := range links {
			if l == nil || l.down {
				continue
			}
			for i := range l.told {
				if t := &l.told[i]; t.rate < rates.NoLimit && t.heard < silent {
					w.report.Polls++
					w.after(w.cfg.Network.Delay, event{pollAtProcess, w.newNote(note{link: l, workflow: t.workflow, life: l.to.life}), 0})
				}
			}
		}
	}
}

// answerPoll tells a caller its rate.
func (w *World) answerPoll(n note) {
	p := n.link.to
	if !p.alive || p.life != n.life || p.rates == nil {
		return
	}
	now := w.Now()
	from := p.rates.Peer(now, n.link.from.place.Service, n.link.from.name)
	n.rate = p.rates.Announce(p.rates.Workflow(now, w.cfg.Workflows[n.workflow].Name), from)
	w.after(w.cfg.Network.Delay, event{rateAtCaller, w.newNote(n), 0})
}

// callCounted tells p's adapter of a call that it makes.
func (w *World) callCounted(p *process, parent, c *call) {
	if p.rates == nil {
		return
	}
	now := w.Now()
	to := p.rates.Peer(now, c.link.to.place.Service, c.link.to.name)
	c.claim = p.rates.Demand(parent.req.Workflow, to)
	p.rates.OnCall(now, &parent.req, to, 0)
}

// announce puts the rate for c's caller on the answer.
func (w *World) announce(c *call) {
	p := c.process
	c.rate = rates.NoLimit
	if p.rates != nil && c.link.from.service != noService {
		c.rate = p.rates.Announce(c.req.Workflow, p.rates.Peer(w.Now(), c.link.from.place.Service, c.link.from.name))
	}
}

// hear tells the caller's adapter the rate that came for a workflow, and whether
// the callee refused the call.
func (w *World) hear(l *link, workflow int32, rate float64, refused bool) {
	p := l.from.process
	if p == nil || p.rates == nil || !p.alive {
		return
	}
	now := w.Now()
	f := p.rates.Workflow(now, w.cfg.Workflows[workflow].Name)
	from := p.rates.Peer(now, l.to.place.Service, l.to.name)
	p.rates.OnRate(now, f, from, rate)
	if refused {
		p.rates.OnShed(f, from)
	}
	t := l.about(workflow)
	t.rate, t.heard = rate, now
}

// about returns what l carried about a workflow.
func (l *link) about(workflow int32) *told {
	for i := range l.told {
		if l.told[i].workflow == workflow {
			return &l.told[i]
		}
	}
	l.told = append(l.told, told{workflow: workflow, rate: rates.NoLimit})
	return &l.told[len(l.told)-1]
}
