package httpgate

import (
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/live"
)

// aside is where the requests of a target wait whose clients have stopped in the middle of their bodies, before they ask
// for a slot that they need for a moment: a client can have thousands of them go on at the same instant, behind which the
// requests of others would be late or refused.
//
//	stopped ──▶ in line ── its turn ──▶ asks for a slot, begins, gives it back ──▶ the next
//	               └ the client goes on: out of the line, and the rest of the body is awaited as before
//
// They have half of the slots that are free and that nobody waits for, and one where none is. No timer sets their pace:
// each that has begun lets the next one go. Its methods may be called at once from any goroutine.
type aside struct {
	mu   sync.Mutex
	out  int             // that went, and have not begun
	line []chan struct{} // turns, the first that came first
}

// beginsWithin is how long a request that went may keep others in the line: where the handler does something else first.
const beginsWithin = 100 * time.Millisecond

// enter returns what is closed when the request may go.
func (a *aside) enter(g *live.Gate) (turn chan struct{}) {
	turn = make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.line = append(a.line, turn); len(a.line) == 1 { // else the next that has begun lets others go
		a.let(g)
	}
	return turn
}

// quit takes a turn out of the line, and reports false if it has come: begun must follow then.
func (a *aside) quit(turn chan struct{}) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.line, turn)
	if i >= 0 {
		a.line = slices.Delete(a.line, i, i+1)
	}
	return i >= 0
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
	if len(a.line) == 0 {
		return
	}
	s := g.Stats()
	for most := max((s.Limit-s.Running-s.Waiting)/2, 1); a.out < most && len(a.line) > 0; a.out++ {
		close(a.line[0])
		a.line = slices.Delete(a.line, 0, 1)
	}
}
