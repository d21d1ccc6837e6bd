package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/world"
)

// linger is how long the connections that minting clients leave behind stay open.
const linger = 10 * time.Millisecond

// rejoin is how long a client waits that is to leave while it is away.
const rejoin = time.Millisecond

// leave makes a client's connections vanish with all that it had sent. Services notice
// after a time.
func (w *World) leave(id int32, notice time.Duration) {
	c := &w.clients[id]
	c.away = true
	for _, r := range w.roots {
		if r.open && w.clients[r.client].via == id {
			w.vanished(r)
		}
	}
	w.leaveLinks(c, notice)
}

// vanished ends a request whose connection is gone. Nobody tells the service.
func (w *World) vanished(r *root) {
	if top := r.top; top != nil {
		r.top = nil
		w.forget(top)
	}
	w.failed(r, cause{kind: lost})
	w.count(r, w.Now(), func(n *Count) { n.Lost++ })
	w.endRoot(r)
}

// leaveLinks makes a client forget its connections.
func (w *World) leaveLinks(c *client, notice time.Duration) {
	for slot := range c.links {
		for i, l := range c.links[slot] {
			if l == nil {
				continue
			}
			l.gone, l.sender = true, nil
			c.links[slot][i] = nil
			w.after(notice, event{hangUp, l.id, 0})
		}
	}
}

// hangUp is when a service notices that a connection is gone: what waits at its door for
// it leaves, and its account ends.
func (w *World) hangUp(l *link) {
	p := l.to
	if !p.alive || l.life != p.life {
		return
	}
	for _, c := range w.calls {
		if c.root != nil && c.link == l && c.there && c.process == p && c.state == atDoor {
			w.cancelAtProcess(c)
			if c.open { // a minting client waits for it on its old connection
				c.there = true
				w.lose(c)
			}
		}
	}
	w.disconnect(l)
}

// disconnect ends the account of a link.
func (w *World) disconnect(l *link) {
	if l.account != nil {
		l.to.door.Disconnect(w.Now(), l.account)
		l.account = nil
		w.pumpDoor(l.to)
	}
}

// mint gives a client that wants one a new connection for its next request.
func (w *World) mint(id int32) {
	c := &w.clients[w.clients[id].via]
	if d := w.cfg.described; d == nil || d.world.Clients[c.group].Kind != world.Minting {
		return
	}
	w.leaveLinks(c, linger)
	w.join(w.clients[id].via)
}

// churn schedules the end of a connection, if its group does not stay.
func (w *World) churn(id int32) {
	c := &w.clients[id]
	if k := w.cfg.described.world.Clients[c.group].Churn; k.Stay > 0 {
		w.after(c.chance.of(drawChurn, c.turns).span(k.Stay), event{depart, id, 0})
		c.turns++
	}
}

// departs is when a connection ends of its own accord.
func (w *World) departs(id int32) {
	c := &w.clients[id]
	k := w.cfg.described.world.Clients[c.group].Churn
	if c.away {
		w.after(rejoin, event{depart, id, 0})
		return
	}
	w.leave(id, w.cfg.Network.Delay)
	w.after(c.chance.of(drawChurn, c.turns).span(k.Away), event{rejoinNetwork, id, 1})
	c.turns++
}

// rejoins connects a client that is away. Of its own accord, it is to leave again.
func (w *World) rejoins(id int32, own bool) {
	if c := &w.clients[id]; c.away {
		c.away = false
		w.join(id)
	}
	if own {
		w.churn(id)
	}
}

// clientsVanish lets a share of all connections vanish until a fault is over.
func (w *World) clientsVanish(i int32, f *world.Fault) {
	rng := sim.Chance(w.cfg.Seed+uint64(w.Since()), streamVanish, int(i))
	for id := range w.clients {
		c := &w.clients[id]
		if c.via != int32(id) || !c.joined || c.away || rng.Float64() >= f.Vanish {
			continue
		}
		w.leave(int32(id), f.Notice)
		w.after(f.For, event{rejoinNetwork, int32(id), 0})
	}
}

// span returns an exponential time of a mean.
func (d draws) span(mean time.Duration) time.Duration { return durationOf(d.exp() * float64(mean)) }

// spoil applies the network's faults to a grant on the way to a caller, and reports
// whether it still travels as it was to.
func (w *World) spoil(n note) bool {
	d := w.cfg.described
	if d == nil {
		return true
	}
	f := &d.world.Network
	if f.LoseGrant == 0 && f.RepeatGrant == 0 && f.DelayGrant == 0 {
		return true
	}
	if w.spoiler == nil {
		w.spoiler = sim.Chance(w.cfg.Seed, streamNetwork, 1)
	}
	later := func() {
		wait := durationOf((1 + 9*w.spoiler.Float64()) * float64(f.Delay))
		w.after(wait, event{grantAtLink, w.newNote(n), 0})
	}
	switch {
	case w.spoiler.Float64() < f.LoseGrant:
		return false
	case w.spoiler.Float64() < f.DelayGrant:
		later()
		return false
	case w.spoiler.Float64() < f.RepeatGrant:
		later()
	}
	return true
}

// greed is the demand that clients report who ignore every window.
const greed = credit.WindowLimit
