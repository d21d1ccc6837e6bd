package admission

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// A process is short of processors if its CPU utilization, averaged over busyCalls calls of OnBusy, reaches
// busyFrom, until it falls to busyUntil. It is short at once if it uses allBusy of them, all but for chance, while
// messages wait, because a burst ends before the average has risen. The CPU time of refusals does not count, because
// more running requests can be useful beside them. A refusal takes refusalTime, system and gRPC included, at 5,000
// refusals/s; at 1,000/s, between running requests, it takes sparseRefusalTime, because it has to wake up everything
// that takes part in it (measured with a server on one core that refuses everything).
const (
	busyFrom          = 0.8
	busyUntil         = 0.6
	allBusy           = 0.95
	busyCalls         = 10
	refusalTime       = 100 * time.Microsecond
	sparseRefusalTime = 250 * time.Microsecond
)

// The host's processors are short if hostShort of them are in use and messages have waited for this process for
// hostLag of the objective within the last hostLagged objectives. Without the second condition a neighbour that uses
// only what others leave counted as a shortage, and four of five short requests beside late long polls were refused.
// With a tenth of the objective the worst call graphs that share a machine lose a twentieth.
const (
	hostShort  = 0.95
	hostLag    = 1.0 / 100
	hostLagged = 256
)

// shortLag is the part of the objective from which on a lag shows that the processors are
// short, whatever uses them: otherwise messages do not wait. Without it, refusals of 17 µs
// that counted as refusalTime let the limit for handlers of 100 µs grow without end. A
// fifth, a twentieth and a fortieth are no better (simulation).
const shortLag = 1.0 / 10

// lagIntervals is how many intervals of the pool a short lag counts.
const lagIntervals = 8

// socketWait is the part of the lag that a request has waited before it is seen: that of
// a byte which is sent as others are read is the longest. With handlers that burn a
// processor, 32 connections and lags of more than 2 ms, requests waited 0.5 to 1.1 times
// the lag from their sending to their handler, on average, 0.8 in most runs, over gRPC as
// over HTTP/1.1 and 2; from the reader of the connection to the handler it was a tenth.
const socketWait = 0.75

// processors is how short a gate's process is of processors.
type processors struct {
	lag      time.Duration // before requests are seen; see OnLag
	lagUntil mono.Time     // when lag is too old to count
	burnt    float64       // share of the processors that the process uses, without refusals; see OnBusy
	own      float64       // the same, with what refusals use
	turned   int           // refusals since the last OnBusy
	host     float64       // share of the host's processors that all processes use
	lagged   time.Duration // for so long the host's processors are short for this process, if they are all used
	refusal  time.Duration // see SetRefusal
}

// SetRefusal says how much processor time a refusal takes, above 0, however many there are. 0, as at the start, is that of
// gRPC and HTTP, which depends on how many there are: refusalCost, refusalTime and sparseRefusalTime. Where a refusal
// is cheap beside a request, the pool hands out more credits, so that the queue runs empty less often: with handlers
// of 100 µs on the only core and refusals of 5 µs, at two and four times the capacity, goodput was 89 and 85 % of it
// by what refusals cost over gRPC, and 93 and 91 % by what they cost here (simulation).
func (g *Gate) SetRefusal(d time.Duration) { g.cpu.refusal = d }

// OnLag takes a measurement of the time that requests lie in sockets before this
// process sees them: queueing delay that no ticket shows. It counts until the next
// one, for about as long again at most.
func (g *Gate) OnLag(now mono.Time, d time.Duration) {
	g.cpu.lag = d
	g.cpu.lagUntil = now.Add(max(2*d, lagIntervals*g.pool.Interval()))
	g.tick(now)
}

// OnBusy takes the CPU time that this process used since the last call, about 20 ms ago, and
// the most that it could have used of its processors. If the two are close, more running
// requests than processors only share these. The CPU time of refusals does not count, unless
// messages wait for the processors: its estimate is too rough then. host is the CPU utilization
// of the host by all processes, 0 if unknown. The processors of a machine that runs a whole call
// graph may be short although this process uses few of them; messages wait for this process
// then (OnLag).
//
// A finished measurement of OnLag comes before, and the limit hears of it here. It does not hear of
// lags that are told while a measurement is under way: they come with every event.
func (g *Gate) OnBusy(used, all time.Duration, processors int, host float64) {
	g.cpu.host += (host - g.cpu.host) / busyCalls
	g.limit.SetLag(g.cpu.lag)
	if g.cpu.lagged -= all / time.Duration(max(processors, 1)); float64(g.cpu.lag) >= hostLag*float64(g.cfg.Objective) {
		g.cpu.lagged = hostLagged * g.cfg.Objective
	}
	g.limit.SetShort(g.cpu.host >= hostShort && g.cpu.lagged > 0)
	g.cpu.own += (float64(used)/float64(all) - g.cpu.own) / busyCalls
	if g.limit.Useful() == 0 && float64(g.cpu.lag) < shortLag*float64(g.cfg.Objective) {
		each := refusalTime
		if g.cpu.refusal > 0 {
			each = g.cpu.refusal
		}
		used = max(used-time.Duration(g.cpu.turned)*each, 0)
	}
	share := float64(used) / float64(all)
	if g.cpu.burnt += (share - g.cpu.burnt) / busyCalls; share >= allBusy && float64(g.cpu.lag) >= shortLag*float64(g.cfg.Objective) {
		g.cpu.burnt = max(g.cpu.burnt, busyFrom)
	}
	g.cpu.turned = 0
	switch {
	case g.cpu.burnt >= busyFrom:
		g.limit.SetUseful(processors)
	case g.cpu.burnt <= busyUntil:
		g.limit.SetUseful(0)
	}
}

// Busy reports whether this process itself uses most of its processors: see OnBusy. If it does not, messages
// that wait do so because of other processes.
func (g *Gate) Busy() bool { return g.cpu.own >= busyUntil }

// behind is how long the messages of a request wait for this process's own work, on the way in
// and on the way out: a part of what many slots cost. If other processes use the processors,
// fewer slots would change nothing.
func (g *Gate) behind(now mono.Time) time.Duration {
	if !g.Busy() {
		return 0
	}
	return 2 * g.unseen(now)
}

// unseen returns the lag at now.
func (g *Gate) unseen(now mono.Time) time.Duration {
	if now > g.cpu.lagUntil {
		return 0
	}
	return g.cpu.lag
}
