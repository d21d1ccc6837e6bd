package bucket

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Bounds of a Binned.
const (
	// binWidth is how finely the order of arrivals is told apart when they are taken out of order. Messages
	// that are taken in order are told apart by the nanosecond.
	binWidth = 50 * time.Microsecond
	// horizon is how far back a stamp may lie; an older one counts as this old.
	horizon = 100 * time.Millisecond
	// maxBacklog is the most that waits, and the most that a burst holds, as the time that it takes at the
	// rate: 6.5 days. A message that would wait longer never passes and takes nothing.
	maxBacklog = time.Duration(1 << 49)
)

// Binned is a token bucket that asks when messages arrived, not when or in which order they are
// taken. A server reads its connections in whatever order the scheduler wakes their readers, and a message
// that lay in a socket behind a busy processor must not be delayed for being read together with others.
//
//	      stamp of a message taken late
//	        │
//	──┬──┬──▼──┬──┬──┬──▶ arrivals by bins of 50 µs, over 100 ms
//	        U += n, and the backlog of every later bin follows
//	delay = max(0, U(stamp) − burst) / rate
//
// U is the backlog of a queue that serves rate tokens a second. Taken in the order of their arrival, messages
// are delayed exactly as behind that queue. In another order a message that is taken before an earlier one
// is delayed too little, by what arrived within the horizon at most. U counts everything, so what passes in the
// long run is the rate, in whatever order.
//
// A Binned is not safe for concurrent use, does not allocate after NewBinned, and holds 45 KB. Taking in order
// costs constant time, out of order the logarithm of the number of bins.
type Binned struct {
	rate, burst float64 // tokens/s, tokens
	perToken    float64 // ns of service
	spare       float64 // of the last token, what is less than 1 ns
	free        int64   // what the burst holds, in ns of service

	latest mono.Time // the latest now
	newest mono.Time // the latest stamp
	origin mono.Time // the start of group first; no stamp is earlier
	first  int64
	hist   history
}

// NewBinned returns a bucket of a rate in tokens a second and a burst in tokens, full, whose time starts
// with the first message. A rate that is not above 0 lets nothing pass, an infinite one delays nothing, and a
// burst that is not above 0 is none: check limits before setting them.
func NewBinned(rate, burst float64) *Binned {
	b := &Binned{latest: math.MinInt64, newest: math.MinInt64, first: groups}
	b.limit(rate, burst)
	b.hist.start(b.first, 0)
	return b
}

func (b *Binned) limit(rate, burst float64) {
	b.rate, b.burst = above0(rate), above0(burst)
	b.perToken = min(1e9/b.rate, 2*float64(maxBacklog))
	b.free, b.spare = 0, 0
	if b.rate > 0 && b.perToken > 0 {
		b.free = int64(min(b.burst*b.perToken, float64(maxBacklog)))
	}
}

// above0 returns x, or 0 for what is below it or not a number.
func above0(x float64) float64 {
	if x > 0 {
		return x
	}
	return 0
}

// SetLimit changes rate and burst from the newest stamp on; the backlog stays. A message with an earlier stamp
// that is taken afterwards counts as if it had arrived just then.
func (b *Binned) SetLimit(rate, burst float64) {
	tokens := 0.0
	if b.started() {
		at, level := b.front()
		tokens = b.tokens(level)
		b.origin, b.first = at, b.hist.cur+2*groups // nothing of the old history is part of the new one
	}
	b.limit(rate, burst)
	b.hist.start(b.first, int64(min(tokens*b.perToken, 2*float64(maxBacklog))))
}

// Take takes n tokens for a message that arrived at stamp, and returns how long after stamp it may go on:
// 0 if a token was there when it arrived. A stamp after now counts as now and one before now − horizon
// as that; the delay is still that from stamp. n that is below 0 or not a number counts as 0.
func (b *Binned) Take(stamp, now mono.Time, n float64) (delay time.Duration) {
	delay, _ = b.TakeWithin(stamp, now, n, math.MaxInt64)
	return delay
}

// TakeWithin takes n tokens as Take does, unless the message would be delayed for longer than most: then it
// takes nothing and reports false, and delay is what it would have been. With a most of 0 it polices.
func (b *Binned) TakeWithin(stamp, now mono.Time, n float64, most time.Duration) (delay time.Duration, ok bool) {
	at := b.clamp(stamp, now)
	group, slot, into := b.place(at)
	cell, in := b.hist.at(group, slot)

	exact := min(above0(n)*b.perToken, 2*float64(maxBacklog)) + b.spare
	cost := int64(exact)
	own := max(cell.own, into) + cost
	if over := max(in+cell.sum+cost, own) - into - b.free; over > int64(maxBacklog) || b.rate == 0 {
		return math.MaxInt64, most == math.MaxInt64
	} else if over > 0 {
		delay = max(0, at.Add(time.Duration(over)).Sub(stamp))
	}
	if delay > most {
		return delay, false
	}
	if cost > 0 {
		b.hist.add(cell, cost, own)
	}
	b.newest, b.spare = max(b.newest, at), exact-float64(cost)
	return delay, true
}

// Backlog returns U at now, in tokens: what is above burst waits. It is the smallest burst with which nothing
// would wait at now.
func (b *Binned) Backlog(now mono.Time) float64 {
	if !b.started() {
		return 0
	}
	at, level := b.front()
	if now > at {
		level = max(0, level-int64(now.Sub(at)))
	}
	return b.tokens(level)
}

// tokens converts a backlog.
func (b *Binned) tokens(level int64) float64 {
	if b.perToken == 0 {
		return 0
	}
	return float64(level) / b.perToken
}

func (b *Binned) started() bool { return b.newest != math.MinInt64 }

// clamp moves time on to now and returns the stamp within what is kept.
func (b *Binned) clamp(stamp, now mono.Time) mono.Time {
	b.latest = max(b.latest, now)
	from := b.latest.Add(-horizon)
	if !b.started() {
		b.origin = from
	}
	if from > b.origin {
		b.hist.forget(b.first + int64(from.Sub(b.origin)/(perGroup*binWidth)))
	}
	return max(min(stamp, now), from, b.origin)
}

// place returns where an instant is: its group, the bin in that, and the nanoseconds into the bin.
func (b *Binned) place(at mono.Time) (group int64, slot int, into int64) {
	offset := at.Sub(b.origin)
	k := int64(offset / binWidth)
	return b.first + k/perGroup, int(k % perGroup), int64(offset % binWidth)
}

// front returns the earliest instant after which nothing has arrived and that is kept, and the backlog then.
func (b *Binned) front() (at mono.Time, level int64) {
	kept := b.origin.Add(time.Duration(b.hist.tail-b.first) * perGroup * binWidth)
	at = max(b.newest, kept)
	group, slot, into := b.place(at)
	cell, in := b.hist.at(group, slot)
	return at, max(in+cell.sum, cell.own, into) - into
}
