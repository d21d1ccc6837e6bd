package grpcgate

import (
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/live"
	"github.com/spillgate/spillgate/mono"
)

// probeGap is the least time between two probes: at half a microsecond each,
// half a percent of a processor at most.
const probeGap = 100 * time.Microsecond

// probe measures how long a new goroutine waits for a processor. Where handlers
// burn processor time that wait is the server's real queue, and no queue of ours
// shows it. A call cannot tell its own: what it sees, from its arrival to its
// interceptor, includes the time its client took to send the message.
type probe struct {
	started atomic.Int64 // of the probe under way; 0: none
	ended   atomic.Int64
	last    atomic.Int64 // what it measured
}

// launch starts a probe unless one is under way, or was just now. It is called
// where grpc is about to start the call's own goroutine, which so waits in the
// same run queue.
func (p *probe) launch(now mono.Time) {
	if now.Sub(mono.Time(p.ended.Load())) < probeGap || !p.started.CompareAndSwap(0, int64(now)) {
		return
	}
	go func() {
		now := live.Now()
		p.last.Store(int64(now) - p.started.Load())
		p.ended.Store(int64(now))
		p.started.Store(0)
	}()
}

// wait returns the wait for a processor: of the last probe, or of the one under
// way if that has waited longer.
func (p *probe) wait(now mono.Time) time.Duration {
	d := time.Duration(p.last.Load())
	if started := p.started.Load(); started != 0 {
		d = max(d, now.Sub(mono.Time(started)))
	}
	return d
}
