package live

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Wallet holds a client's credits at the servers that can serve its requests.
// All its methods, and those of its servers and permits, may be called at once
// from any goroutine.
type Wallet struct {
	mu     sync.Mutex
	core   *credit.Wallet
	timer  *time.Timer
	armed  mono.Time
	latest mono.Time // instant that the core was told of
	closed bool
	lent   lent
}

// timersLate is by how much one timer in a hundred is late, at most, in a process that
// sends 1,800 requests/s from one processor (the generator of lab run admission/peers).
const timersLate = 2500 * time.Microsecond

// NewWallet returns a wallet without servers, or every mistake in cfg. Late is 2.5 ms by
// default.
func NewWallet(cfg credit.WalletConfig) (*Wallet, error) {
	if cfg.Late == 0 {
		cfg.Late = timersLate
	}
	core, err := credit.NewWallet(cfg)
	if err != nil {
		return nil, err
	}
	w := &Wallet{core: core, armed: mono.Never}
	w.timer = time.AfterFunc(time.Hour, w.onTimer)
	w.timer.Stop()
	return w, nil
}

// Server is one server that a wallet may send to.
type Server struct {
	wallet *Wallet
	window *credit.Window
	notify func(demand int)
	id     uint64
	plain  atomic.Bool // OnPlainReply came since Reset; written with the wallet's lock
	said   Said
}

// Said returns what travelled to the server last.
func (s *Server) Said() *Said { return &s.said }

// Identity returns the name by which the server can tell this window from those
// of other clients, where connections do not (wire.Tags.Client). It is a random
// number, never 0, and of each server another: it names the window, not the
// client, so that two connections to one server have an account each.
func (s *Server) Identity() uint64 { return s.id }

// Open adds a server. notify, if not nil, is called when the server must be told
// the number of waiting requests because no request or reply carries it; not
// under a lock, and it must not block. The number may be credit.Unheard.
func (w *Wallet) Open(notify func(demand int)) *Server {
	s := &Server{wallet: w, notify: notify, id: rand.Uint64() | 1}
	now := w.lock(Now())
	s.window = w.core.Open()
	s.window.Owner = s
	w.finish(now)
	return s
}

// OnGrant takes a grant of the server that came without a reply: see Permit.OnGrant.
func (s *Server) OnGrant(g wire.Grant) {
	now := s.wallet.lock(Now())
	s.wallet.core.OnGrant(now, s.window, g)
	s.wallet.finish(now)
}

// objective returns the objective that the server said last, the longest Duration if
// it said none. A nil server said none.
func (s *Server) objective() time.Duration {
	if s == nil {
		return math.MaxInt64
	}
	s.wallet.mu.Lock()
	defer s.wallet.mu.Unlock()
	if d := s.window.Objective(); d > 0 {
		return d
	}
	return math.MaxInt64
}

// OnPlainReply notes a reply without credits to a request that asked for them (Permit.Asks): a
// server that never grants any is not limited. After Reset, the first one says all.
func (s *Server) OnPlainReply() {
	if s.plain.Load() {
		return
	}
	now := s.wallet.lock(Now())
	s.plain.Store(true)
	s.wallet.core.OnPlainReply(s.window)
	s.wallet.finish(now)
}

// Reset forgets the server's grants, after a reconnect.
func (s *Server) Reset() {
	now := s.wallet.lock(Now())
	s.plain.Store(false)
	s.wallet.core.Reset(s.window)
	s.wallet.finish(now)
}

// Close removes the server. Permits for it stay valid and must be returned.
func (s *Server) Close() {
	now := s.wallet.lock(Now())
	s.wallet.core.Close(s.window)
	s.wallet.finish(now)
}

// Outstanding returns the requests sent to the server and not answered.
func (s *Server) Outstanding() int {
	s.wallet.lock(Now())
	defer s.wallet.unlock()
	return s.window.Outstanding()
}

// Permit is the right to send one request to one server.
type Permit struct {
	core   credit.Waiter
	wallet *Wallet
	server *Server
	waited time.Duration
	told   time.Duration // of waited
	wake   chan verdict  // while it waits
	demand int32
	state  atomic.Uint32 // what follows, of a permit
}

const (
	asksGrant uint32 = 1 << iota
	wasReturned
)

// first reports whether the permit was not returned before, and notes that it is.
func (p *Permit) first() bool { return p.state.Or(wasReturned)&wasReturned == 0 }

// wakes are the channels of requests that wait for a credit. Each is empty while nobody waits on it.
var wakes = sync.Pool{New: func() any { return make(chan verdict, 1) }}

type verdict struct {
	step   credit.Step
	reason work.Reason
}

// Server returns the server to send to.
func (p *Permit) Server() *Server { return p.server }

// Tell writes into t what travels with the request: that its sender obeys credits, how many further requests waited
// for this server when the permit was given, about, for how long this one did, about, and whether it Asks.
func (p *Permit) Tell(t *wire.Tags) {
	t.Credits, t.Demand, t.Waited, t.Asks = true, coarseDemand(int(p.demand)), p.told, p.Asks()
}

// Demand returns the number of further requests that waited for this server when
// the permit was given.
func (p *Permit) Demand() int { return int(p.demand) }

// Asks reports whether the client knows no grant of the server: it travels with the request, and
// an answer without a grant then says that the server grants none.
func (p *Permit) Asks() bool { return p.state.Load()&asksGrant != 0 }

// Waited returns for how long the request waited for the permit, or until it was refused one.
func (p *Permit) Waited() time.Duration { return p.waited }

// begin makes p a permit for a request of ctx, which has no server yet.
func (p *Permit) begin(ctx context.Context, w *Wallet) {
	*p = Permit{wallet: w}
	p.core.Owner, p.core.Deadline = p, mono.Never
	if t := tagsIn(ctx); t != nil {
		p.core.Workflow = t.Workflow
	}
}

// OnGrant takes the grant on the answer to the request that was sent with p.
func (p *Permit) OnGrant(g wire.Grant) {
	now := p.wallet.lock(Now())
	p.wallet.core.OnPart(&p.core, g.Part)
	p.wallet.core.OnGrant(now, p.server.window, g)
	p.wallet.finish(now)
}

// Acquire waits for a credit and returns the permit to send one request, or a
// *Refusal whose reason says that the request was not sent. The wait ends with
// ctx, and early when its deadline can no longer be met.
func (w *Wallet) Acquire(ctx context.Context) (*Permit, error) {
	p := new(Permit)
	if err := w.AcquireTo(ctx, p); err != nil {
		return nil, err
	}
	return p, nil
}

// AcquireTo is Acquire for a caller that has room for a permit, and allocates nothing, also if the
// request waits. What p was before does not matter, if it was returned.
func (w *Wallet) AcquireTo(ctx context.Context, p *Permit) error {
	return w.AcquireAt(ctx, Now(), p)
}

// AcquireAt is AcquireTo for a caller that has just read the clock.
func (w *Wallet) AcquireAt(ctx context.Context, now mono.Time, p *Permit) error {
	_, err := w.acquire(ctx, now, nil, p)
	return err
}

// AcquireOr is AcquireTo with a wait that also ends when lost is closed: it then returns false
// and no error.
func (w *Wallet) AcquireOr(ctx context.Context, lost <-chan struct{}, p *Permit) (ok bool, err error) {
	return w.acquire(ctx, Now(), lost, p)
}

// AcquireOrAt is AcquireOr for a caller that has just read the clock.
func (w *Wallet) AcquireOrAt(ctx context.Context, now mono.Time, lost <-chan struct{}, p *Permit) (ok bool, err error) {
	return w.acquire(ctx, now, lost, p)
}

func (w *Wallet) acquire(ctx context.Context, now mono.Time, lost <-chan struct{}, p *Permit) (ok bool, err error) {
	p.begin(ctx, w)
	if d, ok := ctx.Deadline(); ok {
		p.core.Deadline = Instant(d)
	}
	if w.borrow(now, p) {
		return true, nil
	}
	now = w.lock(now)
	if w.closed {
		w.mu.Unlock()
		return false, &Refusal{Reason: work.Canceled, Pushback: -1}
	}
	step, reason := w.core.Submit(now, &p.core)
	switch step {
	case credit.Send:
		p.sent(now)
		w.finish(now)
		return true, nil
	case credit.Refuse:
		w.finish(now)
		return false, &Refusal{Reason: reason, Pushback: -1, cause: context.DeadlineExceeded} // it has passed
	}
	p.wake = wakes.Get().(chan verdict)
	w.finish(now)

	span := SpanFrom(ctx)
	span.BeginWait()
	defer span.EndWait()
	v, ok := p.wait(ctx, lost)
	wakes.Put(p.wake)
	p.wake = nil
	if !ok || v.step == credit.Refuse {
		p.waited = Now().Sub(now)
	}
	switch {
	case !ok && ctx.Err() == nil:
		return false, nil
	case !ok:
		return false, notSent(ctx)
	case v.step == credit.Refuse:
		pushback := time.Duration(-1)
		if v.reason.Retryable() {
			pushback = 0
		}
		return false, &Refusal{Reason: v.reason, Pushback: pushback}
	}
	return true, nil
}

// wait waits for the verdict on a request that waits in the wallet, and reports false if there
// is none, because ctx ended or lost was closed before.
func (p *Permit) wait(ctx context.Context, lost <-chan struct{}) (verdict, bool) {
	select {
	case v := <-p.wake:
		return v, true
	case <-ctx.Done():
	case <-lost:
	}
	w := p.wallet
	now := w.lock(Now())
	if w.core.Cancel(&p.core) {
		w.finish(now)
		return verdict{}, false
	}
	w.unlock()
	return <-p.wake, true
}

// notSent is the refusal of a request whose context ended while it waited.
func notSent(ctx context.Context) *Refusal {
	r := &Refusal{Reason: work.Canceled, Pushback: -1, cause: Ended(ctx)}
	if errors.Is(r.cause, context.DeadlineExceeded) {
		r.Reason = work.WalletExpired
	}
	return r
}

// sent fills in what a permit knows once it holds a credit; the lock is held.
func (p *Permit) sent(now mono.Time) {
	p.server = p.core.Window().Owner.(*Server)
	p.demand = int32(min(p.wallet.core.Demand(), math.MaxInt32))
	if p.core.Asked() {
		p.state.Store(asksGrant)
	}
	if p.waited = p.core.Waited(now); p.waited > 0 {
		p.told = coarseWait(p.waited, p.server.window.Objective())
	}
}

// Return gives the credit back. served is the time from sending to the answer if
// the server executed the request, 0 if it refused, failed or was canceled. Only
// the first call counts.
func (p *Permit) Return(served time.Duration) {
	if !p.giveBack(served) {
		p.give(Now(), nil, served)
	}
}

// ReturnWith is OnGrant and Return in one.
func (p *Permit) ReturnWith(g wire.Grant, served time.Duration) { p.ReturnAt(Now(), &g, served) }

// ReturnAt is Return, or with a grant ReturnWith, for a caller that has just read the clock.
func (p *Permit) ReturnAt(now mono.Time, g *wire.Grant, served time.Duration) {
	if g != nil || !p.giveBack(served) {
		p.give(now, g, served)
	}
}

func (p *Permit) give(now mono.Time, g *wire.Grant, served time.Duration) {
	w := p.wallet
	now = w.lock(now)
	w.take(now, &Returned{p, g, served})
	w.finish(now)
}

// Returned is a permit that an answer gives back.
type Returned struct {
	Permit *Permit
	// Grant is that of the answer, nil if it has none.
	Grant *wire.Grant
	// Served is explained at Permit.Return.
	Served time.Duration
}

// ReturnAll is ReturnAt for requests whose answers came together. Their permits are of this wallet.
func (w *Wallet) ReturnAll(now mono.Time, answers []Returned) {
	now = w.lock(now)
	for i := range answers {
		w.take(now, &answers[i])
	}
	w.finish(now)
}

// take takes the credit and the grant of an answer. It is called with the lock held.
func (w *Wallet) take(now mono.Time, a *Returned) {
	p := a.Permit
	if a.Grant != nil {
		w.core.OnPart(&p.core, a.Grant.Part)
		w.core.OnGrant(now, p.server.window, *a.Grant)
	}
	if p.first() {
		w.core.Return(&p.core, a.Served)
	}
}

// at returns the instant for the core of what happened at now, which was read before the lock was taken. It is
// called with the lock held.
func (w *Wallet) at(now mono.Time) mono.Time {
	w.latest = max(w.latest, now)
	return w.latest
}

// Waiting returns the number of requests that wait for a credit.
func (w *Wallet) Waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.core.Len()
}

// Close refuses what waits and what comes, and stops the timer. Permits stay
// valid. Further calls do nothing.
func (w *Wallet) Close() {
	w.lock(Now())
	w.closed = true
	w.timer.Stop()
	for o := w.core.Oldest(); o != nil; o = w.core.Oldest() {
		w.core.Cancel(o)
		o.Owner.(*Permit).wake <- verdict{credit.Refuse, work.Canceled}
	}
	w.mu.Unlock()
}

// finish delivers what a call to the core made due and releases the lock, which
// is held when it is called.
func (w *Wallet) finish(now mono.Time) {
	for c, step, reason := w.core.Next(now); c != nil; c, step, reason = w.core.Next(now) {
		p := c.Owner.(*Permit)
		if step == credit.Send {
			p.sent(now)
		}
		p.wake <- verdict{step, reason} // never blocks: one verdict a permit
	}
	var tell []func()
	for win, demand, ok := w.core.NextDemand(now); ok; win, demand, ok = w.core.NextDemand(now) {
		if s := win.Owner.(*Server); s.notify != nil {
			tell = append(tell, func() { s.notify(demand) })
		}
	}
	if at := w.core.NextWake(); !w.closed && at < w.armed {
		w.armed = at
		w.timer.Reset(max(at.Sub(now), 0))
	}
	w.unlock()
	for _, f := range tell {
		f()
	}
}

func (w *Wallet) onTimer() {
	now := w.lock(Now())
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.armed = mono.Never
	w.finish(now)
}
