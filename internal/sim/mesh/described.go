package mesh

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// described is what a world.World says beyond what the rest of a Config holds.
type described struct {
	world *world.World // with its defaults
}

// Describe returns the Config of a world under a control, or every mistake in the
// world. Clients give requests up at their deadlines, and callers tell those whom they
// called. Control.GiveUp, Cancel, Share and Queue are not used.
func Describe(w *world.World, ctl Control, seed uint64) (Config, error) {
	var errs []error
	for _, m := range w.Check() {
		errs = append(errs, m)
	}
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	full := w.WithDefaults()
	ctl.GiveUp, ctl.Cancel, ctl.Share, ctl.Queue = true, true, nil, nil
	cfg := Config{Seed: seed, Control: ctl, Network: Network{Delay: full.Network.Delay}, Timeout: -1,
		Warmup: full.Warmup, Length: full.Length, described: &described{world: full}}
	if cfg.Network.Delay == 0 {
		cfg.Network.Delay = -1
	}
	f := flattener{services: map[string]*world.Service{}}
	for i := range full.Services {
		s := &full.Services[i]
		f.services[s.Name] = s
		resources := []Resource{{Name: "workers", Capacity: s.Workers}}
		for _, l := range s.Locks {
			resources = append(resources, Resource{l.Name, l.Permits})
		}
		cfg.Services = append(cfg.Services, Service{Name: s.Name, Processes: s.Replicas, Objective: s.Objective, Resources: resources})
	}
	for i := range full.Clients {
		g := &full.Clients[i]
		if g.Cycle > 0 {
			return Config{}, fmt.Errorf("mesh: clients[%d].cycle: %d, expected 0: what simulated requests ask for does not repeat", i, g.Cycle)
		}
		load, err := loadOf(full, i)
		if err != nil {
			return Config{}, err
		}
		group := Group{Name: g.Name, Load: load, Tenants: 1, Flood: g.Kind >= world.Greedy, Retry: Retry{Budget: g.Retry.Budget},
			Clients: max(g.Clients*g.Connections, g.Load.Users)}
		for k, a := range g.Ask {
			name := fmt.Sprintf("%d/%d", i, k)
			group.Mix = append(group.Mix, Part{name, a.Weight})
			cfg.Workflows = append(cfg.Workflows, Workflow{Name: name, Root: f.stage(a.Target), Deadline: Deadline{After: max(g.Deadline, 0)}, Patience: g.GiveUp})
		}
		cfg.Groups = append(cfg.Groups, group)
	}
	return cfg, nil
}

// flattener makes trees of stages from methods that call each other. Check bounds
// their size.
type flattener struct{ services map[string]*world.Service }

func (f *flattener) stage(at world.Target) Stage {
	s := f.services[at.Service]
	var m *world.Method
	for i := range s.Methods {
		if s.Methods[i].Name == at.Method {
			m = &s.Methods[i]
		}
	}
	out := Stage{Service: at.Service, kind: m.Name}
	works := s.Workers > 0 && !m.Idle
	if works && !s.Async {
		out.Steps = append(out.Steps, Step{Hold: true})
	}
	out.Steps = append(out.Steps, Step{begin: true})
	for _, step := range m.Steps {
		to := Step{Wait: step.Wait, Compute: step.Compute}
		if len(step.Call) == 0 {
			out.Steps = append(out.Steps, held(to, step.Lock, works && s.Async)...)
			continue
		}
		for _, target := range step.Call {
			to.Parallel = true
			to.Calls = append(to.Calls, Call{Stage: f.stage(target)})
		}
		out.Steps = append(out.Steps, to)
	}
	return out
}

// held puts what is held for a step around it: a lock, and in it a worker.
func held(step Step, lock string, worker bool) []Step {
	all := []Step{step}
	if worker {
		all = []Step{{Hold: true}, step, {Free: true}}
	}
	if lock != "" {
		all = append(append([]Step{{Hold: true, Resource: lock}}, all...), Step{Free: true, Resource: lock})
	}
	return all
}

// maxChanges bounds the changes of a group's rate. More are refused.
const maxChanges = 5_000_000

// loadOf returns what group i sends, with rates in requests per second.
func loadOf(w *world.World, i int) (Load, error) {
	l := &w.Clients[i].Load
	switch {
	case l.Users > 0:
		return Closed(l.Users, l.Think), nil
	case len(l.Arrivals) > 0:
		return Load{Trace: l.Arrivals}, nil
	}
	capacity := 0.0
	rate := func(r *world.Rate) float64 {
		if r.PerSecond > 0 || r.Times == 0 {
			return r.PerSecond
		}
		if capacity == 0 {
			capacity = w.Capacity(i)
		}
		return r.Times * capacity
	}
	var steps []Change
	between := 0.0
	for k := range l.Steps {
		s := &l.Steps[k]
		end := w.Length
		if k+1 < len(l.Steps) {
			end = l.Steps[k+1].At
		}
		now := rate(s)
		if math.IsInf(now, 0) {
			return Load{}, fmt.Errorf("mesh: group %q sends %v times the capacity, expected a rate per second, for nothing limits the capacity", w.Clients[i].Name, s.Times)
		}
		if s.For == 0 {
			steps, between = append(steps, Change{At: s.At, Rate: now}), now
			continue
		}
		for at := s.At; at < end; at += s.Every {
			steps = append(steps, Change{At: at, Rate: now})
			if at+s.For < min(end, at+s.Every) {
				steps = append(steps, Change{At: at + s.For, Rate: between})
			}
			if len(steps) > maxChanges {
				return Load{}, fmt.Errorf("mesh: the rate of group %q changes more than %d times, expected fewer bursts", w.Clients[i].Name, maxChanges)
			}
		}
	}
	return Load{Steps: steps}, nil
}

// place puts p on its host.
func (w *World) place(p *process) {
	d := w.cfg.described
	if d == nil {
		return
	}
	p.peer = 1<<40 + uint64(p.id)
	if w.hosts == nil {
		w.openHosts(d.world.Hosts)
	}
	p.throng.law = d.world.Services[p.service].Contention
	for i := range d.world.Hosts {
		if d.world.Hosts[i].Name == d.world.Services[p.service].Host {
			p.host = w.hosts[i]
		}
	}
}

// batched reports whether resource number i of p is a lock for batches.
func (w *World) batched(p *process, i int) bool {
	d := w.cfg.described
	return d != nil && i > 0 && d.world.Services[p.service].Locks[i-1].Batch
}

func (w *World) openHosts(hosts []world.Host) {
	for i := range hosts {
		h := &host{processors: hosts[i].Processors, message: float64(max(hosts[i].Message, 0))}
		for range h.processors {
			h.idle = append(h.idle, int32(len(w.cores)))
			w.cores = append(w.cores, core{host: h})
		}
		w.hosts = append(w.hosts, h)
	}
}

// ungated reports whether nothing stands in front of p.
func (w *World) ungated(p *process) bool {
	d := w.cfg.described
	return d != nil && d.world.Services[p.service].Ungated
}

// deaf reports whether p works on although the caller has given up.
func (w *World) deaf(p *process) bool {
	d := w.cfg.described
	return d != nil && d.world.Services[p.service].Deaf
}

// handleDescribed handles the events of described worlds.
func (w *World) handleDescribed(ev event) {
	switch ev.kind {
	case groupArrival:
		w.groupArrival(ev.who)
	case joinNetwork:
		w.clients[ev.who].joined = true
		w.join(ev.who)
		w.churn(ev.who)
	case endSlice:
		w.endSliceOf(ev.who, ev.arg)
	case endWait:
		if c := w.calls[ev.who]; c.gen == ev.arg && c.state == working && c.ends == w.Now() {
			w.passed(c)
		}
	case endThronged:
		w.leaveThrong(w.processes[ev.who], ev.arg)
	case faultBegins:
		w.faultBegins(ev.who)
	case faultEnds:
		w.faultEnds(ev.who)
	case endChore:
		w.endChoreOf(w.processes[ev.who], ev.arg)
	case hangUp:
		w.hangUp(w.links[ev.who])
	case depart:
		w.departs(ev.who)
	case rejoinNetwork:
		w.rejoins(ev.who, ev.arg == 1)
	case endTallyBin:
		w.noteLimits()
	}
}

// startDescribed schedules what a described world does by itself.
func (w *World) startDescribed() error {
	d := w.cfg.described
	if d == nil {
		return nil
	}
	w.startTally(d.world)
	for i := range d.world.Faults {
		w.engine.At(origin.Add(d.world.Faults[i].At), event{faultBegins, int32(i), 0})
	}
	for i := range d.world.Clients {
		w.startGroup(int32(i))
	}
	return w.err
}

// joins returns how long after the start connection k of a group of n connects.
func joins(g *world.Group, k, n int) time.Duration {
	return time.Duration(float64(g.Arrive) * float64(k) / float64(n))
}
