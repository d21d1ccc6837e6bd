package live

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Where handlers burn processor time, the Go scheduler goes from one to the next for
// as long as there is one, and looks at the network every 10 ms at best; those who
// read connections then wait behind the handlers once more. The queue is in the
// sockets, where no gate sees it, and requests start in time and end late. So, while
// the lag is long, an admitted request begins only after the network was looked at
// and whoever had something to read has read it:
//
//	admitted ── byte into the pipe ── nothing left to run: the network is polled
//	                                       │        │
//	                                 pipe's reader  readers of connections: arrivals
//	                                       │        │        are seen, some refused
//	                                       ▼        ▼
//	                             a turn ── yields ── handler runs
//
// Turns are only for a process that itself uses most of its processors. Where several processes share
// them, messages wait until it is the turn of their process, which then looks at the network: a turn
// shortens nothing, and costs a write, two reads and a switch. Five services on one core spent 1 % of
// it on turns at 0.7 times the capacity (a row of lab run wild/live-shared).
//
// One processor with handlers of 2 ms, exponential, an objective of 40 ms and twice
// the load: without turns 0.5 of the capacity is served in time, with them 0.9
// (lab run admission/peers, station "spin").

const (
	// turnShare is the part of the gap between two bytes that a lag must reach for
	// turns to be taken, and that must have passed since the network was looked at.
	// leastTurn bounds it from below, and is how long handlers must run: a turn costs
	// some 10 µs, and much more where other goroutines or processes keep the
	// processors busy, and all the while the slot.
	turnShare = 4
	leastTurn = 250 * time.Microsecond
	// turnsLast is for how many gaps turns go on after a long lag: they keep it short.
	turnsLast = 64
	// yields is how often a request lets the others go first. Those who have read
	// start goroutines that refuse, and these one that writes, which yields itself.
	yields = 3
)

// turns are the requests that wait until they may begin.
type turns struct {
	busy    atomic.Bool  // this process itself uses most of its processors
	until   atomic.Int64 // instant from which on nobody takes a turn
	long    atomic.Bool  // handlers take so long that turns are worth while
	handler int64        // ns, about the median of what they take; see ran
	mu      sync.Mutex
	waiting []chan struct{}
	over    bool // nobody gives one any more
}

// turn returns when the network was looked at and what had come was seen, or at once
// if that was just now, the lag is short or handlers are, or others use the processors. A nil lag is
// short. It reports whether time has passed.
func (l *lag) turn(now mono.Time) bool {
	if l == nil || !l.turns.busy.Load() || !l.turns.long.Load() {
		return false
	}
	gap := l.every()
	least := max(gap/turnShare, leastTurn)
	if !l.turns.on(now, l.value(now) >= least, turnsLast*gap) || now.Sub(mono.Time(l.read.Load())) < least {
		return false
	}
	wait, first := l.turns.take()
	if wait == nil {
		return false
	}
	if first {
		l.ask()
	}
	<-wait
	for range yields {
		runtime.Gosched()
	}
	return true
}

// ran notes what a handler took. The estimate takes steps of at most an eighth of
// itself: some are always interrupted for long. It is called by one goroutine at a time.
func (t *turns) ran(d time.Duration) {
	step := max(t.handler/8, int64(time.Microsecond))
	t.handler = max(t.handler+min(max(int64(d)-t.handler, -step), step), 0)
	if long := t.handler >= int64(leastTurn); long != t.long.Load() { // to store takes much longer
		t.long.Store(long)
	}
}

// on reports whether turns are taken: the lag is long, or was no longer ago than last.
func (t *turns) on(now mono.Time, long bool, last time.Duration) bool {
	if long {
		t.until.Store(int64(now.Add(last)))
		return true
	}
	return int64(now) < t.until.Load()
}

// take returns what is closed when the turn has come, and whether nobody else waits;
// nil if turns are not given any more.
func (t *turns) take() (wait chan struct{}, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, false
	}
	wait = make(chan struct{})
	t.waiting = append(t.waiting, wait)
	return wait, len(t.waiting) == 1
}

// give lets n go on, and reports whether others still wait.
func (t *turns) give(n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(n, len(t.waiting))
	for _, wait := range t.waiting[:n] {
		close(wait)
	}
	rest := copy(t.waiting, t.waiting[n:])
	clear(t.waiting[rest:])
	t.waiting = t.waiting[:rest]
	return rest > 0
}

// end lets everybody go on, those who come later too.
func (t *turns) end() {
	t.mu.Lock()
	t.over = true
	n := len(t.waiting)
	t.mu.Unlock()
	t.give(n)
}
