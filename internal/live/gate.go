package live

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// GateConfig describes a Gate. Only the objective is required.
type GateConfig struct {
	admission.Config
	// Mode is how far decisions go. Default Enforce.
	Mode Mode
	// Service names what the gate stands in front of to the processes that call
	// it, by a name that wire.ValidWorkflow accepts, common to those that can stand
	// in for each other. They need it where Rates are announced. Default none: the
	// address they call names it.
	Service string
	// Shares is what workflows get of what their class gets of the slots, by name,
	// from schedule.MinWeight to MaxWeight. They count with Schedule.Fair. Default
	// 1 each. SetShare changes them.
	Shares map[string]float64
	// NoTurns has waiting requests go by Schedule alone, so a sender that sends more gets more. Default: while requests
	// wait for a slot, their senders take turns inside a class and a workflow, those of one priority: who answers for a
	// connection, by a verified client certificate or else by the address, of IPv6 its network of 64 bits. Schedule.Senders
	// is then by default 1024 of those that wait at the same time, where the order is FIFO. Another order would rule among
	// the requests whose turns have come alone, and a service that passes on the requests of many has one turn.
	NoTurns bool
	// ClassShares, if not nil, has the gate learn which requests are interactive, by
	// Request.Key, and divide the slots between them and others: see package share.
	// It needs a fixed number of slots, equal Slots.Min and Max, which is by default its Servers. Default nil: a request
	// has the class that its tags say, and classes have equal weights until SetWeight.
	ClassShares *SharesConfig
	// Culprit says how the gate looks for requests that keep others waiting. Default: it
	// names them.
	Culprit CulpritConfig
	// Learned, if not nil, is what the gate knows from the first request on: what another gate
	// of the same service has found out, as Gate.Learned returns it. The bounds in Slots hold. Default: nothing.
	Learned *Learned
	// Observe, if set, is told the end of every request's passage. It is called
	// on the request's goroutine, outside the lock, and must not block.
	Observe func(Event)
}

// Gate admits requests to a server. All its methods may be called at once from
// any goroutine.
type Gate struct {
	observe   atomic.Pointer[func(Event)] // nil: nobody is told
	lag       atomic.Pointer[lag]
	busy      busy         // of onLag alone
	others    float64      // the part of the host's processors that other programs use, as onLag measured it
	lack      float64      // and the most that a goroutine lacked one: see busy
	othersAt  mono.Time    // when that was
	id        uint64       // of this gate among processes
	service   string       // "" if it has no name
	objective atomic.Int64 // ns; see SetObjective
	urgent    bool         // see ByDeadline
	shares    *Shares      // nil: classes are not learned
	untagged  Untagged
	calls     Calls

	mode   atomic.Uint32          // a Mode
	shut   atomic.Bool            // as closed, without the lock
	handed atomic.Pointer[Ticket] // see leave
	// spares are tickets of the core for later requests: to allocate one takes longer than to decide. A
	// processor gets back those that it used last.
	spares sync.Pool

	mu      sync.Mutex
	latest  mono.Time // instant that the node was told of
	node    *node.Node
	timer   *time.Timer
	armed   mono.Time // of timer; mono.Never: not running
	closed  bool
	off     int           // running tickets that bypassed the node
	edges   int           // that had the network watched
	refusal time.Duration // of the dearest of them; 0: as over gRPC
	tallies Tallies
	explanations
	watched []watched
	tasks   tasks

	finder  *finder // nil: no culprits are looked for
	cancels bool    // and they are cancelled
	tracing atomic.Pointer[Tracing]
}

// defaultSenders is how many senders that wait at the same time take turns. A queue of more than half as many, of one
// request each, is as long as an objective where 5,000 requests/s are served within 100 ms, and they cost 32 kB.
const defaultSenders = 1024

// NewGate returns an open gate, or every mistake in cfg.
func NewGate(cfg GateConfig) (*Gate, error) {
	var errs []error
	if int(cfg.Mode) >= len(modeNames) {
		errs = append(errs, fmt.Errorf("live: Mode is %d, expected Enforce, Monitor or Off", cfg.Mode))
	}
	errs = append(errs, cfg.ClassShares.check())
	if cfg.Credit.Epoch == 0 {
		cfg.Credit.Epoch = rand.Uint32()
	}
	if cfg.Hold == 0 {
		cfg.Hold = cfg.Culprit.hold(cfg.Objective)
	}
	switch {
	case cfg.NoTurns:
		cfg.Schedule.Senders = 0
	case cfg.Schedule.Senders == 0 && cfg.Schedule.Order == schedule.FIFO:
		cfg.Schedule.Senders = defaultSenders
	}
	id := rand.Uint64() | 1
	n, err := node.New(node.Config{Config: cfg.Config, Service: cfg.Service, Number: id, Shares: cfg.Shares})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	if cfg.Learned != nil {
		if err := n.Gate().Learn(cfg.Learned.Learned); err != nil { // cannot be: it is new
			return nil, err
		}
	}
	g := openGate(n, id, cfg.Objective)
	g.mode.Store(uint32(cfg.Mode))
	g.service, g.urgent = cfg.Service, n.Gate().Config().Schedule.Order.ByDeadline()
	if cfg.Observe != nil {
		g.observe.Store(&cfg.Observe)
	}
	if err := g.find(cfg.Culprit, n.Gate().Config().Objective, cfg.Service); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	if cfg.ClassShares != nil {
		own := *cfg.ClassShares
		if own.Servers == 0 {
			own.Servers = float64(g.Stats().Limit)
		}
		if g.shares, err = NewShares(g, own); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// Observe has f told the end of every request's passage from now on, as
// GateConfig.Observe is, which still is told first.
func (g *Gate) Observe(f func(Event)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	both := f
	if first := g.observe.Load(); first != nil {
		both = func(e Event) {
			(*first)(e)
			f(e)
		}
	}
	g.observe.Store(&both)
}

// NewGateOf returns an open gate in which another policy decides, for comparisons
// on the real clock: the edges treat its requests as they treat those of any gate,
// but no handler waits for its turn at the network. objective is the latency
// objective, from which hints to refused clients follow. Nothing else may call
// the policy any more. After Close, what waits at the policy ends with its context.
func NewGateOf(policy baseline.Door, objective time.Duration) *Gate {
	return openGate(node.Around(policy), rand.Uint64()|1, objective)
}

func openGate(n *node.Node, id uint64, objective time.Duration) *Gate {
	g := &Gate{node: n, id: id, armed: mono.Never, latest: math.MinInt64} // time may begin anywhere
	g.objective.Store(int64(objective))
	g.timer = time.AfterFunc(time.Hour, g.onTimer)
	g.timer.Stop()
	return g
}

// ByDeadline reports whether the order of waiting requests is by deadline, so that a short
// budget puts a request before others: see Request.Untrusted.
func (g *Gate) ByDeadline() bool { return g.urgent }

// GrantAhead is Grant for an answer whose header goes before Leave: what the request will bring its client back is decided
// now, and Grant says nothing of it. It returns false, and changes nothing, if there is no account, or the ticket has left.
func (t *Ticket) GrantAhead() (grant wire.Grant, ok bool) {
	if t.mode == Off {
		return grant, false
	}
	g, now := t.gate, Now()
	g.lock()
	now = g.at(now)
	if !t.left {
		ok = g.node.Ahead(now, t.core, &grant)
	}
	g.finish(now)
	return grant, ok
}

// SetMode changes how far decisions go. Requests that wait keep waiting for
// their turn.
func (g *Gate) SetMode(m Mode) {
	g.mode.Store(uint32(m))
}

// Drain refuses every request that comes from now on; those inside finish.
func (g *Gate) Drain() {
	g.mu.Lock()
	g.node.Drain()
	g.mu.Unlock()
}

// Close refuses what comes and what waits, and stops the timer. Requests that
// run finish. Further calls do nothing.
func (g *Gate) Close() error {
	g.mu.Lock()
	now := g.now()
	g.closed = true
	g.shut.Store(true)
	g.timer.Stop()
	g.node.Drain()
	for t := g.node.Oldest(); t != nil; t = g.node.Oldest() {
		g.node.Refuse(now, t, work.Draining)
		g.shed(now, t.Owner.(*Ticket))
		t.Owner.(*Ticket).wake <- admission.Shed
	}
	g.finish(now)
	g.lag.Load().close()
	g.finder.close()
	if g.shares != nil {
		g.shares.Close()
	}
	return nil
}
