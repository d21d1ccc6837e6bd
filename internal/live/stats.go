package live

import (
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

// Tallies count what became of requests since the gate was made.
type Tallies struct {
	// Served counts requests that ran, by how they ended.
	Served [work.NumOutcomes]uint64
	// Shed counts refused requests by reason.
	Shed [work.NumReasons]uint64
	// Would counts, by reason, requests that ran because the gate only
	// monitored, and would have been refused.
	Would [work.NumReasons]uint64
}

// Stats is a gate at one instant.
type Stats struct {
	Tallies
	Mode Mode
	// Waiting and Running are requests in the queue and in slots; Shaping those
	// that wait for their workflow's rate, before the queue.
	Waiting, Running, Shaping int
	// Limit is the most that may run at once.
	Limit int
	// Delay is the queueing delay, seen and hidden.
	Delay time.Duration
	// Lag is how long bytes lay in a socket before a goroutine read them, as measured a
	// moment ago: long where handlers burn the processors, 0 without WatchNetwork.
	Lag time.Duration
	// Service is the estimate of the time a request takes without queueing.
	Service time.Duration
	// Objective is the gate's, and Unreachable says that the service takes longer than
	// that even where nothing waits: see Reach.
	Objective   time.Duration
	Unreachable bool
	// Clients is the number of clients with an account, Drained of those
	// without credit, Credits the size of the pool and Issued the sum of the
	// windows granted.
	Clients, Drained, Credits, Issued int
}

// Stats returns the gate's state. Where another policy decides (NewGateOf), it
// holds the tallies, the mode, the objective and the lag alone.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	s := Stats{Tallies: g.tallies, Mode: Mode(g.mode.Load()), Running: g.off, Objective: g.Objective(), Lag: g.lag.Load().value(now)}
	core := g.node.Gate()
	if core == nil {
		return s
	}
	pool, limit := core.Pool(), core.Slots()
	s.Waiting, s.Shaping, s.Running, s.Limit = core.Waiting(), core.Shaping(), limit.Running()+g.off, limit.Limit()
	s.Delay, s.Service, s.Unreachable = core.Delay(now), limit.Service(), g.node.Unreachable()
	s.Clients, s.Credits, s.Issued = pool.Clients(), pool.Total(), pool.Issued()
	s.Drained, _ = pool.Drained()
	return s
}
