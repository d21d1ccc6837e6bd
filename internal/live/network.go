package live

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// WatchNetwork makes the gate measure how long bytes lie in sockets, and count
// it as queueing delay. Edges whose requests come from connections that goroutines
// read call it. It costs two file descriptors, a goroutine and a byte through a
// pipe now and then while requests come. Further calls cost nothing more, and calls after Close do
// nothing.
func (g *Gate) WatchNetwork() { g.watch(0) }

// WatchCheap is WatchNetwork for an edge whose refusals take so much processor time, above 0 and less than over gRPC. Of
// several edges of a gate, the one with the dearest refusals counts.
func (g *Gate) WatchCheap(refusal time.Duration) { g.watch(refusal) }

// watch is WatchNetwork for an edge whose refusals take so much processor time, 0 for that of gRPC and HTTP.
func (g *Gate) watch(refusal time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	if g.edges++; g.edges == 1 {
		g.refusal = refusal
	} else if g.refusal > 0 && (refusal == 0 || refusal > g.refusal) {
		g.refusal = refusal
	}
	if own := g.node.Gate(); own != nil {
		own.SetRefusal(g.refusal)
	}
	if g.lag.Load() == nil {
		g.lag.Store(newLag(g.lagGap(), g.onLag))
	}
}

// lagGap is the time between two measurements of the network. It is called with the lock held.
func (g *Gate) lagGap() time.Duration {
	if own := g.node.Gate(); own != nil {
		return own.Pool().Config().Interval
	}
	return g.Objective() / lagsInObjective
}

// lagsInObjective is how often the network is looked at in an objective for another
// policy than the gate: as often as for a gate with the default configuration.
const lagsInObjective = 20

// onLag takes a measurement of the time that bytes lie in sockets.
func (g *Gate) onLag(d time.Duration) {
	used, all, processors, host, ok := g.busy.look(Now()) // takes longer than the lock is to be held
	g.mu.Lock()
	now := g.now()
	g.look(now)
	g.node.OnLag(now, d)
	if ok {
		g.node.OnBusy(used, all, processors, host)
		g.others, g.lack, g.othersAt = g.busy.others, g.busy.lack, now
	}
	if core, l := g.node.Gate(), g.lag.Load(); core != nil && l != nil {
		l.turns.busy.Store(core.Busy())
	}
	g.finish(now)
}

// lagUnderWay comes before every event of the node. It tells it of a lag that is
// known to be long before it is known how long: without it, the pool would grow
// until the next measurement is in, which takes as long as the lag itself. It is
// called with the lock held.
func (g *Gate) lagUnderWay(now mono.Time) {
	if lag := g.lag.Load(); lag != nil && lag.sent.Load() != 0 || len(g.watched) > 0 {
		g.measure(now, lag)
	}
}

// measure is apart so that lagUnderWay can be inlined.
func (g *Gate) measure(now mono.Time, lag *lag) {
	g.look(now)
	if d := lag.underWay(now); d > 0 {
		g.node.OnLag(now, d)
	}
}
