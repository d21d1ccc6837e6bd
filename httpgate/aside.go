package httpgate

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
)

// aside is where requests of a target wait that need no slot of their own, or need one for a moment: those whose clients have
// stopped in the middle of their bodies, before they ask for a slot, and those that are exempt. A client can have thousands
// of them go on at the same instant, behind which the requests of others would be late or refused.
//
//	in line ── its turn ──▶ goes on ── has begun ──▶ the next
//	   └ its client goes on with the body, or leaves: out of the line
//
// They have half of the slots that are free and that nobody waits for, and an eighth of all, or one, where fewer are. No timer
// sets their pace: each that has begun lets the next one go. Their senders take turns. Its methods may be called at once
// from any goroutine.
type aside struct {
	waits atomic.Bool // the last one that needed no slot took longer than its turn, as a long poll does
	mu    sync.Mutex
	out   int                   // that went, and have not begun
	lines map[uint64]*asideLine // of senders with requests that wait, by live.Sender.Whose
	order []*asideLine          // the one whose turn is next is first
}

// asideLine is the requests of one sender that wait, the first that came first. While it is in the order it is not empty.
type asideLine struct {
	whose  uint64
	places []*place
}

// place is that of a request in a line.
type place struct {
	line *asideLine
	went bool          // its turn has come; with the lock of the aside
	come chan struct{} // closed then
}

// beginsWithin is how long a request that went may keep others in the line: where the handler does something else first. Also
// where requests take seconds each, a few long polls must not have a health check behind them that its sender waits a second for.
const beginsWithin = 100 * time.Millisecond

// enter puts a request of a sender into line.
func (a *aside) enter(g *live.Gate, whose uint64) *place {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := len(a.order) == 0 // else the next that has begun lets others go
	l := a.lines[whose]
	if l == nil {
		if l = (&asideLine{whose: whose}); a.lines == nil {
			a.lines = map[uint64]*asideLine{}
		}
		a.lines[whose] = l
		a.order = append(a.order, l)
	}
	p := &place{line: l, come: make(chan struct{})}
	l.places = append(l.places, p)
	if first {
		a.let(g)
	}
	return p
}

// quit takes a request out of the line, and reports false if its turn has come: begun must follow then.
func (a *aside) quit(p *place) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.went {
		return false
	}
	l := p.line
	i := slices.Index(l.places, p)
	if l.places = slices.Delete(l.places, i, i+1); len(l.places) == 0 {
		i = slices.Index(a.order, l)
		a.order = slices.Delete(a.order, i, i+1)
		delete(a.lines, l.whose)
	}
	return true
}

// begun notes that a request that went needs its slot no more.
func (a *aside) begun(g *live.Gate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.out--
	a.let(g)
}

// let lets go whoever may; the lock is held.
func (a *aside) let(g *live.Gate) {
	if len(a.order) == 0 {
		return
	}
	s := g.Stats()
	for most := max((s.Limit-s.Running-s.Waiting)/2, s.Limit/busyShare, 1); a.out < most && len(a.order) > 0; a.out++ {
		l := a.order[0]
		a.order[0], a.order = nil, a.order[1:]
		p := l.places[0]
		l.places[0], l.places = nil, l.places[1:]
		if len(l.places) > 0 {
			a.order = append(a.order, l)
		} else {
			delete(a.lines, l.whose)
		}
		p.went = true
		close(p.come)
	}
}

// pass waits for the turn of a request that needs no slot, and reports false if ctx ended before. It has begun once it is
// over, at which done is called, or has taken as long as requests mostly do, and beginsWithin at most: then it waits, as a long
// poll does. Behind one that does, a tenth of that is enough: thousands of long polls must be able to come back at once.
func (a *aside) pass(ctx context.Context, g *live.Gate, whose uint64) (done func(), ok bool) {
	p := a.enter(g, whose)
	select {
	case <-p.come:
	case <-ctx.Done():
		if a.quit(p) {
			return nil, false
		}
	}
	turn, went := turnOf(g.Stats()), live.Now()
	short := a.waits.Load()
	counts := turn
	if short {
		counts = max(turn/10, time.Millisecond)
	}
	timer := time.AfterFunc(counts, func() {
		if !short {
			a.waits.Store(true)
		}
		a.begun(g)
	})
	return func() {
		if long := live.Now().Sub(went) >= turn; long != a.waits.Load() {
			a.waits.Store(long)
		}
		if timer.Stop() {
			a.begun(g)
		}
	}, true
}

// turnOf is how long a request that needs no slot may keep others in the line.
func turnOf(s live.Stats) time.Duration {
	return min(max(s.Service, time.Millisecond), s.Objective, beginsWithin)
}
