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

// Stats returns the gate's state.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := Now()
	pool, limit := g.core.Pool(), g.core.Slots()
	drained, _ := pool.Drained()
	return Stats{
		Tallies:     g.tallies,
		Mode:        g.mode,
		Waiting:     g.core.Waiting(),
		Shaping:     g.core.Shaping(),
		Running:     limit.InUse() + limit.Lent() + g.off,
		Limit:       limit.Limit(),
		Delay:       g.core.Delay(now),
		Lag:         g.lag.Load().value(now),
		Service:     limit.Service(),
		Objective:   g.core.Config().Objective,
		Unreachable: g.reach.out,
		Clients:     pool.Clients(),
		Drained:     drained,
		Credits:     pool.Total(),
		Issued:      pool.Issued(),
	}
}
