package mesh

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// settleClient says whose connections client k of a group uses. The first of a group are
// its connections; users beyond them share these.
func (w *World) settleClient(c *client, group, k int) {
	d := w.cfg.described
	if d == nil {
		return
	}
	g := &d.world.Clients[group]
	first := w.firstClient[group]
	k %= g.Clients * g.Connections
	c.via, c.plain, c.byReply = first+int32(k), g.Kind == world.Plain, g.ByReply
	c.peer = uint64(first) + 1
	if !g.SharedAddress {
		c.peer += uint64(k / g.Connections)
	}
}

// startGroup lets a group connect, and send.
func (w *World) startGroup(group int32) {
	g := &w.cfg.described.world.Clients[group]
	n := g.Clients * g.Connections
	first := w.firstClient[group]
	for k := range n {
		w.engine.At(origin.Add(joins(g, k, n)), event{joinNetwork, first + int32(k), 0})
	}
	for k := range g.Load.Users {
		c := &w.clients[first+int32(k)]
		c.stopped, c.idle = false, false
		think := time.Duration(c.rng.ExpFloat64() * float64(g.Load.Think))
		w.engine.At(origin.Add(joins(g, k%n, n)+think), event{arrival, first + int32(k), 0})
	}
	if g.Load.Users == 0 {
		w.scheduleGroup(group)
	}
}

// join opens the connection of a client to all that it asks.
func (w *World) join(id int32) {
	c := &w.clients[id]
	if c.plain {
		return // opened by the first call, as nothing is to be known before
	}
	m := &w.mixes[c.group]
	for slot, number := range m.slots {
		s := &w.services[number]
		for i := range s.processes {
			l := w.link(&c.node, int32(slot), s, i)
			if l.to.alive {
				w.account(l)
				w.pumpDoor(l.to)
			}
		}
	}
}

// scheduleGroup schedules the next request of a group, whose clients share one stream
// of arrivals.
func (w *World) scheduleGroup(group int32) {
	c, g := &w.clients[w.firstClient[group]], &w.cfg.Groups[group]
	var at time.Duration
	if n := len(g.Load.Trace); n > 0 {
		last := g.Load.Trace[n-1]
		period := last + last/time.Duration(max(n-1, 1))
		at = g.Load.Trace[c.index%n] + time.Duration(c.index/n)*period
		c.index++
	} else {
		var ok bool
		if at, ok = c.nextArrival(g, 1); !ok {
			return
		}
	}
	if at < w.cfg.Length {
		w.engine.At(origin.Add(at), event{groupArrival, group, 0})
	}
}

// groupArrival is the intended send time of a request of a group: of one of those who
// are connected by now, by chance.
func (w *World) groupArrival(group int32) {
	w.scheduleGroup(group)
	g := &w.cfg.described.world.Clients[group]
	n := g.Clients * g.Connections
	if g.Arrive > 0 {
		n = min(n, 1+int(float64(w.Since())/float64(g.Arrive)*float64(n)))
	}
	first := w.firstClient[group]
	w.clientArrival(first + int32(w.clients[first].rng.IntN(n)))
}

// label is the name by which policies know the workflow of a request.
func (w *World) label(r *root) string {
	if d := w.cfg.described; d != nil {
		return d.world.Clients[w.clients[r.client].group].Workflow
	}
	return w.cfg.Workflows[r.workflow].Name
}

// tag fills in what an edge knows of a request beside what the simulation of a call
// graph needs.
func (w *World) tag(c *call) {
	d := w.cfg.described
	if d == nil {
		return
	}
	g := &d.world.Clients[w.clients[c.root.client].group]
	t := &c.ticket
	t.Class = g.Class
	t.Waited = c.sent.Sub(c.asked)
	if c.link.from.service == noService {
		t.Waited = c.sent.Sub(c.root.intended)
	}
	t.Source, t.Peer = uint64(c.link.id)+1, c.link.from.peer
}

// retryAsDescribed sends a request again, if its group does that and the failure was a
// refusal of which nothing was executed. Whether it makes sense, and when, the server says to those who listen.
func (w *World) retryAsDescribed(r *root, why cause) bool {
	c := &w.clients[r.client]
	g := &w.cfg.described.world.Clients[c.group].Retry
	if int(r.attempt)+1 >= g.Attempts || why.kind != shed || why.nested || !g.Stubborn && !why.reason.Retryable() || g.Budget > 0 && c.tokens < 1 {
		return false
	}
	wait := float64(g.Backoff) * math.Exp2(float64(r.attempt)) * (0.5 + r.chance.of(drawRetry, 1<<20+uint64(r.attempt)).unit())
	if why.pushback > 0 && !g.Stubborn {
		wait = float64(why.pushback)
	}
	at := w.Now().Add(durationOf(wait))
	if at >= r.deadline {
		return false
	}
	if g.Budget > 0 {
		c.tokens--
	}
	r.attempt++
	w.engine.At(at, event{tryAgain, r.id, r.gen})
	return true
}

// abandon: the process that works on c learns that c was given up, and works on all
// the same.
func (w *World) abandon(c *call) {
	if c.state == notHere || c.state == answering || c.abandoned {
		return
	}
	p := c.process
	c.abandoned = true
	p.running--
	p.door.Leave(w.Now(), &c.ticket, work.Ignored)
	p.door.Feedback(w.Now(), &c.ticket)
	w.pumpDoor(p)
}

// travel sends c to the process that it calls.
func (w *World) travel(c *call) {
	w.engine.AlongLane(laneMessage, w.up(c.link), event{requestAtProcess, c.id, c.gen})
}

// up and down are when a message that is sent now arrives, in order.
func (w *World) up(l *link) mono.Time   { return w.hop(&l.lastUp) }
func (w *World) down(l *link) mono.Time { return w.hop(&l.lastDown) }

func (w *World) hop(last *mono.Time) mono.Time {
	at := w.Now().Add(w.cfg.Network.Delay)
	d := w.cfg.described
	if d == nil || d.world.Network.Jitter == 0 {
		return at
	}
	if w.jitter == nil {
		w.jitter = sim.Chance(w.cfg.Seed, streamNetwork, 0)
	}
	*last = max(*last, at.Add(durationOf(w.jitter.ExpFloat64()*float64(d.world.Network.Jitter))))
	return *last
}
