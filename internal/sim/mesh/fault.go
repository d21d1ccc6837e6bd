package mesh

import "github.com/spillgate/spillgate/internal/schedule"

// strike lets a fault happen.
func (w *World) strike(f *Fault) {
	for i := range w.cfg.Services {
		if w.cfg.Services[i].Name != f.Service {
			continue
		}
		for k, p := range w.services[i].processes {
			if f.Process >= 0 && f.Process != k {
				continue
			}
			if f.Speed > 0 {
				p.speed = f.Speed
			}
			if f.Kill > 0 && p.alive {
				w.kill(p)
				w.after(f.Kill, event{restart, p.id, 0})
			}
		}
	}
}

// kill loses everything that p holds. Its callers learn after the network's
// delay, and so do those whom it called.
func (w *World) kill(p *process) {
	p.alive = false
	p.queued, p.running = 0, 0
	for _, c := range w.calls {
		if c.root == nil || !c.there || c.process != p || c.state == notHere {
			continue
		}
		if c.state == working {
			c.root.busy += w.Now().Sub(c.began)
			p.busy += w.Now().Sub(c.began)
		}
		for c.holds != nil {
			h := c.holds
			c.holds, h.next, w.freeHolds = h.next, w.freeHolds, h
		}
		c.state, c.waits, c.qPrev, c.qNext = notHere, nil, nil, nil
		c.task = schedule.Task{}
		w.dropChildren(c)
		w.lose(c)
	}
	w.clear(p)
	w.vacate(p)
	w.after(w.cfg.Network.Delay, event{linksBreak, p.id, 0})
}

// lose answers c by a broken connection.
func (w *World) lose(c *call) { w.reply(c, cause{kind: lost}) }

// linksBreak is when the neighbours of p learn that it is gone.
func (w *World) linksBreak(p *process) {
	for _, l := range w.links {
		switch {
		case l.to == p:
			l.down = true
			w.failSent(l)
			w.failWaiting(l)
			l.sender, l.who = nil, nil
		case l.from == &p.node:
			if l.account != nil && l.to.alive && l.life == l.to.life {
				l.to.door.Disconnect(w.Now(), l.account)
				w.pumpDoor(l.to)
			}
			l.account, l.life, l.sender, l.who = nil, -1, nil, nil
			w.newSender(l)
		}
	}
}

// failSent fails the calls that were sent by l. What of them is in flight, or was taken
// by the next life of the process, is dropped there.
func (w *World) failSent(l *link) {
	for _, c := range w.calls {
		if c.root == nil || !c.open || c.link != l || c.phase != sent {
			continue
		}
		l.outstanding--
		w.tellLost(c)
		if c.process.alive && c.state != notHere {
			w.cancelAtProcess(c)
		} else {
			c.canceled = true
		}
		c.why = cause{kind: lost}
		w.conclude(c)
	}
}

// failWaiting fails the calls that wait in l's sender.
func (w *World) failWaiting(l *link) {
	for _, c := range w.calls {
		if c.root != nil && c.open && c.link == l && c.phase == waiting && l.sender.Cancel(&c.waiter) {
			w.refuse(c, cause{kind: lost})
		}
	}
}

// restart begins p's next life.
func (w *World) restart(p *process) {
	p.life++
	w.boot(p)
	w.after(w.cfg.Network.Delay, event{linksBack, p.id, 0})
}

// linksBack is when p's callers can reach it again.
func (w *World) linksBack(p *process) {
	for _, l := range w.links {
		if l.to == p && l.down && !l.gone {
			l.down = false
			w.newSender(l)
		}
	}
}
