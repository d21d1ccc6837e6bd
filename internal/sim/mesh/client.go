package mesh

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim"
)

// The purposes for which clients draw streams.
const (
	streamArrivals sim.Stream = iota
	streamWork
	streamLottery
	streamNetwork
	streamVanish
)

// client is one client of a group. In a closed loop it has one request at a
// time.
type client struct {
	node
	group   int32
	seq     uint64
	chance  draws
	rng     *rand.Rand
	at      float64 // ns from the start of the last open arrival
	step    int
	index   int   // into the trace
	via     int32 // the client whose connections it uses
	tokens  float64
	idle    bool // out of the closed loop
	stopped bool
	joined  bool // once connected
	away    bool // its connections are gone
	turns   uint64
}

// tokensMax bounds the retry budget that successes build up.
const tokensMax = 10

// nextArrival returns the time from the start of the next open request of one of so
// many clients.
func (c *client) nextArrival(g *Group, clients int) (time.Duration, bool) {
	if g.Load.Trace != nil {
		if c.index >= len(g.Load.Trace) {
			return 0, false
		}
		at := g.Load.Trace[c.index]
		c.index += clients
		return at, true
	}
	// A unit exponential is used up at the rate of each step that it crosses.
	steps := g.Load.Steps
	left := c.rng.ExpFloat64()
	for c.step < len(steps) {
		rate := steps[c.step].Rate / float64(clients) / 1e9
		end := math.Inf(1)
		if c.step+1 < len(steps) {
			end = float64(steps[c.step+1].At)
		}
		if room := (end - c.at) * rate; rate > 0 && left <= room {
			c.at += left / rate
			return time.Duration(c.at), true
		} else if rate > 0 {
			left -= room
		}
		c.at = math.Max(c.at, end)
		c.step++
	}
	return 0, false
}

// scheduleArrival schedules a client's next open request.
func (w *World) scheduleArrival(id int32) {
	c := &w.clients[id]
	if at, ok := c.nextArrival(&w.cfg.Groups[c.group], w.cfg.Groups[c.group].Clients); ok && at < w.cfg.Length {
		w.engine.At(origin.Add(at), event{arrival, id, 0})
	}
}

// users sets the number of clients in a closed loop.
func (w *World) users(group, n int32) {
	g := &w.cfg.Groups[group]
	for k := range int32(g.Clients) {
		id := w.firstClient[group] + k
		c := &w.clients[id]
		c.stopped = k >= n
		if !c.stopped && c.idle {
			c.idle = false
			w.think(id, 0)
		}
	}
}

// breath is the least time from a request to the next of a client in a closed loop,
// where no time passed until the first was refused. Without it, a client that does
// not think would send for ever at the same instant.
const breath = time.Millisecond

// think schedules the next request of a client in a closed loop, after least or more.
func (w *World) think(id int32, least time.Duration) {
	c := &w.clients[id]
	if c.stopped {
		c.idle = true
		return
	}
	wait := time.Duration(c.rng.ExpFloat64() * float64(w.cfg.Groups[c.group].Load.Think))
	w.after(max(wait, least), event{arrival, id, 0})
}

// clientArrival is the intended send time of a request.
func (w *World) clientArrival(id int32) {
	c := &w.clients[id]
	g := &w.cfg.Groups[c.group]
	if g.Load.closed() {
		if c.stopped {
			c.idle = true
			return
		}
	} else if w.cfg.described == nil {
		w.scheduleArrival(id)
	}
	if w.clients[c.via].away {
		if g.Load.closed() {
			w.after(rejoin, event{arrival, id, 0})
		}
		return
	}
	w.mint(id)
	c.seq++
	chance := c.chance.of(drawChild, c.seq)
	workflow, tenant := w.mixes[c.group].draw(chance.of(drawWorkflow, 0)), uint32(0)
	if g.Tenants > 1 {
		tenant = uint32(chance.of(drawTenant, 0).below(g.Tenants))
	}
	w.begin(id, workflow, chance, tenant, w.budget(workflow, chance, tenant))
}

// mixture is a distribution over workflows, by cumulated weight.
type mixture struct {
	upTo     []float64
	workflow []int32
}

func (m *mixture) draw(chance draws) int32 {
	if len(m.workflow) == 1 {
		return m.workflow[0]
	}
	u := chance.unit() * m.upTo[len(m.upTo)-1]
	i := 0
	for i < len(m.upTo)-1 && u >= m.upTo[i] {
		i++
	}
	return m.workflow[i]
}

// budget returns a request's budget, 0 if it has none.
func (w *World) budget(workflow int32, chance draws, tenant uint32) time.Duration {
	d := w.cfg.Workflows[workflow].Deadline
	switch {
	case d.Multiple > 0:
		return durationOf(d.Multiple * float64(w.isolated(workflow, chance, tenant)))
	case d.Typical > 0:
		return durationOf(d.Typical * w.typical(workflow))
	}
	return d.After
}

// begin starts a request of a client. budget is 0 if it has none.
func (w *World) begin(id, workflow int32, chance draws, tenant uint32, budget time.Duration) *root {
	r := w.newRoot()
	r.client, r.workflow, r.chance, r.intended, r.open = id, workflow, chance, w.Now(), true
	r.tenant, r.priority = tenant, w.priorityOf(id, chance)
	r.budget, r.deadline = budget, mono.Never
	if budget > 0 {
		r.deadline = r.intended.Add(budget)
	}
	w.inside++
	w.count(r, r.intended, func(n *Count) { n.Offered++ })
	w.enter(r)
	if w.cfg.Control.GiveUp && budget > 0 && !w.patient(id) {
		w.engine.AlongLane(laneDeadline+int(workflow)%deadlineLanes, r.deadline, event{deadline, r.id, r.gen})
	}
	if p := w.cfg.Workflows[workflow].Patience; w.cfg.Control.GiveUp && p > 0 {
		w.engine.At(r.intended.Add(durationOf(chance.of(drawPatience, 0).exp()*float64(p))), event{deadline, r.id, r.gen})
	}
	w.attempt(r)
	return r
}

// attempt sends a request, for the first time or again.
func (w *World) attempt(r *root) {
	k := &w.mixes[w.clients[r.client].group].entry[r.workflow]
	n := &w.clients[w.clients[r.client].via].node
	c := w.newCall()
	c.root, c.stage, c.deadline = r, k.stage, r.deadline
	c.chance = r.chance.of(drawChild, 0) // the same work each time
	c.link = w.choose(n, k, r, c.chance.of(drawRetry, uint64(r.attempt)))
	r.top = c
	w.submit(c)
}

// concluded is what an attempt came to.
func (w *World) concluded(r *root, why cause) {
	c := &w.clients[r.client]
	g := &w.cfg.Groups[c.group]
	if w.cfg.described != nil && why.kind != none && w.retryAsDescribed(r, why) {
		return
	}
	if why.kind == none {
		c.tokens = min(c.tokens+g.Retry.Budget, tokensMax)
		took := w.Now().Sub(r.intended)
		r.good = w.good(r, took)
		w.tally.answered(r, took)
		w.count(r, w.Now(), func(n *Count) {
			if r.good {
				n.Good++
			} else {
				n.Late++
			}
			n.Latency.Add(took)
			if r.budget > 0 && w.cfg.described == nil { // those have no use for it
				n.ratio.Add(time.Duration(float64(took) / float64(r.budget) * ratioUnit))
			}
		})
		w.endRoot(r)
		return
	}
	if r.attempt < int32(g.Retry.Max) && (g.Flood || retryable(why) && c.tokens >= 1) {
		wait := float64(g.Retry.Backoff) * math.Exp2(float64(r.attempt)) * (0.5 + r.chance.of(drawRetry, 1<<20+uint64(r.attempt)).unit())
		if at := w.Now().Add(durationOf(wait)); g.Flood || at < r.deadline {
			c.tokens--
			r.attempt++
			w.count(r, w.Now(), func(n *Count) { n.Retries++ })
			w.engine.At(at, event{tryAgain, r.id, r.gen})
			return
		}
	}
	w.failed(r, why)
	w.count(r, w.Now(), func(n *Count) {
		switch why.kind {
		case shed:
			n.Refused[why.reason]++
			n.Told.Add(w.Now().Sub(r.intended))
		case timedOut:
			n.TimedOut++
		default:
			n.Lost++
		}
	})
	w.endRoot(r)
}

// retryable reports whether an honest client may try again: what stood in the way
// passes.
func retryable(why cause) bool { return why.kind == shed && why.reason.Retryable() }

// deadlineAt is when a client gives a request up, for its deadline or out of
// patience.
func (w *World) deadlineAt(r *root) {
	if r.top != nil {
		top := r.top
		r.top = nil
		w.drop(top)
	}
	w.tally.expired(r)
	w.count(r, w.Now(), func(n *Count) { n.GaveUp++ })
	w.endRoot(r)
}

func (w *World) endRoot(r *root) {
	r.open = false
	w.inside--
	id, least := r.client, time.Duration(0)
	if w.Now() == r.intended {
		least = breath
	}
	w.releaseRoot(r)
	if c := &w.clients[id]; w.cfg.Groups[c.group].Load.closed() {
		w.think(id, least)
	}
}
