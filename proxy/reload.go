package proxy

import (
	"errors"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
)

// Reload takes a new configuration while the proxy runs: mode, objective,
// upstreams, groups, trust, exempt, health, workflows, rules, names, schedule, rates, slots,
// share and drain. An upstream that is as it was keeps its gate and what that has learned, also
// if the objective changes. Where health, schedule, rates, slots or culprit change, or the workflows have
// become more than the gate has room for, it gets a new gate, which begins with what the old one learned
// of the server; clients that use credits begin anew. One
// that is gone finishes what it has. The other fields cannot change, and Reload
// returns the names of those that are different. Certificates whose files changed are read
// again, as they are every 10 s, and the files of the access log and of Culprit.Audit are opened again. With an error, nothing
// changed but these.
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
	if !reflect.DeepEqual(old.Listen, cfg.Listen) {
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
	p.reopen()
	if err := p.applyLocked(cfg); err != nil {
		return nil, err
	}
	return ignored, nil
}

// Reopen opens the files of the access log and of Culprit.Audit again, as Reload does, which takes no configuration that has
// a mistake: a log may be moved away all the same.
func (p *Proxy) Reopen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase.Load() >= draining {
		return
	}
	p.reopen()
	p.openAccess(p.state.Load().cfg.Access.Path)
}

// reopen has the next line of the audits open their files again; the lock is held.
func (p *Proxy) reopen() {
	for _, u := range p.state.Load().upstreams {
		u.gate.RenewAudit(u.audit.close)
	}
}

func (p *Proxy) apply(cfg Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.applyLocked(cfg)
}

// applyLocked makes cfg count for the next request. The lock is held.
func (p *Proxy) applyLocked(cfg Config) error {
	cfg = cfg.WithDefaults()
	old := p.state.Load()
	next, err := p.compile(cfg, old)
	if err != nil {
		return err
	}
	fresh, err := p.fill(next, old)
	if err != nil {
		return err
	}
	for _, up := range next.upstreams {
		up.tallies.list(cfg.Workflows)
		up.trace(&cfg)
	}
	p.openAccess(cfg.Access.Path)
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
		if phase := p.phase.Load(); phase == serving || phase == noticing {
			up.begin() // Run begins those that are there before
		}
	}
	if old != nil {
		p.replaced(old, next, fresh)
	}
	return nil
}

// compile returns the state of a configuration, without upstreams.
func (p *Proxy) compile(cfg Config, old *state) (*state, error) {
	next := &state{cfg: cfg, names: classify.NewNames(cfg.Names), inside: insideOf(cfg.Rules, old), groups: cfg.groups()}
	if old != nil && old.cfg.Names == cfg.Names {
		next.names = old.names
	}
	var err error
	if next.rules, err = classify.New(cfg.rules()); err != nil {
		return nil, err
	}
	if cfg.Share.Order != NoClasses {
		if old != nil && old.classes != nil && slices.Equal(old.cfg.Share.Classes, cfg.Share.Classes) {
			next.classes = old.classes
		} else if next.classes, err = live.NewClasses(cfg.Share.classifier()); err != nil {
			return nil, err
		}
	}
	for _, l := range cfg.Listen {
		next.sockets = next.sockets || l.Trusted
	}
	if len(cfg.Trust) > 0 {
		next.trusted = httpgate.Networks(cfg.Trust...)
	}
	if len(cfg.Exempt) > 0 {
		next.exempt = httpgate.Paths(cfg.Exempt...)
	}
	return next, nil
}

// insideOf returns the counts of requests inside by rule. A rule for the same requests as one
// that old has goes on with its count, so that AtOnce also holds for those that came before.
func insideOf(rules []classify.Rule, old *state) []*atomic.Int64 {
	counts := make([]*atomic.Int64, len(rules))
	taken := map[int]bool{} // rules of old
	for i := range rules {
		counts[i] = new(atomic.Int64)
		if old == nil {
			continue
		}
		for j := range old.cfg.Rules {
			if !taken[j] && reflect.DeepEqual(old.cfg.Rules[j].Match, rules[i].Match) {
				counts[i], taken[j] = old.inside[j], true
				break
			}
		}
	}
	return counts
}

// fill gives the groups of next their upstreams: those that old has where they serve, else
// fresh ones, which it returns.
func (p *Proxy) fill(next, old *state) (fresh []*upstream, err error) {
	defer func() {
		if err != nil {
			for _, up := range fresh {
				up.close()
			}
		}
	}()
	stays := map[*upstream]*group{}
	for _, g := range next.groups {
		if g.retries = old.budget(g.name); g.retries == nil {
			g.retries = &retries{}
		}
		for _, u := range p.expanded(g) {
			var learned *live.Learned
			have := old.find(g.name, u)
			if have != nil && have.serves(&g.cfg) && have.made.Slots == g.cfg.Slots {
				stays[have] = g
				g.upstreams = append(g.upstreams, have)
				continue
			}
			if have != nil {
				learned = have.gate.Learned()
			}
			up, err := p.newUpstream(g, u, learned)
			if err != nil {
				return fresh, err
			}
			fresh = append(fresh, up)
			g.upstreams = append(g.upstreams, up)
			if err := up.steer(&g.cfg, next.classes); err != nil { // cannot be: it was checked
				return fresh, err
			}
		}
		next.upstreams = append(next.upstreams, g.upstreams...)
	}
	for up, g := range stays {
		up.retune(&g.cfg)
		up.grant(&g.cfg)
		if err := up.steer(&g.cfg, next.classes); err != nil {
			p.log.Error("the weights of classes stay as they are", "upstream", up.name, "error", err)
		}
	}
	return fresh, nil
}

// replaced says in the log what next changed, and has those finish that left.
func (p *Proxy) replaced(old, next *state, fresh []*upstream) {
	log := p.log.Info
	if p.phase.Load() == starting {
		log = p.log.Debug // names that were looked up
	}
	if old.cfg.Mode != next.cfg.Mode {
		p.log.Info("mode changed", "from", old.cfg.Mode.String(), "to", next.cfg.Mode.String())
	}
	for _, up := range old.upstreams {
		if !slices.Contains(next.upstreams, up) {
			if next.find(up.group, up.cfg) == nil {
				log("upstream left", "upstream", up.name)
			}
			p.leaving.Go(func() { up.leave(p.stopped, old.cfg.Drain.Timeout) })
		}
	}
	for _, up := range fresh {
		if old.find(up.group, up.cfg) != nil {
			p.log.Info("upstream has a new gate", "upstream", up.name, "slots", up.gate.Stats().Limit)
		} else {
			log("upstream joined", "upstream", up.name, "url", redact(up.cfg.URL))
		}
	}
}

// SetMode changes how far the gates' decisions go.
func (p *Proxy) SetMode(m live.Mode) error {
	cfg := p.state.Load().cfg
	cfg.Mode = m
	_, err := p.Reload(cfg)
	return err
}
