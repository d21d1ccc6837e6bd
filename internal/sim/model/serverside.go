package model

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

func (w *World) startServer() error {
	door, err := w.cfg.Policy.Door(w.cfg.Seed, w.life)
	if err != nil {
		return err
	}
	w.door, w.alive, w.armed = door, true, mono.Never
	w.life++
	w.armServer()
	return nil
}

// killServer loses everything the server holds.
func (w *World) killServer() {
	w.alive = false
	for _, r := range w.requests {
		if r.atServer != notHere {
			r.atServer, r.inNet = notHere, false
			w.release(r)
		}
	}
	speed := w.station.speed
	w.station = newStation(w.cfg.Server.Cores, int32(w.life)<<20)
	w.station.speed = speed
	w.inQueue = 0
	clear(w.zombies)
	for i := range w.clients {
		w.clients[i].account, w.clients[i].accepted = nil, false
	}
}

// accept is a new connection's arrival at the server.
func (w *World) accept(id, conn int32) {
	c := &w.clients[id]
	if conn != c.conn {
		return
	}
	if !w.alive {
		w.drop(id, true)
		w.after(rejoin, event{join, id, 0})
		return
	}
	c.account, c.accepted = w.door.Connect(w.Now()), true
	if c.account != nil {
		c.account.Owner = &identity{id, conn}
	}
	w.pumpServer()
}

// hangup is when the server learns that a connection is gone.
func (w *World) hangup(id, conn int32) {
	account, ok := w.zombies[identity{id, conn}]
	if !ok || !w.alive {
		return
	}
	delete(w.zombies, identity{id, conn})
	for _, r := range w.requests {
		if r.client == id && r.conn == conn && r.atServer == inQueue {
			w.takeOut(r)
		}
	}
	w.door.Disconnect(w.Now(), account)
	w.pumpServer()
}

// accountOf returns the account that pays for r, and whether its connection
// still exists at the server.
func (w *World) accountOf(r *request) (*credit.Client, bool) {
	c := &w.clients[r.client]
	if r.conn == c.conn {
		return c.account, c.accepted
	}
	account, ok := w.zombies[identity{r.client, r.conn}]
	return account, ok
}

func (w *World) requestAtServer(r *request) {
	now := w.Now()
	account, ok := w.accountOf(r)
	if !w.alive || !ok {
		r.inNet = false
		w.release(r)
		return
	}
	deadline := mono.Never
	if r.waiter.Deadline != mono.Never {
		deadline = now.Add(r.waiter.Deadline.Sub(r.sent)) // the budget travels
	}
	r.ticket = admission.Ticket{
		Request: work.Request{
			Priority: r.priority,
			Deadline: deadline,
			Demand:   r.demand,
			Attempt:  r.attempt,
			Workflow: w.cfg.Groups[w.clients[r.client].group].Name,
		},
		Waited: r.sent.Sub(r.intended),
		Flow:   int(w.clients[r.client].group),
		Client: account,
		Source: uint64(r.client)<<32 | uint64(uint32(r.conn)) + 1,
		Peer:   uint64(r.client) + 1,
		Owner:  r,
	}
	w.decided(&r.ticket, w.door.Arrive(now, &r.ticket), false)
	w.pumpServer()
}

// decided carries out the door's decision about a ticket.
func (w *World) decided(t *admission.Ticket, v admission.Verdict, queued bool) {
	if f := w.cfg.Hooks.Decision; f != nil {
		f(w, t, v, queued)
	}
	r := t.Owner.(*request)
	if queued {
		w.inQueue--
	}
	switch v {
	case admission.Wait:
		r.atServer = inQueue
		w.inQueue++
	case admission.Run:
		r.atServer = inStation
		if poll := w.cfg.Groups[w.clients[r.client].group].Poll; poll > 0 {
			w.station.executed++
			w.after(poll, event{finishPoll, r.id, r.gen})
			return
		}
		w.add(job{execute, r.id, r.work + float64(w.cfg.Server.Handle)})
	case admission.Shed:
		r.atServer = answering
		r.feedback = w.door.Feedback(w.Now(), t)
		r.feedback.Reason = t.Reason()
		if w.cfg.Server.Message == 0 {
			w.reply(r)
		} else {
			w.add(job{refuse, r.id, 2 * float64(w.cfg.Server.Message)})
		}
	}
}

// pumpServer carries out what the door has decided.
func (w *World) pumpServer() {
	if !w.alive {
		return
	}
	now := w.Now()
	for {
		t, v := w.door.Next(now)
		if t == nil {
			break
		}
		w.decided(t, v, true)
	}
	for {
		c, g, ok := w.door.NextGrant()
		if !ok {
			break
		}
		to := c.Owner.(*identity)
		w.report.Grants++
		n := w.newNote(note{client: to.client, conn: to.conn, grant: g})
		if w.cfg.Server.Message == 0 {
			w.grant(n)
		} else {
			w.add(job{sendGrant, n, float64(w.cfg.Server.Message)})
		}
	}
	w.armServer()
}

func (w *World) armServer() {
	at := w.door.NextWake()
	if at != mono.Never {
		at = max(at, w.Now()+1)
	}
	if at < w.armed {
		w.armed = at
		w.engine.At(at, event{kind: wakeServer})
	}
}

func (w *World) add(j job) {
	if core := w.station.add(w.Now(), j); core >= 0 {
		w.engine.At(w.station.ends(core), event{finishJob, core, w.station.cores[core].run})
	}
}

func (w *World) finishJob(core, run int32) {
	k := &w.station.cores[core]
	if !w.alive || !k.busy || k.run != run {
		return
	}
	now := w.Now()
	took := float64(now.Sub(k.began))
	j, more := w.station.finish(now, core)
	if more {
		w.engine.At(w.station.ends(core), event{finishJob, core, k.run})
	}
	w.busy += took
	if j.kind != execute {
		w.message += took
	}
	switch j.kind {
	case execute:
		r := w.requests[j.who]
		if r.atServer == abandoned {
			r.atServer, r.inNet = notHere, false
			w.release(r)
			break
		}
		w.door.Leave(now, &r.ticket, work.Done)
		r.feedback = w.door.Feedback(now, &r.ticket)
		r.feedback.Reason = work.None
		w.reply(r)
	case refuse:
		w.reply(w.requests[j.who])
	case sendGrant:
		w.grant(j.who)
	case takeDemand:
		w.deliverDemand(j.who)
	}
	w.pumpServer()
}

func (w *World) finishPoll(id, gen int32) {
	r := w.requests[id]
	if r.gen != gen || r.atServer != inStation && r.atServer != abandoned {
		return
	}
	w.station.executed--
	if r.atServer == abandoned {
		r.atServer, r.inNet = notHere, false
		w.release(r)
		return
	}
	w.door.Leave(w.Now(), &r.ticket, work.Done)
	r.feedback = w.door.Feedback(w.Now(), &r.ticket)
	r.feedback.Reason = work.None
	w.reply(r)
	w.pumpServer()
}

func (w *World) demandAtServer(i int32) {
	w.report.Demands++
	if !w.alive || w.cfg.Server.Message == 0 {
		w.deliverDemand(i)
		return
	}
	w.add(job{takeDemand, i, float64(w.cfg.Server.Message)})
}

func (w *World) deliverDemand(i int32) {
	n := w.takeNote(i)
	c := &w.clients[n.client]
	if w.alive && c.accepted && c.conn == n.conn {
		w.door.OnDemand(w.Now(), c.account, n.demand)
		w.pumpServer()
	}
}

// takeOut ends a ticket in the queue whose caller gave up.
func (w *World) takeOut(r *request) {
	if !w.door.Cancel(w.Now(), &r.ticket) {
		return
	}
	if f := w.cfg.Hooks.Canceled; f != nil {
		f(w, &r.ticket)
	}
	w.door.Feedback(w.Now(), &r.ticket)
	w.inQueue--
	r.atServer, r.inNet = notHere, false
	w.release(r)
}

func (w *World) cancelAtServer(id, gen int32) {
	r := w.requests[id]
	if r.gen != gen || !w.alive {
		return
	}
	switch {
	case r.atServer == inQueue:
		w.takeOut(r)
	case r.atServer == inStation && w.cfg.Server.Deaf:
		w.door.Leave(w.Now(), &r.ticket, work.Ignored)
		w.door.Feedback(w.Now(), &r.ticket)
		r.atServer = abandoned
	default:
		return
	}
	w.pumpServer()
}

// reply sends the answer or the refusal to the client.
func (w *World) reply(r *request) {
	r.atServer = notHere
	c := &w.clients[r.client]
	if f := &r.feedback; f.HasGrant {
		f.HasGrant = w.spoil(c, note{client: r.client, conn: r.conn, grant: f.Grant})
	}
	w.engine.At(w.downAt(c), event{replyAtClient, r.id, 0})
}

// grant sends a grant that rides on no reply.
func (w *World) grant(i int32) {
	n := w.notes[i]
	c := &w.clients[n.client]
	if !w.spoil(c, n) {
		w.takeNote(i)
		return
	}
	w.engine.At(w.downAt(c), event{grantAtClient, i, 0})
}

// spoil applies the network's faults to a grant and reports whether it still
// travels where it was.
func (w *World) spoil(c *client, n note) bool {
	f := &w.cfg.Network
	if f.LoseGrant == 0 && f.RepeatGrant == 0 && f.DelayGrant == 0 {
		return true
	}
	later := func() {
		d := time.Duration((1 + 9*c.net.Float64()) * float64(f.Delay))
		w.after(d, event{grantAtClient, w.newNote(n), 0})
	}
	switch {
	case c.net.Float64() < f.LoseGrant:
		return false
	case c.net.Float64() < f.DelayGrant:
		later()
		return false
	case c.net.Float64() < f.RepeatGrant:
		later()
	}
	return true
}
