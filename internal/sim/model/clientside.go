package model

import (
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// linger is how long the identities that a minting client leaves behind stay
// connected.
const linger = 10 * time.Millisecond

// tokensMax bounds the retry budget that successes build up.
const tokensMax = 10

// rejoin is how long a client waits before it tries again to reach a server
// that is down.
const rejoin = time.Millisecond

func (w *World) nextArrival(id int32) {
	if at, ok := w.clients[id].arrivals.next(); ok && at < w.cfg.Length {
		w.engine.At(origin.Add(at), event{arrive, id, 0})
	}
}

// arrive is the intended send time of a request.
func (w *World) arrive(id int32) {
	c := &w.clients[id]
	w.nextArrival(id)
	need := w.cfg.Server.Service.draw(c.work)
	priority := work.Priority(c.work.Uint32N(128)) // drawn in any case: the rest stays comparable
	if !w.cfg.Policy.Ranked {
		priority = 0
	}
	if c.away {
		return
	}
	r := w.newRequest()
	r.client, r.intended, r.work, r.priority = id, w.Now(), need, priority
	r.open = true
	r.waiter.Deadline = mono.Never
	if w.cfg.Deadline > 0 {
		r.waiter.Deadline = r.intended.Add(w.cfg.Deadline)
	}
	r.waiter.Owner = r
	c.inside++
	c.stats.Offered++
	if c.stats.WaitingSince == mono.Never {
		c.stats.WaitingSince = w.Now()
	}
	w.count(c.group, func(n *Count) { n.Offered++ })
	if !c.up {
		w.lose(r)
		return
	}
	if c.kind == Minting {
		w.leaveConnection(id, linger)
		w.open(id)
	}
	w.submit(r)
	w.pumpClient(id)
}

func (w *World) submit(r *request) {
	c := &w.clients[r.client]
	if !c.up {
		w.lose(r)
		return
	}
	step, reason := c.sender.Submit(w.Now(), &r.waiter, r.priority)
	switch step {
	case credit.Send:
		w.send(r)
	case credit.Wait:
		r.phase = waiting
	case credit.Refuse:
		w.refused(r, reason)
	}
}

// pumpClient carries out what a client's policy has decided.
func (w *World) pumpClient(id int32) {
	c := &w.clients[id]
	if !c.up {
		return
	}
	now := w.Now()
	for {
		wt, step, reason := c.sender.Next(now)
		if wt == nil {
			break
		}
		r := wt.Owner.(*request)
		if step == credit.Send {
			w.send(r)
		} else {
			w.refused(r, reason)
		}
	}
	if s, ok := c.sender.(reporter); ok {
		if n, ok := s.NextDemand(now); ok {
			w.engine.At(w.upAt(c), event{demandAtServer, w.newNote(note{client: id, conn: c.conn, demand: n}), 0})
		}
	}
	at := c.sender.NextWake()
	if at != mono.Never {
		at = max(at, now+1)
	}
	if at < c.armed {
		c.armed = at
		w.engine.At(at, event{wakeClient, id, 0})
	}
}

func (w *World) send(r *request) {
	c := &w.clients[r.client]
	r.phase, r.inNet, r.conn, r.sent = sent, true, c.conn, w.Now()
	r.demand = c.sender.Demand()
	c.stats.Sent++
	w.engine.At(w.upAt(c), event{requestAtServer, r.id, 0})
	if w.cfg.GiveUp && !r.timed && r.waiter.Deadline != mono.Never {
		r.timed = true
		w.engine.At(r.waiter.Deadline, event{giveUp, r.id, r.gen})
	}
}

// replyAtClient is the answer's or the refusal's arrival.
func (w *World) replyAtClient(r *request) {
	r.inNet = false
	if !r.open {
		w.release(r)
		return
	}
	c := &w.clients[r.client]
	now := w.Now()
	f := r.feedback
	c.sender.OnReply(now, &r.waiter, now.Sub(r.sent), f)
	if f.Reason != work.None {
		w.refused(r, f.Reason)
	} else {
		took := now.Sub(r.intended)
		c.tokens = min(c.tokens+w.cfg.Retry.Budget, tokensMax)
		good := took <= w.cfg.Objective
		if good {
			c.stats.Good++
			c.stats.LastGood, c.stats.WaitingSince = now, mono.Never
		}
		w.count(c.group, func(n *Count) {
			if good {
				n.Good++
			} else {
				n.Late++
			}
			n.Response.Add(took)
		})
		w.end(r)
	}
	w.pumpClient(r.client)
}

// refused tries r again if that is allowed, or ends it.
func (w *World) refused(r *request, reason work.Reason) {
	c := &w.clients[r.client]
	r.phase = backoff
	if c.kind == Honest && reason.Retryable() && r.attempt < w.cfg.Retry.Max && c.tokens >= 1 {
		wait := time.Duration(float64(w.cfg.Retry.Backoff<<r.attempt) * (0.5 + c.retry.Float64()))
		if w.Now().Add(wait) < r.waiter.Deadline {
			c.tokens--
			r.attempt++
			w.count(c.group, func(n *Count) { n.Retries++ })
			w.after(wait, event{tryAgain, r.id, r.gen})
			return
		}
	}
	w.count(c.group, func(n *Count) {
		n.Refused[reason]++
		n.Known.Add(w.Now().Sub(r.intended))
	})
	w.end(r)
}

// lose ends a request whose connection broke.
func (w *World) lose(r *request) {
	w.count(w.clients[r.client].group, func(n *Count) { n.Lost++ })
	w.end(r)
}

func (w *World) end(r *request) {
	w.clients[r.client].inside--
	r.open = false
	w.release(r)
}

// giveUp is a client's deadline for a request.
func (w *World) giveUp(id, gen int32) {
	r := w.requests[id]
	if r.gen != gen || !r.open || r.phase != sent {
		return
	}
	c := &w.clients[r.client]
	w.tellLost(c, r)
	w.engine.At(w.upAt(c), event{cancelAtServer, r.id, r.gen})
	w.count(c.group, func(n *Count) { n.Abandoned++ })
	w.end(r)
	w.pumpClient(r.client)
}

// tellLost tells a client's policy that no answer to r will come.
func (w *World) tellLost(c *client, r *request) {
	if s, ok := c.sender.(loser); ok {
		s.OnLost(&r.waiter)
		return
	}
	c.sender.OnReply(w.Now(), &r.waiter, w.Now().Sub(r.sent), baseline.Feedback{Reason: work.Canceled})
}

// connect opens a client's connection anew.
func (w *World) connect(id int32) {
	c := &w.clients[id]
	keep, ok := c.sender.(resetter)
	switch {
	case ok && !c.away:
		keep.Reset()
	case c.kind != Honest:
		c.sender = flood{}
	default:
		s, err := w.cfg.Policy.Sender(w.cfg.Seed, int(id))
		if err != nil {
			w.err = err
			return
		}
		c.sender = s
	}
	c.up, c.away = true, false
	w.open(id)
	w.pumpClient(id)
}

// open starts a new connection.
func (w *World) open(id int32) {
	c := &w.clients[id]
	c.conn++
	c.account, c.accepted = nil, false
	w.engine.At(w.upAt(c), event{connectAtServer, id, c.conn})
}

// drop ends what a client had sent on its connection. With keep, what waits for
// a credit, or for its next attempt, stays.
func (w *World) drop(id int32, keep bool) {
	c := &w.clients[id]
	_, queueStays := c.sender.(resetter)
	for _, r := range w.requests {
		if !r.open || r.client != id {
			continue
		}
		switch {
		case r.phase == sent:
			w.tellLost(c, r)
		case keep && (queueStays || r.phase == backoff):
			continue
		}
		w.lose(r)
	}
	c.up = false
}

// leave makes a client vanish; the server notices after some time.
func (w *World) leave(id int32, notice time.Duration) {
	w.drop(id, false)
	w.clients[id].away = true
	w.leaveConnection(id, notice)
}

func (w *World) leaveConnection(id int32, notice time.Duration) {
	c := &w.clients[id]
	if c.accepted {
		w.zombies[identity{id, c.conn}] = c.account
	}
	w.after(notice, event{hangupAtServer, id, c.conn})
	c.account, c.accepted = nil, false
	c.conn++
}

func (w *World) join(id int32) {
	c := &w.clients[id]
	if c.up {
		return
	}
	churn := w.cfg.Groups[c.group].Churn
	if c.away && churn.Stay > 0 {
		w.after(time.Duration(c.churn.ExpFloat64()*float64(churn.Stay)), event{depart, id, 0})
	}
	w.connect(id)
}

func (w *World) depart(id int32) {
	c := &w.clients[id]
	churn := w.cfg.Groups[c.group].Churn
	if c.up {
		w.leave(id, w.cfg.Network.Delay)
	}
	if c.away {
		w.after(time.Duration(c.churn.ExpFloat64()*float64(churn.Away)), event{join, id, 0})
	} else {
		w.after(rejoin, event{depart, id, 0})
	}
}

// upAt and downAt are when a message sent now arrives, in order.
func (w *World) upAt(c *client) mono.Time {
	c.lastUp = max(c.lastUp, w.Now().Add(w.delay(c)))
	return c.lastUp
}

func (w *World) downAt(c *client) mono.Time {
	c.lastDown = max(c.lastDown, w.Now().Add(w.delay(c)))
	return c.lastDown
}

func (w *World) delay(c *client) time.Duration {
	d := w.cfg.Network.Delay
	if j := w.cfg.Network.Jitter; j > 0 {
		d += time.Duration(c.net.ExpFloat64() * float64(j))
	}
	return d
}
