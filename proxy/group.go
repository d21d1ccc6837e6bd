package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
)

// MaxGroups is the most groups of one proxy: a request may be compared with each.
const MaxGroups = 64

// Group is upstreams for a part of the requests, each of which can serve that part. What
// one group suffers costs the others nothing: each upstream has its own gate, requests are
// balanced inside their group, and its health and its retries count there alone.
type Group struct {
	// Name is what logs, metrics and the status page call it. Required, another for each.
	Name string
	// Hosts and Paths say which requests are the group's, by the patterns of
	// classify.Match; no hosts are all of them, and so are no paths. The first group that
	// matches has the request. At least one of both.
	Hosts, Paths []string
	// Objective is the latency objective of the group. Default Config.Objective.
	Objective time.Duration
	// Upstreams are the servers of the group. At least one.
	Upstreams []Upstream
	// Slots are how many requests each of them works on at once. Default Config.Slots.
	Slots Slots
	// Health says when one of them is passed over. Default Config.Health.
	Health Health
}

// of returns the configuration of a group's upstreams.
func (c Config) of(g *Group) Config {
	c.Upstreams = g.Upstreams
	if g.Objective != 0 {
		c.Objective = g.Objective
	}
	if g.Slots != (Slots{}) {
		c.Slots = g.Slots
	}
	if g.Health != (Health{}) {
		c.Health = g.Health.withDefaults()
	}
	c.Groups = nil
	return c
}

// checkGroups finds the mistakes in groups. names are those of upstreams that stand
// elsewhere, with their fields.
func (c *Config) checkGroups(wrong func(field, value, want string), names map[string]string) {
	if n := len(c.Groups); n > MaxGroups {
		wrong("groups", strconv.Itoa(n)+" groups", fmt.Sprintf("at most %d", MaxGroups))
	}
	taken := map[string]string{}
	for i := range c.Groups {
		g, field := &c.Groups[i], fmt.Sprintf("groups[%d]", i)
		switch first, dup := taken[g.Name]; {
		case g.Name == "":
			wrong(field+".name", "", "a name for logs and metrics")
		case g.Name == classify.DefaultName:
			wrong(field+".name", quote(g.Name), "another name: this one is of requests that no group matches")
		case len(g.Name) > maxName:
			wrong(field+".name", quote(g.Name), fmt.Sprintf("at most %d bytes", maxName))
		case dup:
			wrong(field+".name", quote(g.Name), "a name of its own: "+first+" has it")
		}
		taken[g.Name] = field
		if len(g.Hosts)+len(g.Paths) == 0 {
			wrong(field, "", "host or path: requests that no group matches go to upstreams")
		}
		classify.CheckRoute(wrong, field, g.Hosts, g.Paths)
		if d := g.Objective; d != 0 && (d < time.Millisecond || d > time.Hour) {
			wrong(field+".slo", d.String(), fmt.Sprintf("%v to %v, or 0 for that of all", time.Millisecond, time.Hour))
		}
		if len(g.Upstreams) == 0 {
			wrong(field+".upstreams", "", "at least one server, for example http://127.0.0.1:9000")
		}
		checkUpstreams(wrong, field+".upstreams", g.Upstreams, names)
		g.Slots.check(wrong, field+".slots")
		g.Health.check(wrong, field+".health")
	}
}

// group is the upstreams that a part of the requests has to choose from.
type group struct {
	name      string // "" of those that no route leads to
	cfg       Config // of it
	route     *classify.Route
	upstreams []*upstream
	retries   *retries
}

// groups returns the groups of a configuration, without upstreams yet: those with a route
// in their order, and last the one of all other requests, if there is one.
func (c *Config) groups() (all []*group) {
	for i := range c.Groups {
		g := &c.Groups[i]
		all = append(all, &group{name: g.Name, cfg: c.of(g), route: classify.NewRoute(g.Hosts, g.Paths)})
	}
	if len(c.Upstreams) > 0 {
		all = append(all, &group{cfg: *c})
	}
	return all
}

// group returns the group of a request, nil if there is none for it.
func (s *state) group(r *http.Request) *group {
	for _, g := range s.groups {
		if g.route == nil || g.route.Match(r) {
			return g
		}
	}
	return nil
}

// members returns the upstreams of the group of that name.
func (s *state) members(name string) []*upstream {
	for _, g := range s.groups {
		if g.name == name {
			return g.upstreams
		}
	}
	return nil
}

// budget returns the retries of the group of that name, nil if s has none. s may be nil.
func (s *state) budget(name string) *retries {
	if s != nil {
		for _, g := range s.groups {
			if g.name == name {
				return g.retries
			}
		}
	}
	return nil
}

// expanded returns the upstreams of a group, of names with Resolve one for each address.
// The lock is held.
func (p *Proxy) expanded(g *group) (all []Upstream) {
	for _, u := range g.cfg.Upstreams {
		all = append(all, p.names.expand(u)...)
	}
	return all
}

// routed reports whether there is a group for r, and answers it where there is none.
func (p *Proxy) routed(s *state, w http.ResponseWriter, r *http.Request) bool {
	if len(s.groups) == 1 && s.groups[0].route == nil || s.group(r) != nil {
		return true
	}
	p.unrouted.Add(1)
	if isGRPC(r) {
		httpgate.WriteGRPCStatus(w, status.New(codes.Unimplemented, "no group of upstreams is configured for the method"))
	} else {
		httpgate.Problem(w, r, http.StatusNotFound, "No group of upstreams is configured for the host and path")
	}
	return false
}
