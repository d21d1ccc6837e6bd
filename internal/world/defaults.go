package world

import (
	"cmp"
	"slices"
	"time"
)

// DefaultMessage is the default of Host.Message.
const DefaultMessage = 20 * time.Microsecond

// WithDefaults returns a copy of w in which every field that has its default's zero
// value holds the default. The copy shares traces and points with w, and nothing
// else. It expects a world that Check accepts.
func (w *World) WithDefaults() *World {
	out := *w
	out.Hosts = slices.Clone(w.Hosts)
	for i := range out.Hosts {
		h := &out.Hosts[i]
		h.Message = cmp.Or(h.Message, DefaultMessage)
	}
	out.Services = slices.Clone(w.Services)
	for i := range out.Services {
		s := &out.Services[i]
		s.Replicas = cmp.Or(s.Replicas, 1)
		s.Objective = cmp.Or(s.Objective, w.Objective)
		s.Locks = slices.Clone(s.Locks)
		for k := range s.Locks {
			s.Locks[k].Permits = cmp.Or(s.Locks[k].Permits, 1)
		}
		s.Methods = slices.Clone(s.Methods)
		for k := range s.Methods {
			m := &s.Methods[k]
			m.Steps = slices.Clone(m.Steps)
			for n := range m.Steps {
				step := &m.Steps[n]
				step.Wait, step.Compute = step.Wait.withMean(), step.Compute.withMean()
				step.Call = slices.Clone(step.Call)
			}
		}
	}
	out.Clients = slices.Clone(w.Clients)
	for i := range out.Clients {
		out.Clients[i].fill(w.Objective)
	}
	out.Faults = slices.Clone(w.Faults)
	return &out
}

// fill replaces the zero values of g, whose slices it copies.
func (g *Group) fill(objective time.Duration) {
	g.Clients = cmp.Or(g.Clients, 1)
	g.Connections = cmp.Or(g.Connections, 1)
	g.Deadline = cmp.Or(g.Deadline, objective)
	g.Retry.Attempts = cmp.Or(g.Retry.Attempts, 1)
	g.Workflow = cmp.Or(g.Workflow, g.Name)
	g.Share = cmp.Or(g.Share, 1)
	g.Ask = slices.Clone(g.Ask)
	for i := range g.Ask {
		g.Ask[i].Weight = cmp.Or(g.Ask[i].Weight, 1)
	}
	g.Load.Steps = slices.Clone(g.Load.Steps)
}

// withMean returns a copy of d that has a mean, also if it is weighted.
func (d *Draw) withMean() *Draw {
	if d == nil {
		return nil
	}
	out := *d
	if d.Shape == Weighted {
		sum, weights := 0.0, 0.0
		for _, p := range d.Points {
			sum += p.Weight * float64(p.Value)
			weights += p.Weight
		}
		out.Mean = time.Duration(sum / weights)
	}
	return &out
}
