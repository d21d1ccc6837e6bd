package bed

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// plan is a world with its defaults filled in, whose names are resolved.
type plan struct {
	*world.World
	services map[string]*world.Service
}

// newPlan reports every mistake of a world.
func newPlan(w *world.World) (*plan, error) {
	var errs []error
	for _, mistake := range w.Check() {
		errs = append(errs, fmt.Errorf("bed: %w", mistake))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	p := &plan{World: w.WithDefaults(), services: map[string]*world.Service{}}
	for i := range p.Services {
		p.services[p.Services[i].Name] = &p.Services[i]
	}
	return p, nil
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
		p.load(ask.Target, ask.Weight/all, held, used)
	}
	least := math.Inf(1)
	for _, s := range p.Services {
		if t := held[s.Name]; t > 0 && s.Workers > 0 {
			least = min(least, float64(s.Workers*s.Replicas)/t.Seconds())
		}
	}
	for _, h := range p.Hosts {
		if t := used[h.Name]; t > 0 {
			least = min(least, float64(h.Processors)/t.Seconds())
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
			takes += step.Wait.Mean
		case step.Compute != nil:
			takes += step.Compute.Mean
			used[s.Host] += time.Duration(part * float64(step.Compute.Mean))
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

// weighed reports whether some workflows are to get more than others.
func (p *plan) weighed() bool {
	return slices.ContainsFunc(p.Clients, func(g world.Group) bool { return g.Share != 1 })
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
