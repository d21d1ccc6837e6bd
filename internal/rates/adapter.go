package rates

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// NoLimit is the rate, in requests/s, at and above which nothing is limited. It
// is a number like any other, so that it can travel: rates that are announced
// above it count as it.
const NoLimit = 1e9

// leastRate is the smallest rate of a limited workflow, in requests/s: one
// request in ten seconds still finds out whether things got better. A rate of
// zero would never be corrected, because rates travel on replies.
const leastRate = 0.1

// Pressure is how one resource is doing.
type Pressure struct {
	// Delay is the queueing delay in front of the resource, without the shaping
	// wait; Target is the delay above which it is overloaded, 0 for never.
	Delay, Target time.Duration
	// Capacity is how many workers or permits it has now; 0 means as before.
	Capacity float64
}

// Signals is what the rest of the process tells an Adapter once a period.
type Signals struct {
	// Credits says that credits bound what this process takes. Queueing delays are
	// then theirs to keep short and say nothing about overload.
	Credits bool
	// Bound is the share of the period, 0 to 1, in which clients had requests
	// ready and no credit for them.
	Bound float64
	// Resources are in the order of Config.Resources. Missing ones are not
	// overloaded.
	Resources []Pressure
}

// Stats counts what an Adapter could not use or had no room for.
type Stats struct {
	// BadRates are announcements and BadDemands claims that were no number,
	// negative, or above NoLimit. Of these, finite rates above NoLimit count as
	// NoLimit, and nothing else counts.
	BadRates, BadDemands uint64
	// NoRoom is how often a workflow had to share the default one for want of a
	// number; Evicted how often a peer was forgotten for another.
	NoRoom, Evicted uint64
	// Late is how many periods passed without OnWake.
	Late uint64
}

// peer names a process.
type peer struct{ service, process string }

// Adapter adapts the rates of one process. It is not safe for concurrent use.
// Events take constant time and do not allocate, except the first of a workflow,
// of a peer, or of a pair of them; OnWake takes about 100 ns for each pair.
type Adapter struct {
	cfg       Config
	workflows table[string]
	peers     table[peer]
	services  table[string]
	members   []int // peers of each service
	serviceOf []int // by place of the peer
	self      int   // place of the peer that is this process, 0 if it has no name
	flows     []*flow
	resources []resource
	wake      mono.Time
	lastWake  mono.Time
	credits   bool // bound what this process takes, by the last Signals
	stats     Stats

	// Memory of OnWake.
	fill    filler
	rates   []float64
	users   []drfUser
	costs   []float64
	full    []float64
	left    []float64
	amounts []float64
}

// New returns an adapter whose first period begins at now, or every mistake in
// cfg.
func New(now mono.Time, cfg Config) (*Adapter, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Adapter{
		cfg:       cfg,
		workflows: newTable[string](cfg.MaxWorkflows),
		peers:     newTable[peer](cfg.MaxPeers),
		services:  newTable[string](cfg.MaxPeers),
		members:   []int{0},
		serviceOf: []int{0},
		resources: make([]resource, len(cfg.Resources)),
		full:      make([]float64, len(cfg.Resources)),
		left:      make([]float64, len(cfg.Resources)),
		amounts:   make([]float64, len(cfg.Resources)),
		lastWake:  now,
		wake:      now.Add(cfg.Period),
	}
	for r := range a.resources {
		a.resources[r].capacity = cfg.Resources[r].Capacity
		a.amounts[r] = cfg.Resources[r].Capacity
	}
	a.flows = append(a.flows, newFlow("", cfg.Terms[""], len(a.resources), now))
	if cfg.Process != "" {
		a.self = place(uint32(a.Peer(now, cfg.Service, cfg.Process)))
		a.peers.rows[a.self].heard = mono.Never
	}
	return a, nil
}

// Config returns the configuration with its defaults filled in.
func (a *Adapter) Config() Config { return a.cfg }

// Stats returns the counts since the start.
func (a *Adapter) Stats() Stats { return a.stats }

// Workflow returns the number of a workflow, giving it one if it is new. The
// empty name, a name over nameLimit, and one that there is no room for are the
// default workflow. It allocates for a new name only.
func (a *Adapter) Workflow(now mono.Time, name string) Workflow {
	if name == "" || len(name) > nameLimit {
		return 0
	}
	i, ok := a.workflows.find(name, name)
	if !ok {
		if i, ok = a.workflows.add(name); !ok {
			a.stats.NoRoom++
			return 0
		}
		if i == len(a.flows) {
			a.flows = append(a.flows, nil)
		}
		a.flows[i] = newFlow(name, a.cfg.Terms[name], len(a.resources), now)
	}
	return Workflow(a.workflows.id(i))
}

// Peer returns the number of a process, giving it one if it is new. Without a
// process name, or with one over nameLimit, it is the unnamed peer. It allocates
// for a new name only, and forgets the peer not heard of for longest if there is
// no room.
func (a *Adapter) Peer(now mono.Time, service, process string) Peer {
	if process == "" || len(process) > nameLimit || len(service) > nameLimit {
		return 0
	}
	key := peer{service, process}
	i, ok := a.peers.find(key, process)
	if !ok {
		if i, ok = a.peers.add(key); !ok {
			oldest := a.peers.oldest()
			if oldest == 0 || oldest == a.self {
				return 0
			}
			a.forgetPeer(oldest)
			a.stats.Evicted++
			i, _ = a.peers.add(key)
		}
		s, ok := a.services.find(service, service)
		if !ok {
			s, _ = a.services.add(service)
			if s == len(a.members) {
				a.members = append(a.members, 0)
			}
		}
		a.members[s]++
		if i == len(a.serviceOf) {
			a.serviceOf = append(a.serviceOf, 0)
		}
		a.serviceOf[i] = s
		a.peers.rows[i].heard = now
	}
	return Peer(a.peers.id(i))
}

// Knows reports whether p, a number of a named process, still is that process's. Peer would
// return it, after finding the names.
func (a *Adapter) Knows(p Peer) bool {
	i, ok := a.peers.at(uint32(p))
	return ok && i > 0
}

func (a *Adapter) forgetPeer(i int) {
	for _, f := range a.flows {
		if f != nil {
			f.dropSource(i)
			f.dropLink(i)
		}
	}
	s := a.serviceOf[i]
	if a.members[s]--; a.members[s] == 0 && s > 0 {
		a.services.remove(s)
	}
	a.peers.remove(i)
}

// hear notes that a peer was heard of. This process itself is never silent.
func (a *Adapter) hear(now mono.Time, i int) {
	a.peers.rows[i].heard = max(a.peers.rows[i].heard, now)
}

// flow returns a workflow's account, nil if its number was forgotten.
func (a *Adapter) flow(w Workflow) *flow {
	if i, ok := a.workflows.at(uint32(w)); ok {
		return a.flows[i]
	}
	return nil
}

// Request is one request's passage through an Adapter: the driver keeps it with
// the request, fills the exported fields and passes it to OnArrival. It may be
// used again when the request has ended, and then remembers without allocating.
type Request struct {
	// Workflow is what the request belongs to.
	Workflow Workflow
	// From is the process that sent it.
	From Peer
	// Attempt is 0 for a first attempt and counts retries.
	Attempt int
	// Demand is the rate at which the sender said it would send such requests
	// here if it were not throttled, in requests/s; 0 if it said nothing. See
	// Adapter.Demand.
	Demand float64
	// Deadline is the local instant after which the answer is useless; mono.Never
	// if there is none.
	Deadline mono.Time
	// Remaining is the expected service time of the request from here on, 0 if
	// unknown.
	Remaining time.Duration

	state  state
	probe  bool
	passed mono.Time
	calls  []called
}

// Reset makes t a new Request, which keeps the memory of the old one.
func (t *Request) Reset() { *t = Request{calls: t.calls[:0]} }

type state uint8

const (
	fresh state = iota
	arrived
	waiting
	inside
)

// called counts a request's calls to one process.
type called struct {
	peer  Peer
	times int
}

// OnArrival counts a request that reached this process, before anything can hold
// it back or refuse it. Only first attempts are demand. The driver goes on with
// Enter, or, if it does not limit, lets the request run.
func (a *Adapter) OnArrival(now mono.Time, t *Request) {
	t.state, t.probe, t.passed, t.calls = arrived, false, now, t.calls[:0]
	f := a.flow(t.Workflow)
	if f == nil {
		t.Workflow, f = 0, a.flows[0]
	}
	f.heard = now
	from, _ := a.peers.at(uint32(t.From))
	a.hear(now, from)
	s := f.source(from)
	if s == nil {
		s = f.addSource(from)
	}
	s.heard = now
	if d := t.Demand; d != 0 {
		if d > 0 && d <= NoLimit {
			s.claimed, s.toldAt, s.told = d, now, true
		} else {
			a.stats.BadDemands++
		}
	}
	if t.Attempt == 0 {
		f.arrived++
		s.arrived++
	}
}

// OnCall counts a call that a request makes to a process. Retries say nothing
// about the calls per request and are left out: with half of the calls refused
// and three retries, counting them would cut the rate to 53 %.
func (a *Adapter) OnCall(now mono.Time, t *Request, to Peer, attempt int) {
	i, ok := a.peers.at(uint32(to))
	if !ok || i == 0 {
		return
	}
	a.hear(now, i)
	f := a.flow(t.Workflow)
	if f == nil || i == a.self {
		return
	}
	l := f.link(i)
	if l == nil {
		l = f.addLink(i, a.serviceOf[i], a.cfg.Quantile)
	}
	l.heard = now
	l.sent++
	if attempt > 0 {
		return
	}
	l.tried++
	// A request mostly calls the process that it called last.
	for k := len(t.calls) - 1; k >= 0; k-- {
		if t.calls[k].peer == to {
			t.calls[k].times++
			return
		}
	}
	t.calls = append(t.calls, called{to, 1})
}

// OnShed counts a call that the process refused because of overload.
func (a *Adapter) OnShed(w Workflow, to Peer) {
	if i, ok := a.peers.at(uint32(to)); ok {
		if f := a.flow(w); f != nil {
			if l := f.link(i); l != nil {
				l.shed++
			}
		}
	}
}

// OnDone ends a request that was let in. Calls per request and latency are
// learned from those that ran to their end: a request that was refused further
// down, or given up, made fewer calls than it would have. To which process of a
// service they go, all requests tell. Only while no request has ever got to its end do
// the others count. A request that was not let in, or
// has ended before, does nothing.
func (a *Adapter) OnDone(now mono.Time, t *Request, how work.Outcome) {
	f := a.flow(t.Workflow)
	if t.state == waiting || t.state == fresh || f == nil {
		return
	}
	t.state = fresh
	f.heard = now
	f.ended++
	if how.Executed() {
		if !f.known {
			f.startOver()
		}
		f.limiter.sample(now.Sub(t.passed))
	} else if f.known {
		return
	}
	f.completed++
	for _, c := range t.calls {
		if i, ok := a.peers.at(uint32(c.peer)); ok {
			if l := f.link(i); l != nil {
				l.calls += float64(c.times)
			}
		}
	}
}

// startOver forgets the calls of requests that did not run to their end.
func (f *flow) startOver() {
	f.known = true
	f.parents, f.completed = 0, 0
	for b := range f.branches {
		for i := range f.branches[b].links {
			l := &f.branches[b].links[i]
			l.each, l.calls = 0, 0
		}
	}
}

// OnUse counts time for which a workflow kept a unit of a resource busy. A use
// longer than a period is to be told in parts, one a period: a resource full of
// uses that nobody has told looks idle, and what can be handed out of it small.
// Times that are not above 0 and resources that do not exist are ignored.
func (a *Adapter) OnUse(w Workflow, resource int, busy time.Duration) {
	f := a.flow(w)
	if f == nil || busy <= 0 || resource < 0 || resource >= len(f.use) {
		return
	}
	u := &f.use[resource]
	s := mono.Seconds(busy)
	u.busy += s
	u.owed += s
	u.total += s
}

// OnRate takes the rate that a downstream process announced for a workflow.
// Numbers that cannot be a rate are ignored, larger ones than NoLimit count as
// that, and both are counted. A rate from a process that the workflow does not
// call is ignored. OnRate reports whether the rate counts.
func (a *Adapter) OnRate(now mono.Time, w Workflow, from Peer, rate float64) bool {
	if !(rate >= 0 && rate <= NoLimit) {
		a.stats.BadRates++
	}
	i, ok := a.peers.at(uint32(from))
	f := a.flow(w)
	if !ok || f == nil || !(rate >= 0) || math.IsInf(rate, 1) {
		return false
	}
	l := f.link(i)
	if l == nil {
		return false
	}
	l.rate, l.at, l.any = min(rate, NoLimit), now, true
	return true
}

// NextWake returns the instant at which the period ends.
func (a *Adapter) NextWake() mono.Time { return a.wake }

// OnWake ends the period if it is over, and adapts every rate. Early and
// repeated calls do nothing; a late call ends one longer period.
func (a *Adapter) OnWake(now mono.Time, s Signals) {
	if now < a.wake {
		return
	}
	elapsed := now.Sub(a.lastWake)
	a.stats.Late += uint64(elapsed/a.cfg.Period) - 1
	a.lastWake, a.wake = now, now.Add(a.cfg.Period)
	seconds := elapsed.Seconds()
	stale := time.Duration(a.cfg.Stale) * a.cfg.Period
	for i, f := range a.flows {
		if f == nil {
			continue
		}
		f.measure(now, seconds, stale, a.cfg.Forget)
		f.limiter.measure(now, a.cfg.Period)
		if i > 0 && now.Sub(f.heard) > a.cfg.Forget && f.limiter.backlog == 0 {
			a.workflows.remove(i)
			a.flows[i] = nil
		}
	}
	for i := 1; i < len(a.peers.rows); i++ {
		if r := &a.peers.rows[i]; r.used && now.Sub(r.heard) > a.cfg.Forget {
			a.forgetPeer(i)
		}
	}
	for _, f := range a.flows {
		if f != nil {
			a.downstream(now, f, seconds, stale)
		}
	}
	a.credits = s.Credits
	a.divide(s)
	for _, f := range a.flows {
		if f == nil {
			continue
		}
		f.sigma = bounded(min(f.local, f.down))
		a.split(f)
		a.shape(now, f, stale)
	}
}

// shape sets what a workflow's requests are held to at this process. While there are
// credits that is the share of those whose senders do not hold them back themselves:
// what a peer with a rate sent has had its work. Held here as well, it waited in front
// of idle workers, at 7 % of the goodput of three tiers (simulation). And it is a
// little more than the rate where what is short is further down, see overdraft.
func (a *Adapter) shape(now mono.Time, f *flow, stale time.Duration) {
	if !a.credits || f.sigma >= NoLimit {
		f.limiter.set(now, f.sigma, 1)
		return
	}
	share := 0.0
	for i := range f.sources {
		if s := &f.sources[i]; s.peer == 0 || !s.says(now, stale) {
			share += s.share
		}
	}
	share, burst := max(share, f.least()), 1.0
	if f.down < f.local {
		share, burst = share*(1+overdraft), creditBurst
	}
	f.limiter.set(now, share, burst)
}

// held reports whether the sender of a request holds its workflow to the rate that it
// was told, as who says its demand does.
func (t *Request) held() bool { return t.From != 0 && t.Demand > 0 && t.Demand <= NoLimit }

// bounded keeps a rate where something can still be learned.
func bounded(rate float64) float64 { return min(max(rate, leastRate), NoLimit) }

// Rate returns the rate at which a workflow may enter, in requests/s, NoLimit if
// it is not limited. A workflow that was forgotten is not.
func (a *Adapter) Rate(w Workflow) float64 {
	if f := a.flow(w); f != nil {
		return f.sigma
	}
	return NoLimit
}

// Demand returns the rate at which requests of a workflow would make this
// process call another one if they were not throttled, in calls/s: what to tell
// that process with each call. 0 if nothing is known.
func (a *Adapter) Demand(w Workflow, to Peer) float64 {
	i, ok := a.peers.at(uint32(to))
	f := a.flow(w)
	if !ok || f == nil {
		return 0
	}
	l := f.link(i)
	if l == nil {
		return 0
	}
	return min(f.demand*l.alpha, NoLimit)
}
