package guard

import (
	"errors"
	"fmt"
	"slices"
)

// Reload has the guards of a running set take what another configuration says of rules, mode,
// caps, minimum ages, kill switches and texts, all of it or nothing; what they have learned
// stays. Each takes it with its next look, before that decides; a mode or a rule that forbids counts at once. It returns the keys whose change needs a restart.
func (s *Set) Reload(cfg SetConfig) (ignored []string, err error) {
	var errs []error
	for _, m := range cfg.Check() {
		errs = append(errs, m)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	differ := func(same bool, key string) {
		if !same {
			ignored = append(ignored, key)
		}
	}
	differ(cfg.Admin == s.cfg.Admin, "guard.admin")
	differ(cfg.Audit == s.cfg.Audit, "guard.audit")
	differ(len(cfg.Servers) == len(s.guards), "guard.servers")
	for i := range cfg.Servers {
		c := cfg.Servers[i].withDefaults()
		k := slices.IndexFunc(s.cfg.Servers, func(was Config) bool { return was.withDefaults().Name == c.Name })
		if k < 0 {
			differ(false, fmt.Sprintf("guard.servers[%d]", i))
			continue
		}
		for _, key := range s.guards[k].reload(c, s.cfg.Servers[k].withDefaults()) {
			differ(false, fmt.Sprintf("guard.servers[%d].%s", i, key))
		}
	}
	return ignored, nil
}

// reload has the guard, which began with a configuration, take another with its next look, and
// returns the keys that it does not take.
func (g *Guard) reload(c, was Config) (ignored []string) {
	differ := func(same bool, key string) {
		if !same {
			ignored = append(ignored, key)
		}
	}
	differ(c.URL == was.URL, "url")
	differ(c.PasswordFile == was.PasswordFile, "password_file")
	differ(c.Objective == was.Objective, "slo")
	differ(c.Period == was.Period, "period")
	c.Name, c.URL, c.PasswordFile, c.Objective, c.Period = was.Name, was.URL, was.PasswordFile, was.Objective, was.Period
	g.next.Store(&c)
	return ignored
}

// takeNext takes the configuration of the last reload, and reports false if there is none.
func (g *Guard) takeNext() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.next.Swap(nil)
	if c == nil {
		return false
	}
	g.cfg = *c
	return true
}
