package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

// chore is a message that keeps a worker of a service whose threads handle their own
// messages. Chores come before requests and are not interrupted.
type chore struct {
	kind choreKind
	who  int32 // a call, or a note
	gen  int32 // of the call
	need time.Duration
	life int // of the process
}

type choreKind uint8

const (
	refuseCall choreKind = iota
	sendGrant
	takeDemand
)

// chore lets p's workers handle so many messages before what follows from them. It
// reports false, and there is nothing to wait for, if p's messages are free.
func (w *World) chore(p *process, c chore, messages int) bool {
	d := w.cfg.described
	if d == nil || d.world.Services[p.service].Message == 0 {
		return false
	}
	c.need, c.life = time.Duration(messages)*d.world.Services[p.service].Message, p.life
	if r := &p.resources[0]; r.inUse < r.capacity && p.pace.stops == 0 {
		w.beginChore(p, c)
	} else {
		p.chores.push(c)
	}
	return true
}

func (w *World) beginChore(p *process, c chore) {
	p.resources[0].inUse++
	p.busyChores++
	id := int32(len(w.chores))
	if n := len(w.freeChores); n > 0 {
		id, w.freeChores = w.freeChores[n-1], w.freeChores[:n-1]
		w.chores[id] = c
	} else {
		w.chores = append(w.chores, c)
	}
	w.engine.AlongLane(laneChore, w.Now().Add(durationOf(float64(c.need)*p.pace.factor())), event{endChore, p.id, id})
}

// endChoreOf is when a worker of p has handled a message.
func (w *World) endChoreOf(p *process, id int32) {
	c := w.chores[id]
	w.freeChores = append(w.freeChores, id)
	if !p.alive || p.life != c.life {
		w.dropChore(c)
		return
	}
	r := &p.resources[0]
	r.inUse--
	p.busyChores--
	p.messages += c.need
	w.serve(r)
	w.handled(p, c)
}

// handled goes on with what a message was about.
func (w *World) handled(p *process, c chore) {
	switch c.kind {
	case refuseCall:
		if call := w.calls[c.who]; call.gen == c.gen && call.state == answering {
			call.state = notHere
			w.reply(call, call.why)
		}
	case sendGrant:
		w.grantTravels(c.who)
	case takeDemand:
		w.takeDemand(w.takeNote(c.who))
	}
}

// dropChore forgets a message of a process that was killed. Calls were lost with it.
func (w *World) dropChore(c chore) {
	if c.kind != refuseCall {
		w.takeNote(c.who)
	}
}

// dropChores forgets those that wait for a worker of p.
func (w *World) dropChores(p *process) {
	for p.chores.len() > 0 {
		w.dropChore(p.chores.pop())
	}
	p.busyChores = 0
}

// takeDemand tells a door of demand that came without a call.
func (w *World) takeDemand(n note) {
	if p := n.link.to; p.alive && n.life == p.life {
		p.door.OnDemand(w.Now(), w.account(n.link), n.demand)
		w.pumpDoor(p)
	}
}

// demandArrives is when a report of demand reaches a process.
func (w *World) demandArrives(i int32) {
	p := w.notes[i].link.to
	if p.alive && w.chore(p, chore{kind: takeDemand, who: i}, 1) {
		return
	}
	w.charge(p, job{kind: jobChore})
	w.takeDemand(w.takeNote(i))
}

// grantLeaves sends credits that ride on no answer.
func (w *World) grantLeaves(n note) {
	p, i := n.link.to, w.newNote(n)
	if w.chore(p, chore{kind: sendGrant, who: i}, 1) {
		return
	}
	w.charge(p, job{kind: jobChore})
	w.grantTravels(i)
}

func (w *World) grantTravels(i int32) {
	n := w.notes[i]
	if !w.spoil(n) {
		w.takeNote(i)
		return
	}
	w.engine.AlongLane(laneMessage, w.down(n.link), event{grantAtLink, i, 0})
}

// refusalLeaves sends a refusal.
func (w *World) refusalLeaves(c *call, reason work.Reason) {
	c.why = cause{kind: shed, reason: reason}
	if w.chore(c.process, chore{kind: refuseCall, who: c.id, gen: c.gen}, 2) {
		c.state = answering
		return
	}
	w.reply(c, c.why)
}
