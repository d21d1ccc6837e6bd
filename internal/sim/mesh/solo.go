package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim"
)

// solo plays requests of which calls may wait for each other, one at a time, where nothing else happens: no door, no
// sender, no deadline, no fault. It does what a World does with them, in the same order, and takes a fifth of the time,
// because a call is one line of memory.
type solo struct {
	engine sim.Engine[soloEvent]
	tenant uint32
	calls  []*soloCall // the first used are the request's
	used   int
	units  []soloUnits // of all resources
	first  []int32     // of a process, in units
}

// soloEvent is that a call arrives (requestAtProcess), its work ends (endWork), or its answer arrives (replyAtCaller).
type soloEvent struct {
	kind eventKind
	call int32
}

// soloCall is a call that is open.
type soloCall struct {
	id      int32
	process int32
	stage   int32
	pc      int32
	pending int32
	out     int32 // its place in walker.out, -1: it does not count there
	making
	chance draws
	parent *soloCall // nil: the request's own
	next   *soloCall // behind it in the line of its resource
}

// soloUnits is a resource of a process, with those that wait in order of arrival.
type soloUnits struct {
	free       int32
	head, tail *soloCall
}

func (w *World) newSolo() solo {
	s := solo{}
	s.engine.Lanes(1)
	for _, p := range w.processes {
		s.first = append(s.first, int32(len(s.units)))
		for i := range p.resources {
			s.units = append(s.units, soloUnits{free: p.resources[i].capacity})
		}
	}
	return s
}

// play is walk, from the entry on, for calls that may wait for each other.
func (k *walker) play(entry *callee, tenant uint32, chance draws) time.Duration {
	s := &k.solo
	began := s.engine.Now()
	s.tenant, s.used = tenant, 0
	k.send(nil, k.client(), entry, chance, chance.of(drawRetry, 0))
	for ev, ok := s.engine.Next(mono.Never); ok; ev, ok = s.engine.Next(mono.Never) {
		c := s.calls[ev.call]
		switch ev.kind {
		case requestAtProcess:
			k.advance(c)
		case endWork:
			k.endWork(c)
		case replyAtCaller:
			k.answered(c)
		}
	}
	return s.engine.Now().Sub(began)
}

// send makes a call, whose process pick chooses.
func (k *walker) send(parent *soloCall, caller int32, to *callee, chance, pick draws) {
	s := &k.solo
	if s.used == len(s.calls) {
		s.calls = append(s.calls, new(soloCall))
	}
	c := s.calls[s.used]
	*c = soloCall{id: int32(s.used), parent: parent, stage: to.stage, pc: k.program.stages[to.stage].first, chance: chance}
	s.used++
	if c.process, c.out = k.choose(caller, to, s.tenant, pick); c.out >= 0 {
		k.out[c.out]++
	}
	s.engine.AlongLane(0, s.engine.Now().Add(k.hop), soloEvent{requestAtProcess, c.id})
}

// advance is World.advance.
func (k *walker) advance(c *soloCall) {
	s := &k.solo
	for last := k.program.stages[c.stage].last; c.pc < last; c.pc++ {
		st := &k.program.steps[c.pc]
		if st.kind == stepWork {
			if u := s.of(c, st); u.free > 0 {
				u.free--
				k.work(c, st)
			} else if u.tail == nil {
				u.head, u.tail = c, c
			} else {
				u.tail.next, u.tail = c, c
			}
			return
		}
		c.callAt, c.callLeft = st.first, -1
		if k.makeCalls(c, st) {
			return
		}
	}
	s.engine.AlongLane(0, s.engine.Now().Add(k.hop), soloEvent{replyAtCaller, c.id})
}

// of is the resource that a step of c works at.
func (s *solo) of(c *soloCall, st *step) *soloUnits { return &s.units[s.first[c.process]+st.resource] }

func (k *walker) work(c *soloCall, st *step) {
	s := &k.solo
	s.engine.At(s.engine.Now().Add(st.took(c.chance, c.pc)), soloEvent{endWork, c.id})
}

// endWork gives the unit to the next in line before c goes on.
func (k *walker) endWork(c *soloCall) {
	u := k.solo.of(c, &k.program.steps[c.pc])
	if next := u.head; next == nil {
		u.free++
	} else {
		if u.head = next.next; u.head == nil {
			u.tail = nil
		}
		next.next = nil
		k.work(next, &k.program.steps[next.pc])
	}
	c.pc++
	k.advance(c)
}

// makeCalls is World.makeCalls.
func (k *walker) makeCalls(c *soloCall, st *step) (pending bool) {
	for to := c.upcoming(k.program, st, c.chance); to != nil; to = c.upcoming(k.program, st, c.chance) {
		chance := c.chance.of(drawChild, c.born)
		c.pending++
		k.send(c, c.process, to, chance, chance)
		if !st.parallel {
			return true
		}
	}
	return c.pending > 0
}

// answered takes the answer to c.
func (k *walker) answered(c *soloCall) {
	if c.out >= 0 {
		k.out[c.out]--
	}
	p := c.parent
	if p == nil {
		return
	}
	p.pending--
	st := &k.program.steps[p.pc]
	if st.parallel && p.pending > 0 || !st.parallel && k.makeCalls(p, st) {
		return
	}
	p.pc++
	k.advance(p)
}
