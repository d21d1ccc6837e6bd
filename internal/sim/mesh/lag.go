package mesh

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// busyGap is the least time between two looks at what a process used, as in package
// live.
const busyGap = 20 * time.Millisecond

// lag is how a process on a host finds out how long messages wait for its processors
// before its policy sees them: as in package live, by a byte that it sends to itself.
type lag struct {
	sent, next mono.Time // of the byte under way, 0: none; no other before next
	last       time.Duration
	// lookedAt, used and host are of the last look at the processors.
	lookedAt   mono.Time
	used, host float64 // by this process, by all
}

// measure sends a byte now and then, and tells p's gate what the one under way takes
// already.
func (w *World) measure(p *process) {
	g := p.door.Gate()
	if g == nil || p.host == nil {
		return
	}
	now := w.Now()
	if p.lag.sent == 0 && now >= p.lag.next {
		p.lag.sent, p.lag.next = now, now.Add(g.Pool().Config().Interval)
		w.give(p, job{kind: jobProbe})
	}
	if p.lag.sent == 0 {
		return
	}
	if d := now.Sub(p.lag.sent); d > p.lag.last {
		p.door.OnLag(now, d)
	}
}

// probed is when the byte was read.
func (w *World) probed(p *process) {
	if p.door.Gate() == nil || !p.alive || p.lag.sent == 0 {
		return
	}
	now := w.Now()
	p.lag.last, p.lag.sent = now.Sub(p.lag.sent), 0
	p.door.OnLag(now, p.lag.last)
	if elapsed := now.Sub(p.lag.lookedAt); elapsed >= busyGap {
		n := p.host.processors
		if p.lag.lookedAt > 0 {
			all := elapsed * time.Duration(n)
			p.door.OnBusy(durationOf(p.used-p.lag.used), all, n, (p.host.used-p.lag.host)/float64(all))
		}
		p.lag.lookedAt, p.lag.used, p.lag.host = now, p.used, p.host.used
	}
	w.pumpDoor(p)
}
