package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/reread"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/telemetry"
)

// Proxy is a reverse proxy with a gate for each upstream. Its methods may be
// called at once from any goroutine.
type Proxy struct {
	log     *slog.Logger
	metrics *telemetry.Telemetry
	instruments
	advice  advice
	handler http.Handler
	buffers *buffers

	state     atomic.Pointer[state]
	access    atomic.Pointer[accessLog] // nil: there was none yet
	phase     atomic.Int32
	wasReady  atomic.Bool          // once
	active    atomic.Int64         // requests inside, upgraded connections included
	places    atomic.Pointer[room] // of client connections; nil before Run
	parked    atomic.Int64         // connections without a goroutine of a server: see parking
	parkAfter time.Duration
	visited   atomic.Bool // a request had a visit; never false again
	malformed atomic.Int64
	unrouted  atomic.Int64 // requests that no group was for
	started   time.Time

	traces  traces
	kinds   kinds
	exits   []*exit      // they do not change
	outside atomic.Int64 // calls of upstreams that are under way

	unaccepted, bodies, greedy, unsaid throttle // of the log

	sparing sync.Mutex // of putting an upstream out
	hurried sync.Once
	hurry   chan struct{} // closed by Hurry
	cutting atomic.Bool   // what is inside is cut off
	sends   time.Duration // sendsFor, but in tests

	mu        sync.Mutex // of what follows, and of changes of state
	listening bool
	front     []net.Listener
	egress    []net.Listener // of exits
	admin     net.Listener
	keys      []*reread.File // of listeners
	names     names          // of upstreams
	leaving   sync.WaitGroup // upstreams that were replaced and finish
	stop      context.CancelFunc
	stopped   context.Context // of requests: ends when they are cut off
}

// state is what can change while the proxy runs. It is replaced as a whole.
type state struct {
	cfg       Config
	groups    []*group
	upstreams []*upstream              // of all groups
	trusted   func(*http.Request) bool // nil: nobody
	sockets   bool                     // clients of some are trusted
	exempt    func(*http.Request) bool // nil: nothing
	rules     *classify.Rules
	names     *classify.Names
	classes   *live.Classes   // nil: none are learned
	inside    []*atomic.Int64 // requests that are in the proxy, by rule; see compile
}

// The phases of a proxy's life.
const (
	starting int32 = iota
	serving
	noticing // still serving, but unready
	draining
)

var phaseNames = [...]string{starting: "starting", serving: "serving", noticing: "leaving", draining: "draining"}

// New returns a proxy that does not listen yet, or every mistake in cfg, each a
// *Mistake. log may be nil.
func New(cfg Config, log *slog.Logger) (*Proxy, error) {
	if err := check(cfg); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	metrics, err := telemetry.New()
	if err != nil {
		return nil, err
	}
	p := &Proxy{log: log, metrics: metrics, buffers: newBuffers(), names: newResolver(), hurry: make(chan struct{}), sends: sendsFor, started: time.Now(), parkAfter: parkAfter}
	p.stopped, p.stop = context.WithCancel(context.Background())
	if err := errors.Join(p.count(metrics.Meter()), p.watchSelf(), p.watchHealth(), p.watchWorkflows(), p.watchMishaps(), p.watchClasses()); err != nil {
		return nil, err
	}
	if err := p.apply(cfg); err != nil {
		return nil, err
	}
	for _, e := range cfg.Egress {
		x, err := p.newExit(p.state.Load().cfg.Limits, e)
		if err != nil {
			_ = p.Close()
			return nil, err
		}
		p.exits = append(p.exits, x)
	}
	p.handler = p.gated()
	return p, nil
}

// gated returns what puts requests through the gates of upstreams.
func (p *Proxy) gated() http.Handler {
	limits := p.state.Load().cfg.Limits
	return httpgate.Spread(p.choose,
		// ServeHTTP has taken off or replaced what strangers say.
		httpgate.Trust(httpgate.Everyone),
		httpgate.Urgent(func(r *http.Request) bool { return ruledOf(r).timed || p.state.Load().trusts(r) }),
		httpgate.Proxies(func(r *http.Request, a netip.Addr) bool {
			s := p.state.Load()
			return s.trustsAddr(a) || !a.IsValid() && s.sockets && r.Context().Value(trustedKey{}) != nil
		}),
		httpgate.Exempt(func(r *http.Request) bool { return p.state.Load().exempts(r) }),
		httpgate.Objectives(func(r *http.Request) time.Duration { return ruledOf(r).objective }),
		httpgate.Kinds(func(r *http.Request) (kind string, cancel bool) {
			use := &ruledOf(r).use
			return use.Kind, !use.NoCancel
		}),
		httpgate.Patient(httpgate.Patience{Gather: limits.BodyBuffer, Rate: limits.BodyRate, Silence: limits.BodyTimeout, Write: limits.SendTimeout}),
		httpgate.OnBadBody(p.badBody),
		httpgate.OverloadStatus(func(*http.Request) int { return p.state.Load().cfg.OverloadStatus }),
		httpgate.OnEnd(func(r *http.Request) func(httpgate.End) {
			if a := p.logOf(r); a != nil {
				return a.left
			}
			return nil
		}),
		httpgate.OnMalformed(func(*http.Request, error) { p.malformed.Add(1) }),
	)
}

// check returns every mistake in cfg.
func check(cfg Config) error {
	var errs []error
	for _, m := range append(cfg.Check(), cfg.CheckFiles()...) {
		errs = append(errs, m)
	}
	return errors.Join(errs...)
}

// ServeHTTP handles one request. It is what the listeners serve.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.active.Add(1)
	defer p.active.Add(-1)
	own := placeOf(r.Context())
	own.begin()
	defer own.end()
	own.holds(r)
	forUs(r.Header)
	w = own.lastIfTwice(w, r)
	s := p.state.Load()
	if s.cfg.Access.Path == "" {
		if !p.limit(s, own, w, r, nil) {
			awaitRest(s, w, r)
		}
		return
	}
	a, r := p.access.Load().enter(w, r)
	returned := false
	defer func() { a.leave(s, r, returned) }()
	if !p.limit(s, own, a, r, a) {
		awaitRest(s, w, r)
	}
	returned = true
}

// limit answers a request that goes to no upstream, and reports false, or serves it. a is its entry in the
// access log, nil if there is none.
func (p *Proxy) limit(s *state, own *placed, w http.ResponseWriter, r *http.Request, a *access) (served bool) {
	if lastHop(w, r, a) {
		return false
	}
	refused, end := p.tooMany(own, w, r)
	switch {
	case refused:
		a.say("refuse", work.Share.String())
		return false
	case end != nil:
		defer end()
	}
	return p.serve(s, w, r, a)
}

// awaitRest bounds how long a client may take whose request was answered without its body. The server of HTTP/1 reads up
// to 256 KiB of that before the answer leaves; over HTTP/2 the answer waits until the client opens a window for it.
func awaitRest(s *state, w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	switch {
	case r.ProtoMajor > 1:
		_ = control.SetWriteDeadline(time.Now().Add(s.cfg.Limits.SendTimeout))
	case r.ContentLength != 0:
		_ = control.SetReadDeadline(time.Now().Add(s.cfg.Limits.BodyTimeout))
	}
}

// peek has the rules look at the first message of a call, for which they wait for its client: over HTTP/1 no longer than for any
// part of a body, because it keeps its connection meanwhile.
func peek(s *state, w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor > 1 || !isGRPC(r) {
		s.rules.Peek(r)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.cfg.Limits.BodyTimeout))
	s.rules.Peek(r)
	_ = control.SetReadDeadline(time.Time{})
}

// serve handles one request, and reports false if it answered it without a gate. a is its entry in the access log, nil if
// there is none.
func (p *Proxy) serve(s *state, w http.ResponseWriter, r *http.Request, a *access) (served bool) {
	if !p.routed(s, w, r) {
		a.say(notFound, work.None.String())
		return false
	}
	peek(s, w, r)
	what, err := s.rules.Stamp(live.Now(), r, s.names, s.trusts(r))
	if err != nil {
		p.malformed.Add(1)
	}
	a.is(what.Workflow)
	r = remember(r, &what)
	if p.advised(s, w, r, &what.Use) {
		a.say("refuse", work.Culprit.String())
		return false
	}
	if what.Use.AtOnce > 0 && !s.exempts(r) && s.cfg.Mode != live.Off {
		full := s.count(&what.Bound, 1)
		defer s.count(&what.Bound, -1)
		if full >= 0 && p.crowded(s, w, r, full) {
			a.say("refuse", work.Share.String())
			return false
		}
	}
	if what.Deadline > 0 && !s.exempts(r) {
		ctx, cancel := context.WithTimeout(r.Context(), what.Deadline)
		defer cancel()
		r = r.WithContext(ctx)
	}
	r = mayClaim(s.upstreams, r)
	if s.classes == nil && len(p.exits) == 0 || s.exempts(r) {
		p.handler.ServeHTTP(w, r)
		return true
	}
	v, r := p.begin(s, r, &what)
	returned := false
	defer func() { v.end(returned) }()
	if v.asked && s.classes != nil {
		w = &progressWriter{ResponseWriter: w, v: v}
	}
	p.handler.ServeHTTP(w, r)
	if v.asked && s.classes != nil {
		v.spent(w.Header()) // in what is sent behind the answer
	}
	returned = true
	return true
}

// find returns the upstream of that description in the group of that name, nil without
// one. s may be nil.
func (s *state) find(group string, u Upstream) *upstream {
	if s == nil {
		return nil
	}
	for _, up := range s.upstreams {
		if up.group == group && up.cfg == u {
			return up
		}
	}
	return nil
}

func (s *state) trusts(r *http.Request) bool {
	return s.trusted != nil && s.trusted(r) || s.sockets && r.Context().Value(trustedKey{}) != nil
}

// trustedKey is the key under which the context of a connection says that its client is
// believed.
type trustedKey struct{}

func (s *state) exempts(r *http.Request) bool { return s.exempt != nil && s.exempt(r) }

// Metrics returns the proxy's telemetry, for further instruments.
func (p *Proxy) Metrics() *telemetry.Telemetry { return p.metrics }

// Addrs returns the addresses that the proxy listens on, and that of the admin
// listener, nil without one; after Listen.
func (p *Proxy) Addrs() (front []net.Addr, admin net.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.front {
		front = append(front, l.Addr())
	}
	if p.admin != nil {
		admin = p.admin.Addr()
	}
	return front, admin
}

// EgressAddrs returns the addresses of Config.Egress, in its order; after Listen.
func (p *Proxy) EgressAddrs() (all []net.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.egress {
		all = append(all, l.Addr())
	}
	return all
}

// Listen opens the listeners, all of them or none. Run calls it if nobody did.
func (p *Proxy) Listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listening {
		return nil
	}
	cfg := p.state.Load().cfg
	var errs []error
	open := func(from Listener) net.Listener {
		l, err := from.open()
		if err != nil {
			errs = append(errs, fmt.Errorf("proxy: listen on %s: %w", from.Address, err))
			return nil
		}
		return l
	}
	for _, l := range cfg.Listen {
		if nl := open(l); nl != nil {
			p.front = append(p.front, nl)
		}
	}
	for _, e := range cfg.Egress {
		if nl := open(Listener{Address: e.Address}); nl != nil {
			p.egress = append(p.egress, nl)
		}
	}
	if cfg.Admin != "" {
		p.admin = open(Listener{Address: cfg.Admin})
	}
	if err := errors.Join(errs...); err != nil {
		p.closeListeners()
		return err
	}
	p.listening = true
	return nil
}

func (p *Proxy) closeListeners() {
	for _, l := range append(p.front[:len(p.front):len(p.front)], p.egress...) {
		l.Close()
	}
	if p.admin != nil {
		p.admin.Close()
	}
	p.front, p.egress, p.admin = nil, nil, nil
}

// Close ends a proxy that was never run.
func (p *Proxy) Close() error {
	p.stop()
	p.mu.Lock()
	p.phase.Store(draining)
	p.closeListeners()
	s := p.state.Load()
	p.mu.Unlock()
	p.leaving.Wait()
	for _, up := range s.upstreams {
		up.close()
	}
	if l := p.access.Swap(nil); l != nil {
		l.close()
	}
	for _, x := range p.exits {
		x.close()
	}
	return p.metrics.Shutdown(context.Background())
}
