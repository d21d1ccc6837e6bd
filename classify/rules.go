package classify

import (
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/etcd/keyrange"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Facts are what rules look at. All of it comes from outside.
type Facts struct {
	// Method, Host and Path are those of HTTP. A gRPC call is a POST to its full
	// method. Host may have a port. Path is canonical (internal/urlpath).
	Method, Host, Path string
	// Peer is where the connection begins; the zero Addr is in no network.
	Peer netip.Addr
	// Header is spelt as net/http does, X-Tenant, or, with Lower, as gRPC does:
	// x-tenant. It is not kept.
	Header map[string][]string
	Lower  bool
	// Trusted says that the edge trusts the sender with Claims.
	Trusted bool
	// Claims is what the request says about itself.
	Claims Rank
	// Message is the first message of a gRPC call, or its beginning; nil if the edge did not read it.
	Message []byte
}

// Rank is a place among requests.
type Rank struct {
	// Workflow is empty for the default one.
	Workflow string
	Class    work.Class
	Priority work.Priority
}

// Result is what a request is.
type Result struct {
	Rank
	// Deadline is the time from the arrival after which the answer is useless, for
	// a request that brought none; 0 is none.
	Deadline time.Duration
	// Rule is the place of the rule that matched, -1 if none did; of a path that servers read in several ways that of one of
	// those that did.
	Rule int
	// Objective is that of the rule that matched, 0 if it has none, and Use what that rule
	// says of the server: see Set.
	Objective time.Duration
	Use       Use
	// Ruled says that a rule set the class.
	Ruled bool
	// Bound are the rules that matched and have a Use.AtOnce, which the request counts with: several if servers read its path
	// in several ways. Use.AtOnce is the smallest.
	Bound Places
}

// Places is a set of rules, by their places.
type Places [MaxRules / 64]uint64

// Has reports whether the rule in that place, from 0 to MaxRules-1, is one of them.
func (p *Places) Has(rule int) bool { return p[rule/64]>>(rule%64)&1 != 0 }

// Rules is a compiled Config. It never changes, so its methods may be called at
// once from any goroutine.
type Rules struct {
	rules     []rule
	workflows map[string]Defaults
	rest      Defaults
	any       bool // a rule has AnyBaggage
	peeks     bool // a rule looks at messages
}

type rule struct {
	headers []header
	paths   []path
	methods []string
	hosts   []host
	peers   []netip.Prefix
	baggage Baggage
	etcd    []string // prefixes that a range covers
	set     Set
	named   bool   // set.Workflow is there, the default one perhaps
	from    header // set.WorkflowHeader
}

type header struct {
	canonical, lower string
	value            string // empty: any
}

func newHeader(name, value string) header {
	return header{textproto.CanonicalMIMEHeaderKey(name), strings.ToLower(name), value}
}

// in returns the values in a request.
func (h *header) in(f *Facts) []string {
	if f.Lower {
		return f.Header[h.lower]
	}
	return f.Header[h.canonical]
}

// New compiles cfg, or returns every mistake in it.
func New(cfg Config) (*Rules, error) {
	if err := cfg.err(); err != nil {
		return nil, err
	}
	r := &Rules{workflows: make(map[string]Defaults, len(cfg.Workflows)), rest: cfg.Workflows[DefaultName]}
	for name, d := range cfg.Workflows {
		if name != DefaultName {
			r.workflows[name] = d
		}
	}
	for _, from := range cfg.Rules {
		m := &from.Match
		to := rule{methods: slices.Clone(m.Method), peers: slices.Clone(m.Peer), baggage: m.Baggage, etcd: slices.Clone(m.EtcdRange), set: from.Set, named: from.Set.Workflow != ""}
		if to.set.Workflow == DefaultName {
			to.set.Workflow = ""
		}
		to.set.Class, to.set.Priority = clone(to.set.Class), clone(to.set.Priority)
		for _, h := range m.Header {
			to.headers = append(to.headers, newHeader(h.Name, h.Value))
		}
		for _, p := range m.Path {
			to.paths = append(to.paths, newPath(p))
		}
		for _, h := range m.Host {
			to.hosts = append(to.hosts, newHost(h))
		}
		if name := from.Set.WorkflowHeader; name != "" {
			to.from = newHeader(name, "")
		}
		r.any = r.any || m.Baggage == AnyBaggage
		r.peeks = r.peeks || len(m.EtcdRange) > 0
		r.rules = append(r.rules, to)
	}
	return r, nil
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// Listed reports whether name is one of the workflows of the Config; the empty
// name is.
func (r *Rules) Listed(name string) bool {
	_, ok := r.workflows[name]
	return ok || name == ""
}

// Classify says what a request is. names, which may be nil, has the workflows that
// are not listed and told apart nevertheless; without it the result depends on
// nothing but the rules and the facts. It does not allocate, but for a new name.
func (r *Rules) Classify(now mono.Time, f *Facts, names *Names) Result {
	for i := range r.rules {
		if c := &r.rules[i]; c.matchPath(f) && c.match(f) {
			return r.by(i, now, f, names)
		}
	}
	return r.by(-1, now, f, names)
}

// by is Classify where the rule in that place matched, none if it is negative.
func (r *Rules) by(rule int, now mono.Time, f *Facts, names *Names) Result {
	out := Result{Rule: rule}
	var set Set
	believed := f.Trusted
	outside := false // the name is a stranger's choice
	if rule >= 0 {
		c := &r.rules[rule]
		set = c.set
		if c.baggage == AnyBaggage && !believed {
			believed, outside = true, true
		}
	}
	var claims Rank
	if believed {
		claims = f.Claims
	}
	switch {
	case out.Rule >= 0 && set.WorkflowHeader != "":
		claims.Workflow, outside = "", true
		if v := r.rules[out.Rule].from.in(f); len(v) == 1 { // of two, which one?
			claims.Workflow = v[0]
		}
	case out.Rule >= 0 && r.rules[out.Rule].named:
		claims.Workflow, outside = set.Workflow, false
	}
	out.Workflow = claims.Workflow
	if !wire.ValidWorkflow(out.Workflow) || out.Workflow == DefaultName {
		out.Workflow = ""
	}
	if out.Workflow != "" && outside && !r.Listed(out.Workflow) && !names.Keep(now, out.Workflow) {
		out.Workflow = ""
	}
	defaults := r.defaults(out.Workflow)
	out.Class, out.Priority, out.Deadline = defaults.Class, defaults.Priority, defaults.Deadline
	if claims.Class != work.Default && claims.Class < work.NumClasses {
		out.Class = claims.Class
	}
	if claims.Priority != 0 {
		out.Priority = min(claims.Priority, work.MaxPriority)
	}
	if set.Class != nil {
		out.Class, out.Ruled = *set.Class, true
	}
	if set.Priority != nil {
		out.Priority = *set.Priority
	}
	if set.Deadline != 0 {
		out.Deadline = set.Deadline
	}
	out.Objective, out.Use = set.Objective, set.Use
	if set.Use.AtOnce > 0 {
		out.Bound[rule/64] |= 1 << (rule % 64)
	}
	return out
}

// defaults is what the requests of a workflow have, listed or not.
func (r *Rules) defaults(workflow string) Defaults {
	if d, ok := r.workflows[workflow]; ok {
		return d
	}
	return r.rest
}

// granted is what a workflow has a Guarantee and a Weight by. One that is not listed has what nobody granted it.
func (r *Rules) granted(workflow string) Defaults {
	if workflow == "" {
		return r.rest
	}
	return r.workflows[workflow]
}

// match reports whether a request meets all conditions of c but for that of its path.
func (c *rule) match(f *Facts) bool {
	switch c.baggage {
	case TrustedBaggage:
		if !f.Trusted || f.Claims == (Rank{}) {
			return false
		}
	case AnyBaggage:
		if f.Claims == (Rank{}) {
			return false
		}
	}
	return c.matchMethod(f) && c.matchHost(f) && c.matchPeer(f) && c.matchHeader(f) && c.matchEtcd(f)
}

func (c *rule) matchMethod(f *Facts) bool {
	return len(c.methods) == 0 || slices.Contains(c.methods, f.Method)
}

func (c *rule) matchPath(f *Facts) bool {
	for i := range c.paths {
		if c.paths[i].match(f.Path) {
			return true
		}
	}
	return len(c.paths) == 0
}

func (c *rule) matchHost(f *Facts) bool {
	if len(c.hosts) == 0 {
		return true
	}
	name := hostname(f.Host)
	for i := range c.hosts {
		if c.hosts[i].match(name) {
			return true
		}
	}
	return false
}

func (c *rule) matchPeer(f *Facts) bool {
	for _, p := range c.peers {
		if p.Contains(f.Peer) {
			return true
		}
	}
	return len(c.peers) == 0
}

func (c *rule) matchHeader(f *Facts) bool {
	for i := range c.headers {
		h := &c.headers[i]
		v := h.in(f)
		if h.value == "" && len(v) > 0 || len(v) == 1 && v[0] == h.value {
			return true
		}
	}
	return len(c.headers) == 0
}

// matchEtcd reports whether a range of the request covers one of the prefixes.
func (c *rule) matchEtcd(f *Facts) bool {
	if len(c.etcd) == 0 {
		return true
	}
	return !keyrange.Each(f.Path, f.Message, func(r keyrange.Range) bool {
		for _, prefix := range c.etcd {
			if r.Covers(prefix) {
				return false
			}
		}
		return true
	})
}
