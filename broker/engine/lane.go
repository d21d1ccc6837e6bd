package engine

import (
	"math"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Verdict is what became of a message that was published.
type Verdict uint8

// The verdicts.
const (
	// Went: it was delivered to its subscribers.
	Went Verdict = iota
	// Waits: it waits for a token; its Source is told when it has gone.
	Waits
	// OverRate: it found no token, and the limit refuses instead of letting wait.
	OverRate
	// QueueFull: it found no token, and as many wait already as may.
	QueueFull
	numVerdicts
)

// String names the verdict as metrics do.
func (v Verdict) String() string {
	return [...]string{"went", "waits", "over_rate", "queue_full"}[v]
}

// longestWait is the longest that a message may wait for a token. One that would
// wait longer is refused as if the queue were full.
const longestWait = time.Hour

// lane is one bucket with the queue in front of it and the timer that empties it.
type lane struct {
	hub *Hub
	key laneKey

	mu    sync.Mutex
	rule  *rule // whose limit it has; nil where that is gone
	pacer pacer
	queue queue
	timer *time.Timer
	// armed is when the timer rings; Never while it is not set, and while ring
	// runs, which sets it in the end.
	armed   mono.Time
	ringing bool
	batch   Batch     // of ring
	read    mono.Time // when the last reader that rests reads again
	seen    seen
}

func newLane(h *Hub, key laneKey, r *rule, p pacer) *lane {
	l := &lane{hub: h, key: key, armed: mono.Never, rule: r, pacer: p}
	l.batch.hub = h
	l.timer = time.AfterFunc(time.Hour, l.ring)
	l.timer.Stop()
	return l
}

// set gives the lane another limit; nil is none. What waits keeps its place, and
// goes as fast as the new rate lets it; with b, at once, where there is no limit
// any more.
func (l *lane) set(b *Batch, r *rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.rule
	l.rule = r
	if r == nil {
		l.release(b, mono.Never-1)
		return
	}
	l.pace(b.now, r.Rate, r.Burst)
	if r.Rate != old.Rate {
		l.queue.stretch(b.now, old.Rate/r.Rate)
		l.armed = mono.Never
		l.arm(b.now)
	}
}

// pace has a rate and burst count from now on: by itself, the pacer would have them count from the last message on, which may be long
// ago, and take what waits since then, at its old rate, as gone at the new one.
func (l *lane) pace(now mono.Time, rate, burst float64) {
	l.pacer.TakeWithin(now, now, 0, math.MaxInt64)
	l.pacer.SetLimit(rate, burst)
}

// publish delivers m, lets it wait, or refuses it.
func (l *lane) publish(b *Batch, m *Message, id uint16) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rule
	if r == nil {
		return l.hub.release(b, m, id)
	}
	if r.away { // since the topic was looked up
		return b.divert(m, id)
	}
	l.lapse(b.now)
	l.count(b.stamp)
	if r.Police {
		if _, ok := l.pacer.TakeWithin(b.stamp, b.now, 1, 0); !ok {
			b.refused(r, OverRate)
			return OverRate
		}
		return l.pass(b, m, id, r)
	}
	l.release(b, b.now) // a reader that is here anyway spares the timer's goroutine
	if !l.queue.fits(m.size(), r.Queue, r.QueueBytes) {
		b.refused(r, QueueFull)
		b.foundFull(l)
		return QueueFull
	}
	delay, ok := l.pacer.TakeWithin(b.stamp, b.now, 1, longestWait)
	if !ok {
		b.refused(r, QueueFull)
		b.foundFull(l)
		return QueueFull
	}
	due := b.stamp.Add(delay)
	if due <= b.now && (b.waiting.Load() == 0 || l.queue.len() == 0) {
		return l.pass(b, m, id, r)
	}
	b.waiting.Add(1)
	l.queue.push(waiter{due: due, stamp: b.stamp, kept: m.Keep(), from: b, id: id})
	l.release(b, b.now)
	l.arm(b.now)
	return Waits
}

// rest returns for how long from now a reader that finds the queue full leaves what comes unread: until half of it has gone, if no other
// reader rests, so that it finds room for several messages, and the bucket something to release meanwhile. Each of several is read that
// much later than the one before, for which the same holds.
func (l *lane) rest(now mono.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := longestRest
	if n := l.queue.len(); n > 0 {
		d = max(l.queue.at(n/2).due.Sub(now), 0)
	}
	l.read = min(max(l.read, now).Add(d), now.Add(longestRest))
	return l.read.Sub(now)
}

// pass releases a message that does not wait. The lock is held, as below.
func (l *lane) pass(b *Batch, m *Message, id uint16, r *rule) Verdict {
	v := l.hub.release(b, m, id)
	if v == QueueFull {
		b.refused(r, v)
	} else {
		b.tally(r).direct++
	}
	return v
}

// release delivers what is due.
func (l *lane) release(b *Batch, now mono.Time) {
	l.lapse(now)
	for l.queue.len() > 0 && l.queue.head().due <= now {
		w := l.queue.pop()
		m := &w.kept.Message
		from, may := m.From.(Leaver)
		left := may && m.QoS > 0 && from.Left()
		v := Went
		if !left {
			v = l.hub.release(b, m, w.id)
		}
		switch {
		case left, m.From == nil || m.QoS == 0 || v == Waits:
		case v == Went:
			m.From.Released(b, m, w.id)
		default:
			if from, ok := m.From.(Refusable); ok {
				from.Refused(b, m, w.id, errNotStored)
			}
		}
		w.from.waiting.Add(-1)
		switch {
		case left, l.rule == nil:
		case v == QueueFull:
			b.refused(l.rule, v)
		default:
			planned := min(w.due.Add(l.slack(&w)), now)
			b.tally(l.rule).wait(planned.Sub(w.stamp), now.Sub(planned))
		}
		w.kept.Release()
	}
}

// longestSlack is the most that slack returns: with more, hardly any processor time is saved.
const longestSlack = 5 * time.Millisecond

// slack returns how much longer a message may wait than it must, so that one ring of the timer releases several: a
// sixty-fourth of its wait, and no longer than half of the burst takes to come in, which those released together then do not exceed.
func (l *lane) slack(w *waiter) time.Duration {
	if l.rule == nil {
		return 0
	}
	burst := time.Duration(min(max(l.rule.Burst-1, 0)/2/l.rule.Rate*1e9, float64(longestSlack))) // a part of a burst may be below 1
	return min(w.due.Sub(w.stamp)/64, burst)
}

// arm sets the timer for the head of the queue.
func (l *lane) arm(now mono.Time) {
	if l.ringing || l.queue.len() == 0 {
		return
	}
	if at := l.queue.head().due.Add(l.slack(l.queue.head())); at < l.armed {
		l.armed = at
		l.timer.Reset(max(at.Sub(now), 0))
	}
}

// ring releases all that is due, on the timer's goroutine.
func (l *lane) ring() {
	l.mu.Lock()
	l.armed = mono.Never
	if l.ringing { // an earlier ring writes still, and looks again
		l.mu.Unlock()
		return
	}
	l.ringing = true
	for more := true; more; {
		now := l.hub.now()
		l.batch.begin(now, now)
		l.release(&l.batch, now)
		l.mu.Unlock()
		l.batch.End()
		l.mu.Lock()
		now = l.hub.now()
		more = l.queue.len() > 0 && l.queue.head().due <= now
		if !more {
			l.ringing = false
			l.arm(now)
		}
	}
	l.mu.Unlock()
}

// backlog returns what waits.
func (l *lane) backlog() (messages, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.len(), l.queue.bytes
}

// idle reports whether the lane may be forgotten: it holds nothing, and its bucket is full, as that of a new lane is.
func (l *lane) idle(now mono.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue.len() > 0 || l.rule == nil || l.key.topic == "" { // that of many topics stays
		return l.queue.len() == 0
	}
	return l.pacer.Backlog(now) < 1e-3
}
