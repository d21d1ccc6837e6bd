package proxy

import (
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// uptake looks whether an upstream takes the body of a request. One that is frozen takes what fits into the buffers of its
// connection, and no more, so a longer body never comes to its end. What counts is that the client has sent more and the
// upstream does not take it; a client that sends slowly says nothing about an upstream. A nil uptake looks at nothing.
type uptake struct {
	u     *upstream
	b     *requestBody
	sent  bool // it counts as sent; of look
	over  atomic.Bool
	timer *time.Timer
}

// watchUptake looks whether u takes b, which is sent to it now, until stop.
func (u *upstream) watchUptake(b *requestBody) *uptake {
	if u.health.rule.Failures < 0 {
		return nil
	}
	t := &uptake{u: u, b: b}
	b.stuck.Store(int64(live.Now()))
	t.timer = time.AfterFunc(time.Hour, t.look)
	t.timer.Reset(u.patience())
	return t
}

// look is called by the timer.
func (t *uptake) look() {
	now, patience := live.Now(), t.u.patience()
	stuck := mono.Time(t.b.stuck.Load())
	switch {
	case t.over.Load(), t.b.whole.Load():
		return
	case stuck == 0: // the client is waited for
	case now.Sub(stuck) < patience:
		patience -= now.Sub(stuck)
	case t.sent:
		t.u.suspect(now) // the others may have answered since
	case t.b.reaches.Swap(nil) == nil:
		return // it was answered
	default:
		t.sent = true
		t.u.asks(now, stuck)
	}
	t.timer.Reset(patience)
}

func (t *uptake) stop() {
	if t != nil {
		t.over.Store(true)
		t.timer.Stop()
	}
}
