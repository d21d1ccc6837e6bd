package bed

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// plan is a world whose names are resolved and whose defaults are filled in.
type plan struct {
	world.World
	services map[string]*world.Service
	hosts    map[string]*world.Host
}

// newPlan reports all that keeps a world from being played here.
func newPlan(w *world.World) (*plan, error) {
	p := &plan{World: *w, services: map[string]*world.Service{}, hosts: map[string]*world.Host{}}
	p.Services, p.Clients = slices.Clone(w.Services), slices.Clone(w.Clients)
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("bed: "+format, args...)) }
	if w.Objective <= 0 || w.Length <= w.Warmup || w.Warmup < 0 {
		wrong("objective %v, warm-up %v, length %v; expected above 0, from 0 on, above the warm-up", w.Objective, w.Warmup, w.Length)
	}
	if len(w.Services) == 0 || len(w.Clients) == 0 {
		wrong("%d services and %d groups of clients, expected at least one of each", len(w.Services), len(w.Clients))
	}
	for i := range w.Hosts {
		p.hosts[w.Hosts[i].Name] = &w.Hosts[i]
	}
	for i := range p.Services {
		s := &p.Services[i]
		s.Replicas = max(s.Replicas, 1)
		if s.Objective == 0 {
			s.Objective = w.Objective
		}
		p.services[s.Name] = s
		if p.hosts[s.Host] == nil && s.Host != "" {
			wrong("service %q is on host %q, which there is not", s.Name, s.Host)
		}
	}
	for i := range p.Clients {
		p.group(&p.Clients[i], wrong)
	}
	for _, s := range p.Services {
		for _, m := range s.Methods {
			p.steps(s.Name+"."+m.Name, m.Steps, wrong)
		}
	}
	for _, f := range p.Faults {
		if p.services[f.Service] == nil {
			wrong("a fault happens to service %q, which there is not", f.Service)
		}
	}
	return p, errors.Join(errs...)
}

func (p *plan) steps(name string, steps []world.Step, wrong func(string, ...any)) {
	for i, step := range steps {
		for _, to := range step.Call {
			if p.method(to) == nil {
				wrong("step %d of %s calls %s.%s, which there is not", i+1, name, to.Service, to.Method)
			}
		}
	}
}

func (p *plan) group(g *world.Group, wrong func(string, ...any)) {
	g.Clients, g.Connections = max(g.Clients, 1), max(g.Connections, 1)
	if g.Deadline == 0 {
		g.Deadline = p.Objective
	}
	if len(g.Ask) == 0 {
		wrong("group %q asks for nothing", g.Name)
	}
	for _, ask := range g.Ask {
		if p.method(ask.Target) == nil {
			wrong("group %q asks for %s.%s, which there is not", g.Name, ask.Service, ask.Method)
		}
	}
}

// method returns a method, nil if there is none.
func (p *plan) method(t world.Target) *world.Method {
	s := p.services[t.Service]
	if s == nil {
		return nil
	}
	for i := range s.Methods {
		if s.Methods[i].Name == t.Method {
			return &s.Methods[i]
		}
	}
	return nil
}

// capacity returns the requests per second of what a group asks that the workers and
// the processors of the world can do, +Inf if nothing bounds them. It counts no
// message: what they cost is the machine's affair.
func (p *plan) capacity(g *world.Group) float64 {
	held, used := map[string]time.Duration{}, map[string]time.Duration{}
	all := 0.0
	for _, ask := range g.Ask {
		all += ask.Weight
	}
	for _, ask := range g.Ask {
		part := 1.0
		if all > 0 {
			part = ask.Weight / all
		}
		p.load(ask.Target, part, held, used)
	}
	least := math.Inf(1)
	for _, s := range p.Services {
		if t := held[s.Name]; t > 0 && s.Workers > 0 {
			least = min(least, float64(s.Workers*s.Replicas)/t.Seconds())
		}
	}
	for _, h := range p.Hosts {
		if t := used[h.Name]; t > 0 {
			least = min(least, float64(max(h.Processors, 1))/t.Seconds())
		}
	}
	return least
}

// load adds the time for which part of a request holds workers, by service, and
// processors, by host. It returns how long the request takes on the whole.
func (p *plan) load(t world.Target, part float64, held, used map[string]time.Duration) (takes time.Duration) {
	m, s := p.method(t), p.services[t.Service]
	for _, step := range m.Steps {
		switch {
		case step.Wait != nil:
			takes += mean(step.Wait)
		case step.Compute != nil:
			takes += mean(step.Compute)
			used[s.Host] += time.Duration(part * float64(mean(step.Compute)))
		default:
			longest := time.Duration(0)
			for _, call := range step.Call {
				longest = max(longest, p.load(call, part, held, used))
			}
			takes += longest
		}
	}
	if !m.Idle {
		held[s.Name] += time.Duration(part * float64(takes))
	}
	return takes
}

// computes reports whether a service uses processors for its work.
func computes(s *world.Service) bool {
	for _, m := range s.Methods {
		for _, step := range m.Steps {
			if step.Compute != nil {
				return true
			}
		}
	}
	return false
}
