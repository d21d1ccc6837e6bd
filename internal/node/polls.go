package node

import (
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/wire"
)

// A limit that no further answer corrects must be asked for: with none of its
// requests let through, a workflow gets no answers.
//
//	OnAnswer: a limit ─▶ pollers ─ not heard for a period ─▶ NextPoll ──▶ callee
//	                        ▲                                               │ OnPoll
//	                        └───────────── OnPollAnswer ◀───────────────────┘

// subject is what a callee announces a rate for.
type subject struct {
	workflow string
	callee   Callee
}

// pollers is the limits that were heard and may be over by now. They stand in a
// list, so that they are looked at in the same order in every run.
type pollers struct {
	places map[subject]int // in told
	told   []told
	next   mono.Time // no sweep before
	sweeps bool      // from turn on, told is still to be looked at
	turn   int
}

type told struct {
	subject
	heard mono.Time
}

// Poll is a question for a rate.
type Poll struct {
	Callee Callee
	Tags   wire.Tags
}

// hear notes what was announced.
func (n *Node) hear(now mono.Time, s subject, limited bool) {
	if !s.callee.Asks() {
		return
	}
	p := &n.pollers
	i, known := p.places[s]
	switch {
	case known && limited:
		p.told[i].heard = now
	case known:
		p.forget(i)
	case limited && len(p.told) < n.adapterAt(now).Config().MaxPeers:
		p.places[s] = len(p.told)
		p.told = append(p.told, told{s, now}) // beyond that, rates come with answers alone
	}
}

// forget moves the last into the place of number i.
func (p *pollers) forget(i int) {
	last := len(p.told) - 1
	delete(p.places, p.told[i].subject)
	if i < last {
		p.told[i] = p.told[last]
		p.places[p.told[i].subject] = i
	}
	p.told[last] = told{}
	p.told = p.told[:last]
}

// Limited returns how many limits of callees are known that can be asked for, for
// looking at.
func (n *Node) Limited() int { return len(n.pollers.told) }

// NextPoll returns what is to be asked now, until false: once a period, for every
// limit that was not heard of for a period. One that was not heard of for as long
// as the rates remember is not asked for any more.
func (n *Node) NextPoll(now mono.Time) (Poll, bool) {
	p := &n.pollers
	if len(p.told) == 0 {
		return Poll{}, false
	}
	a := n.adapterAt(now)
	period := a.Config().Period
	if !p.sweeps {
		if now < p.next {
			return Poll{}, false
		}
		p.next, p.turn, p.sweeps = now.Add(period), 0, true
	}
	for p.turn < len(p.told) {
		t := &p.told[p.turn]
		age, who := now.Sub(t.heard), t.callee.Who()
		if age > a.Config().Forget || who == nil {
			p.forget(p.turn)
			continue
		}
		p.turn++
		if age >= period {
			tags := wire.Tags{Workflow: t.workflow, Process: n.number}
			tags.Claim = a.Demand(a.Workflow(now, t.workflow), n.peer(now, who.Number, who.Service))
			return Poll{t.callee, tags}, true
		}
	}
	p.sweeps = false
	return Poll{}, false
}

// OnPollAnswer takes the answer to a poll. An answer that was not asked for, or is
// of another process than the callee's last, does nothing.
func (n *Node) OnPollAnswer(now mono.Time, from Callee, r *wire.Reply) {
	s := subject{r.Workflow, from}
	who := from.Who()
	if _, asked := n.pollers.places[s]; !asked || who == nil || who.Number != r.Process {
		return
	}
	f := baseline.Feedback{Rate: r.Rate, HasRate: r.HasRate}
	a := n.adapterAt(now)
	a.OnRate(now, a.Workflow(now, r.Workflow), n.peer(now, who.Number, who.Service), rateOf(&f))
	n.hear(now, s, r.HasRate)
}

// OnPoll answers the poll of another process, as far as the edge believes its tags;
// false if there is no answer. A node that does not limit says that there is no
// limit.
func (n *Node) OnPoll(now mono.Time, tags *wire.Tags, limits bool) (wire.Reply, bool) {
	if !n.rated || tags.Process == 0 {
		return wire.Reply{}, false
	}
	r := wire.Reply{Process: n.number, Service: n.service, Workflow: tags.Workflow, Asker: tags.Process}
	if limits {
		a := n.adapterAt(now)
		// A claim without a request: an attempt that is none of the first is not
		// counted, and one that does not enter is nothing else.
		q := rates.Request{Workflow: a.Workflow(now, tags.Workflow), From: n.peer(now, tags.Process, ""), Attempt: 1, Demand: tags.Claim}
		a.OnArrival(now, &q)
		r.Rate = a.Announce(q.Workflow, q.From)
		r.HasRate = r.Rate < rates.NoLimit
	}
	return r, true
}

// Due reports whether a period of the rates ends at now: the driver then says with
// OnPressure how each resource of Config.Rates.Resources is doing, before any other
// event.
func (n *Node) Due(now mono.Time) bool {
	if !n.rated || now < n.periodEnds {
		return false
	}
	n.periodEnds = n.adapterAt(now).NextWake() // it only moves on
	return now >= n.periodEnds
}

// adapterAt returns the rates, which there are from the first event on.
func (n *Node) adapterAt(now mono.Time) *rates.Adapter {
	if n.adapter == nil {
		n.adapter = n.gate.Rates(now)
	}
	return n.adapter
}

// OnPressure takes how a resource did since the last period, by its place in
// Config.Rates.Resources. A mean wait above the gate's TargetDelay is overload.
func (n *Node) OnPressure(resource int, p rates.Pressure) {
	p.Target = n.gate.Config().TargetDelay
	n.gate.OnPressure(resource, p)
}

// OnUse counts a use of one of Config.Rates.Resources, by its place there, for a
// request of a workflow.
func (n *Node) OnUse(now mono.Time, workflow string, resource int, busy time.Duration) {
	a := n.adapterAt(now)
	a.OnUse(a.Workflow(now, workflow), resource+1, busy) // the gate's slots are the adapter's first
}
