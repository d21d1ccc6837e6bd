package bed

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spillgate/spillgate/internal/world"
)

// plan is a world with its defaults filled in, whose names are resolved.
type plan struct {
	*world.World
	services map[string]*world.Service
}

// newPlan reports every mistake of a world, and what real processes do not do.
func newPlan(w *world.World) (*plan, error) {
	var errs []error
	for _, mistake := range w.Check() {
		errs = append(errs, fmt.Errorf("bed: %w", mistake))
	}
	for i := range w.Clients {
		if w.Clients[i].Patient {
			errs = append(errs, fmt.Errorf("bed: clients[%d].patient: true, expected false: real callers leave at their deadline", i))
		}
		if w.Clients[i].Churn != (world.Churn{}) {
			errs = append(errs, fmt.Errorf("bed: clients[%d].churn: %+v, expected none: connections of real clients stay", i, w.Clients[i].Churn))
		}
		if w.Clients[i].Kind == world.Minting {
			errs = append(errs, fmt.Errorf("bed: clients[%d].kind: minting, expected credits, plain or greedy: real clients keep their connections", i))
		}
	}
	if n := w.Network; n.LoseGrant > 0 || n.RepeatGrant > 0 || n.DelayGrant > 0 {
		errs = append(errs, fmt.Errorf("bed: network: shares of grants are %v, %v, %v, expected 0: real connections lose none", n.LoseGrant, n.RepeatGrant, n.DelayGrant))
	}
	for i := range w.Services {
		if slices.ContainsFunc(w.Services[i].Locks, func(l world.Lock) bool { return l.Batch }) {
			errs = append(errs, fmt.Errorf("bed: services[%d].locks: a lock with batch: true, expected none: real processes have no batches", i))
		}
		if w.Services[i].Contention != (world.Contention{}) {
			errs = append(errs, fmt.Errorf("bed: services[%d].contention: %+v, expected none: the waits of real processes are timers, which do not know of each other", i, w.Services[i].Contention))
		}
	}
	for i := range w.Faults {
		if w.Faults[i].Vanish > 0 {
			errs = append(errs, fmt.Errorf("bed: faults[%d].vanish: %v, expected 0: connections of real clients do not vanish", i, w.Faults[i].Vanish))
		}
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

// weighed reports whether workflows have different weights.
func (p *plan) weighed() bool {
	return slices.ContainsFunc(p.Clients, func(g world.Group) bool { return g.Share != 1 })
}

// waits reports whether the services of a world mostly wait. Their processes may then take
// a processor at once, whatever else the machine does; those that keep processors busy must
// leave some of them to the system: to the thread, for one, that delivers packets when
// there are many. Twelve processes that took turns woke their workers so late that 12 to
// 23 % of what singles took was waste; at once it is 0.2 to 3 % (lab run d3g/dynamic-live).
func (p *plan) waits() bool {
	return !slices.ContainsFunc(p.Services, func(s world.Service) bool { return computes(&s) })
}

// alone reports whether the services of a world are one process.
func (p *plan) alone() bool { return len(p.Services) == 1 && p.Services[0].Replicas == 1 }

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
