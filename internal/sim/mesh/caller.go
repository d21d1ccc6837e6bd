package mesh

import (
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	control "github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// node is what makes calls: a client or a process.
type node struct {
	place   Place
	process *process // nil for a client
	service int32    // noService for a client
	flood   bool
	plain   bool   // knows nothing of the policy
	byReply bool   // hears of it with answers alone
	peer    uint64 // the address, from 1
	// links are per service that is called, in the order of the program's
	// slots, and per process of it; made at the first call.
	links [][]*link
	turn  []uint32 // of the round robin, per service
}

// link is a caller's connection to one process.
type link struct {
	id          int32
	from        *node
	to          *process
	sender      baseline.Sender
	outstanding int32
	down        bool
	armed       mono.Time
	pumping     bool
	// account is the callee's side, in the callee's life of that number.
	account *credit.Client
	life    int
	who     *control.Process  // answered last, nil before any did
	heard   baseline.Feedback // last
	gone    bool              // its client left it
	policed bool              // it is in World.policed
	// Messages of one direction keep their order.
	lastUp, lastDown mono.Time
}

// note is a message that belongs to no call: a grant or a report of demand.
type note struct {
	link   *link
	grant  wire.Grant
	demand int
	life   int
	// Of a poll, and of its answer.
	ask  *wire.Tags
	told *wire.Reply
}

// A Sender may implement these as well.
type (
	// reporter names demand to be told although no call carries it.
	reporter interface {
		NextDemand(now mono.Time) (int, bool)
	}
	// loser is told of a call whose answer will never come; others get a reply
	// that says canceled.
	loser interface{ OnLost(w *credit.Waiter) }
)

// link returns n's link number i of a slot.
func (w *World) link(n *node, slot int32, s *service, i int) *link {
	if n.links[slot] == nil {
		n.links[slot] = make([]*link, len(s.processes))
	}
	l := n.links[slot][i]
	if l == nil {
		l = &link{id: int32(len(w.links)), from: n, to: s.processes[i], armed: mono.Never, life: -1}
		l.down = !l.to.alive
		w.links = append(w.links, l)
		n.links[slot][i] = l
		w.newSender(l)
	}
	return l
}

func (w *World) newSender(l *link) {
	if w.cfg.Control.Sender == nil || l.from.flood || l.from.plain || w.ungated(l.to) {
		return
	}
	s, err := w.cfg.Control.Sender(w.cfg.Seed+uint64(l.id), l.from.place, l.to.place)
	if err != nil {
		w.err = err
		return
	}
	l.sender = s
	if !l.policed {
		l.policed = true
		w.policed = append(w.policed, l)
	}
}

// choose picks the process for a call.
func (w *World) choose(n *node, k *callee, r *root, chance draws) *link {
	s := &w.services[k.service]
	count := len(s.processes)
	i := 0
	if count > 1 {
		switch s.pick {
		case RoundRobin:
			i = next(&n.turn[k.slot], count)
		case AtRandom:
			i = chance.of(drawPick, 0).below(count)
		case ByTenant:
			i = s.rendezvous(r.tenant)
		case LeastOutstanding:
			// Among equals the next in turn: were it the first, an idle service's calls
			// would all go to one process.
			first := next(&n.turn[k.slot], count)
			i = first
			for off := range count {
				if j := (first + off) % count; w.link(n, k.slot, s, j).outstanding < w.link(n, k.slot, s, i).outstanding {
					i = j
				}
			}
		}
	}
	for range count {
		if l := w.link(n, k.slot, s, i); !l.down {
			return l
		}
		i = (i + 1) % count
	}
	return n.links[k.slot][i]
}

// next takes turns among the processes of a callee.
func next(turn *uint32, count int) int {
	i := int(*turn % uint32(count))
	*turn++
	return i
}

// rendezvous returns the process with the highest weight for a tenant.
func (s *service) rendezvous(tenant uint32) int {
	best, most := 0, uint64(0)
	for i := range s.processes {
		if h := mix(uint64(tenant)<<32 | uint64(s.first+int32(i))); h > most {
			best, most = i, h
		}
	}
	return best
}

// callDown makes a call for c.
func (w *World) callDown(p *call, k *callee) {
	c := w.newCall()
	c.root, c.stage, c.deadline = p.root, k.stage, p.deadline
	c.chance = p.chance.of(drawChild, p.born)
	c.link = w.choose(&p.process.node, k, p.root, c.chance)
	p.adopt(c)
	p.made++
	if p.measured {
		c.callID = p.span.CallBegin(w.Now())
	}
	w.tagsOf(p, c)
	w.submit(c)
}

// submit hands a new call to its link.
func (w *World) submit(c *call) {
	c.root.calls++
	c.open, c.phase, c.process = true, waiting, c.link.to
	c.label, c.asked = w.label(c.root), w.Now()
	w.armTimeout(c)
	l := c.link
	switch {
	case l.down:
		w.refuse(c, cause{kind: lost})
		return
	case l.sender == nil:
		w.send(c)
		return
	}
	c.waiter.Deadline, c.waiter.Owner, c.waiter.Workflow = c.deadline, c, c.label
	step, reason := l.sender.Submit(w.Now(), &c.waiter, c.root.priority)
	switch step {
	case credit.Send:
		w.send(c)
	case credit.Wait:
		w.pumpLink(l)
	case credit.Refuse:
		w.refuse(c, cause{kind: shed, reason: reason})
	}
}

func (w *World) send(c *call) {
	c.phase, c.there, c.sent, c.demand = sent, true, w.Now(), 0
	if s := c.link.sender; s != nil {
		c.demand = s.Demand()
	} else if c.link.from.flood && w.cfg.described != nil {
		c.demand = greed
	}
	c.link.outstanding++
	w.countSent(c)
	if !w.charge(c.link.from.process, job{kind: jobSend, who: c.id, gen: c.gen}) {
		w.travel(c)
	}
}

// refuse tells the caller of c, in an event of its own, that it was not sent.
func (w *World) refuse(c *call, why cause) {
	c.phase, c.why = refused, why
	if why.kind == shed {
		w.countShed(c.link.from.service, why.reason)
	}
	w.engine.AlongLane(laneNow, w.Now(), event{refusedAtCaller, c.id, c.gen})
}

// pumpLink carries out what a caller's policy has decided.
func (w *World) pumpLink(l *link) {
	if l.sender == nil || l.pumping {
		return
	}
	l.pumping = true
	now := w.Now()
	for {
		wt, step, reason := l.sender.Next(now)
		if wt == nil {
			break
		}
		c := wt.Owner.(*call)
		if step == credit.Send {
			w.send(c)
		} else {
			w.refuse(c, cause{kind: shed, reason: reason})
		}
	}
	if s, ok := l.sender.(reporter); ok {
		if n, ok := s.NextDemand(now); ok && !l.from.byReply {
			w.engine.AlongLane(laneMessage, w.up(l), event{demandAtProcess, w.newNote(note{link: l, demand: n, life: l.to.life}), 0})
		}
	}
	l.pumping = false
	at := l.sender.NextWake()
	if at != mono.Never {
		at = max(at, now+1)
	}
	if at < l.armed {
		l.armed = at
		w.engine.At(at, event{wakeLink, l.id, 0})
	}
}

// replyAtCaller is the arrival of an answer, good or not.
func (w *World) replyAtCaller(c *call) {
	c.there = false
	if !c.open {
		w.release(c)
		return
	}
	l := c.link
	l.outstanding--
	if l.sender != nil {
		if c.why.kind == lost {
			w.tellLost(c)
		} else {
			l.heard = c.feedback
			l.sender.OnReply(w.Now(), &c.waiter, w.Now().Sub(c.sent), c.feedback)
		}
	}
	if c.why.kind != lost {
		w.hear(c)
	}
	w.conclude(c)
	w.pumpLink(l)
}

// conclude ends the caller's side of c with the answer that it has.
func (w *World) conclude(c *call) {
	parent, r, why := c.parent, c.root, c.why
	if parent != nil && parent.measured {
		parent.span.CallEnd(w.Now(), c.callID, c.took.Service, c.took.Work, why.kind == none || why.kind == shed)
	}
	c.orphan()
	c.open = false
	w.release(c)
	switch {
	case parent == nil:
		r.top = nil
		if why.kind == shed {
			why.pushback = c.feedback.Pushback
		}
		w.concluded(r, why)
	case why.kind == none:
		w.childDone(parent)
	default:
		w.fail(parent, why)
	}
}

// timeoutAt is the end of the caller's patience with c.
func (w *World) timeoutAt(c *call) {
	w.report.Services[c.process.service].Timeouts++
	parent, r := c.parent, c.root
	w.drop(c)
	if parent == nil {
		r.top = nil
		w.concluded(r, cause{kind: timedOut})
	} else {
		w.fail(parent, cause{kind: timedOut})
	}
}

// forget is drop for a caller that vanished: the callee is not told.
func (w *World) forget(c *call) { w.let(c, false) }

// drop ends the caller's side of c, which was given up.
func (w *World) drop(c *call) { w.let(c, w.cfg.Control.Cancel) }

func (w *World) let(c *call, tell bool) {
	l := c.link
	c.orphan()
	c.open = false
	switch c.phase {
	case waiting:
		l.sender.Cancel(&c.waiter)
	case sent:
		l.outstanding--
		w.tellLost(c)
		if tell && c.there {
			w.engine.AlongLane(laneMessage, w.up(l), event{cancelAtProcess, c.id, c.gen})
		}
		w.pumpLink(l)
	case refused:
	}
	w.release(c)
}

// tellLost tells the caller's policy that no answer to c will come.
func (w *World) tellLost(c *call) {
	switch s := c.link.sender.(type) {
	case nil:
	case loser:
		s.OnLost(&c.waiter)
	default:
		// Nothing new was heard.
		f := c.link.heard
		f.Reason, f.HasGrant = work.Canceled, false
		s.OnReply(w.Now(), &c.waiter, w.Now().Sub(c.sent), f)
	}
}
