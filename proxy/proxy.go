package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/telemetry"
)

// Proxy is a reverse proxy with a gate for each upstream. Its methods may be
// called at once from any goroutine.
type Proxy struct {
	log     *slog.Logger
	metrics *telemetry.Telemetry
	errors  metric.Int64Counter
	crowds  metric.Int64Counter // by at_once
	clients metric.Int64Counter // what they did wrong
	evicted metric.Int64Counter // connections
	handler http.Handler
	buffers *buffers

	state     atomic.Pointer[state]
	phase     atomic.Int32
	active    atomic.Int64 // requests inside, upgraded connections included
	visited   atomic.Bool  // a request had a visit; never false again
	malformed atomic.Int64
	started   time.Time

	traces  traces
	kinds   kinds
	exits   []*exit      // they do not change
	outside atomic.Int64 // calls of upstreams that are under way

	unaccepted, bodies throttle // of the log

	sparing sync.Mutex // of putting an upstream out

	mu        sync.Mutex // of what follows, and of changes of state
	listening bool
	front     []net.Listener
	egress    []net.Listener // of exits
	admin     net.Listener
	keys      []*keyed       // of listeners
	leaving   sync.WaitGroup // upstreams that were replaced and finish
	stop      context.CancelFunc
	stopped   context.Context // of requests: ends when they are cut off
}

// state is what can change while the proxy runs. It is replaced as a whole.
type state struct {
	cfg       Config
	upstreams []*upstream
	trusted   func(*http.Request) bool // nil: nobody
	exempt    func(*http.Request) bool // nil: nothing
	rules     *classify.Rules
	names     *classify.Names
	classes   *live.Classes  // nil: none are learned
	inside    []atomic.Int64 // requests that are in the proxy, by rule
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
	p := &Proxy{log: log, metrics: metrics, buffers: newBuffers(), started: time.Now()}
	p.stopped, p.stop = context.WithCancel(context.Background())
	p.errors, err = metrics.Meter().Int64Counter("spillgate_upstream_errors",
		metric.WithDescription("Requests that the proxy could not answer from an upstream, by kind of failure."))
	if err != nil {
		return nil, err
	}
	_, err = metrics.Meter().Int64ObservableGauge("spillgate_requests_inside", metric.WithDescription("Requests inside the proxy, upgraded connections and streams included."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(p.active.Load())
			return nil
		}))
	if err != nil {
		return nil, err
	}
	_, err = metrics.Meter().Int64ObservableCounter("spillgate_malformed_tags", metric.WithDescription("Requests whose Spillgate tags were malformed and therefore ignored."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(p.malformed.Load())
			return nil
		}))
	if err != nil {
		return nil, err
	}
	p.crowds, err = metrics.Meter().Int64Counter("spillgate_rule_refusals",
		metric.WithDescription("Requests refused because at_once requests of their rule were inside, or in mode monitor those that would have been."))
	if err != nil {
		return nil, err
	}
	p.clients, err = metrics.Meter().Int64Counter("spillgate_client_errors",
		metric.WithDescription("Requests answered 400 or 408 before they asked for a slot, because their body was malformed or too slow."))
	if err != nil {
		return nil, err
	}
	p.evicted, err = metrics.Meter().Int64Counter("spillgate_connections_evicted",
		metric.WithDescription("Idle client connections that were closed to make room for new ones at limits.connections."))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.watchHealth(), p.watchWorkflows(), p.watchClasses()); err != nil {
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
	limits := p.state.Load().cfg.Limits
	p.handler = httpgate.Spread(p.choose,
		// ServeHTTP has taken off or replaced what strangers say.
		httpgate.Trust(func(*http.Request) bool { return true }),
		httpgate.Exempt(func(r *http.Request) bool { return p.state.Load().exempts(r) }),
		httpgate.Objectives(func(r *http.Request) time.Duration { return ruledOf(r).objective }),
		httpgate.Kinds(func(r *http.Request) (kind string, cancel bool) {
			use := &ruledOf(r).use
			return use.Kind, !use.NoCancel
		}),
		httpgate.Patient(httpgate.Patience{Gather: limits.BodyBuffer, Rate: limits.BodyRate, Write: limits.SendTimeout}),
		httpgate.OnBadBody(p.badBody),
		httpgate.OnMalformed(func(*http.Request, error) { p.malformed.Add(1) }),
	)
	return p, nil
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
	if r.Method == http.MethodConnect {
		http.Error(w, "CONNECT is for forward proxies", http.StatusMethodNotAllowed)
		return
	}
	s := p.state.Load()
	s.rules.Peek(r)
	what, err := s.rules.Stamp(live.Now(), r, s.names, s.trusts(r))
	if err != nil {
		p.malformed.Add(1)
	}
	r = remember(r, &what)
	if most := what.Use.AtOnce; most > 0 && !s.exempts(r) && s.cfg.Mode != live.Off {
		inside := &s.inside[what.Rule]
		defer inside.Add(-1)
		if n := inside.Add(1); n > int64(most) && p.crowded(s, w, r, what.Rule) {
			return
		}
	}
	if what.Deadline > 0 && !s.exempts(r) {
		ctx, cancel := context.WithTimeout(r.Context(), what.Deadline)
		defer cancel()
		r = r.WithContext(ctx)
	}
	if s.classes == nil && len(p.exits) == 0 || s.exempts(r) {
		p.handler.ServeHTTP(w, r)
		return
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
}

// has reports whether an upstream of that description is there.
func (s *state) has(u Upstream) bool {
	return slices.ContainsFunc(s.upstreams, func(up *upstream) bool { return up.cfg == u })
}

func (s *state) trusts(r *http.Request) bool { return s.trusted != nil && s.trusted(r) }

func (s *state) exempts(r *http.Request) bool { return s.exempt != nil && s.exempt(r) }

// Reload takes a new configuration while the proxy runs: mode, objective,
// upstreams, trust, exempt, health, workflows, rules, names, schedule, rates, slots,
// share and drain. An upstream that is as it was keeps its gate and what that has learned,
// unless objective, health, schedule, rates or slots say otherwise, or the workflows have
// become more than it has room for; its successor begins with as many slots. One
// that is gone finishes what it has. The other fields cannot change, and Reload
// returns the names of those that are different. Certificates whose files changed are read
// again, as they are every 10 s. With an error, nothing changed but these.
func (p *Proxy) Reload(cfg Config) (ignored []string, err error) {
	if err := check(cfg); err != nil {
		return nil, err
	}
	p.lookAtKeys()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase.Load() >= draining {
		return nil, errors.New("proxy: it is draining, so its configuration cannot change")
	}
	old := p.state.Load().cfg
	if !slices.Equal(old.Listen, cfg.Listen) {
		ignored = append(ignored, "listen")
	}
	if old.Admin != cfg.Admin {
		ignored = append(ignored, "admin")
	}
	if !slices.Equal(old.Egress, cfg.Egress) {
		ignored = append(ignored, "egress")
	}
	if old.Limits != cfg.WithDefaults().Limits {
		ignored = append(ignored, "limits")
	}
	cfg.Listen, cfg.Admin, cfg.Egress, cfg.Limits = old.Listen, old.Admin, old.Egress, old.Limits
	if err := p.applyLocked(cfg); err != nil {
		return nil, err
	}
	return ignored, nil
}

func (p *Proxy) apply(cfg Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applyLocked(cfg)
}

func (p *Proxy) applyLocked(cfg Config) error {
	cfg = cfg.WithDefaults()
	old := p.state.Load()
	next := &state{cfg: cfg, names: classify.NewNames(cfg.Names), inside: make([]atomic.Int64, len(cfg.Rules))}
	if old != nil && old.cfg.Names == cfg.Names {
		next.names = old.names
	}
	var err error
	if next.rules, err = classify.New(cfg.rules()); err != nil {
		return err
	}
	if cfg.Share.Order != NoClasses {
		if old != nil && old.classes != nil && slices.Equal(old.cfg.Share.Classes, cfg.Share.Classes) {
			next.classes = old.classes
		} else if next.classes, err = live.NewClasses(cfg.Share.classifier()); err != nil {
			return err
		}
	}
	if len(cfg.Trust) > 0 {
		next.trusted = httpgate.Networks(cfg.Trust...)
	}
	if len(cfg.Exempt) > 0 {
		next.exempt = httpgate.Paths(cfg.Exempt...)
	}
	var fresh, kept []*upstream
	for _, u := range cfg.Upstreams {
		slots := 0
		if old != nil {
			i := slices.IndexFunc(old.upstreams, func(have *upstream) bool { return have.cfg == u })
			if i >= 0 && old.upstreams[i].serves(&cfg) && old.upstreams[i].made.Slots == cfg.Slots {
				kept = append(kept, old.upstreams[i])
				next.upstreams = append(next.upstreams, old.upstreams[i])
				continue
			}
			if i >= 0 && old.cfg.Objective == cfg.Objective {
				slots = old.upstreams[i].gate.Stats().Limit
			}
		}
		up, err := p.newUpstream(cfg, u, slots)
		if err != nil {
			for _, f := range fresh {
				f.close()
			}
			return err
		}
		fresh = append(fresh, up)
		next.upstreams = append(next.upstreams, up)
	}
	for _, up := range fresh {
		if err := up.steer(&cfg, next.classes); err != nil { // cannot be: it was checked
			for _, f := range fresh {
				f.close()
			}
			return err
		}
	}
	for _, up := range kept {
		up.grant(&cfg)
		if err := up.steer(&cfg, next.classes); err != nil {
			p.log.Error("the weights of classes stay as they are", "upstream", up.name, "error", err)
		}
	}
	for _, up := range next.upstreams {
		up.tallies.list(cfg.Workflows)
		up.trace(&cfg)
	}
	p.state.Store(next)
	for _, up := range next.upstreams {
		up.gate.SetMode(cfg.Mode)
	}
	for _, up := range fresh {
		// Two gates may have one name for the moment in which one replaces the
		// other, so the new one is watched when the old one is not any more.
		if old != nil {
			for _, have := range old.upstreams {
				if have.name == up.name && !slices.Contains(next.upstreams, have) {
					have.stopWatching()
				}
			}
		}
		if err := up.watch(); err != nil {
			p.log.Error("metrics of upstream are missing", "upstream", up.name, "error", err)
		}
	}
	if old == nil {
		return nil
	}
	if old.cfg.Mode != cfg.Mode {
		p.log.Info("mode changed", "from", old.cfg.Mode.String(), "to", cfg.Mode.String())
	}
	for _, up := range old.upstreams {
		if !slices.Contains(next.upstreams, up) {
			if !next.has(up.cfg) {
				p.log.Info("upstream left", "upstream", up.name)
			}
			p.leaving.Go(func() { up.leave(p.stopped, old.cfg.Drain.Timeout) })
		}
	}
	for _, up := range fresh {
		if old.has(up.cfg) {
			p.log.Info("upstream has a new gate", "upstream", up.name, "slots", up.gate.Stats().Limit)
		} else {
			p.log.Info("upstream joined", "upstream", up.name, "url", redact(up.cfg.URL))
		}
	}
	return nil
}

// SetMode changes how far the gates' decisions go.
func (p *Proxy) SetMode(m live.Mode) error {
	cfg := p.state.Load().cfg
	cfg.Mode = m
	_, err := p.Reload(cfg)
	return err
}

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
	open := func(address string) net.Listener {
		l, err := net.Listen("tcp", address)
		if err != nil {
			errs = append(errs, fmt.Errorf("proxy: listen on %s: %w", address, err))
		}
		return l
	}
	for _, l := range cfg.Listen {
		if nl := open(l.Address); nl != nil {
			p.front = append(p.front, nl)
		}
	}
	for _, e := range cfg.Egress {
		if nl := open(e.Address); nl != nil {
			p.egress = append(p.egress, nl)
		}
	}
	if cfg.Admin != "" {
		p.admin = open(cfg.Admin)
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
	for _, x := range p.exits {
		x.close()
	}
	return p.metrics.Shutdown(context.Background())
}
