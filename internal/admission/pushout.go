package admission

import (
	"math"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/work"
)

// When the queue is full, the sender that has had most is refused, not the one that
// comes. That is max-min: a sender that asks for less than an equal share gets what it
// asks for, and the others share the rest.
const (
	// lookedAt is how many waiting requests are looked at for one to make room. A sender
	// with a tenth of the queue is among 32 in 97 of 100 cases.
	lookedAt = 32
	// A sender had clearly more than another if it had heavier times as much, and more by
	// heavierBy deviations of a count: the most of 32 equal senders has two deviations more
	// than the mean, and the one that comes sometimes two less.
	heavier, heavierBy = 1.1, 4
	// longest is how many requests of the mean length a long request counts at most.
	longest = 16
)

// makeRoom pushes a request out of the queue whose sender had clearly more than that of t, and reports whether there
// was one. Next then names it. full is whether the queue is.
//
// Where senders take turns, what they have waiting comes before what they had: requests whose turns are more than a
// round before that of t stay, because their senders have less waiting. Of a full queue the one with the last turn
// goes, if that is a round behind that of t. Where it is not full, t waits for those before it, and only one of them
// makes room.
func (g *Gate) makeRoom(now mono.Time, t *Ticket, full bool) bool {
	var out *Ticket
	if g.cfg.Schedule.Senders == 0 {
		out = g.heaviest(t, nil)
	} else {
		out = g.outOfTurn(t, full)
	}
	if out == nil {
		return false
	}
	g.queue.Remove(&out.task)
	g.dismiss(now, out, work.Share)
	out.pushed = true
	g.pushed = append(g.pushed, out)
	return true
}

// outOfTurn is what makeRoom pushes out where senders take turns.
func (g *Gate) outOfTurn(t *Ticket, full bool) *Ticket {
	turn := g.queue.Turn(t.Class, t.Flow, t.whom())
	if full {
		if last := g.lastTurn(t); last != nil && last.task.Turn() >= turn+schedule.ARound {
			return last
		}
	}
	return g.heaviest(t, func(o *Ticket) bool {
		at := o.task.Turn()
		return at >= turn-schedule.ARound && (full || at <= turn)
	})
}

// lastTurn returns of the waiting requests that are looked at, and stand in line with t, the one whose turn comes last,
// and of those the newest; nil if there is none.
func (g *Gate) lastTurn(t *Ticket) *Ticket {
	var out *Ticket
	for range min(len(g.waiters.tickets), lookedAt) {
		o := g.waiters.next()
		if !g.inLine(o, t) {
			continue
		}
		if out == nil || o.task.Turn() > out.task.Turn() || o.task.Turn() == out.task.Turn() && o.Arrived > out.Arrived {
			out = o
		}
	}
	return out
}

// inLine reports whether o stands in the same line of the queue as t will, and does not go before it by its priority.
func (g *Gate) inLine(o, t *Ticket) bool {
	return o.Class == t.Class && o.Priority >= t.Priority && (!g.cfg.Schedule.Fair || o.Flow == t.Flow)
}

// spare lets t start after all if it may still be in time and the sender of a waiting
// request had clearly more.
func (g *Gate) spare(now mono.Time, t *Ticket) bool {
	if t.spared || g.queue.Len() == 0 || g.heaviest(t, nil) == nil {
		return false
	}
	t.spared = true
	return now <= g.staleAt(t)
}

// heaviest returns a waiting request whose sender had clearly more than that of t: of those
// looked at that may be taken, all if may is nil, the newest of the sender that had most; nil if there is none.
func (g *Gate) heaviest(t *Ticket, may func(*Ticket) bool) *Ticket {
	var out *Ticket
	for range min(len(g.waiters.tickets), lookedAt) {
		o := g.waiters.next()
		if !g.inLine(o, t) || may != nil && !may(o) {
			continue
		}
		if out == nil {
			out = o
			continue
		}
		if x, y := had(o, out); x > y || x == y && o.Arrived > out.Arrived {
			out = o
		}
	}
	if out == nil {
		return nil
	}
	if x, y := had(out, t); x <= heavier*y+heavierBy*math.Sqrt(y+1) {
		return nil
	}
	return out
}

// had returns what the senders of two had: their peers if these are different ones, else
// they themselves.
func had(a, b *Ticket) (x, y float64) {
	if a.Peer != b.Peer && a.Peer != 0 && b.Peer != 0 {
		return a.peerHad, b.peerHad
	}
	return a.had, b.had
}

// note looks up what the sender of t had, and its peer.
func (g *Gate) note(t *Ticket) {
	t.senders = senders{own: cellsOf(t.source()), known: t.Peer != 0}
	t.had, t.peerHad = g.usage.of(t.senders.own), 0
	if t.senders.known {
		t.senders.peer = cellsOf(^t.Peer) // which is no source's
		t.peerHad = g.usage.of(t.senders.peer)
	}
}

// whom is the number of whose turn t takes.
func (t *Ticket) whom() uint64 {
	switch {
	case t.Whom != 0:
		return t.Whom
	case t.Peer != 0:
		return t.Peer
	}
	return t.source()
}

// source is the number of the sender of t.
func (t *Ticket) source() uint64 {
	if t.Source == 0 && t.Client != nil {
		return t.Client.Number()
	}
	return t.Source
}
