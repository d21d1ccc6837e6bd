package rates

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// State is one workflow as an Adapter sees it.
type State struct {
	// Name is the workflow's, "" for the default one; Workflow its number.
	Name     string
	Workflow Workflow
	// Offered is the rate of first attempts that arrive, Demand what would arrive
	// if nobody upstream held any back, both in requests/s.
	Offered, Demand float64
	// Rate is the rate at which it may enter; Local what this process alone would
	// allow, Downstream what the tightest service below it does. NoLimit is none.
	Rate, Local, Downstream float64
	// Shared is how much of Rate the last decision gave to the processes that send such
	// requests, but for those of Tight, whose own limit is no part of it.
	Shared float64
	// Tight names the service that Downstream comes from, "" if none.
	Tight string
	// Held says that a service it calls has fallen silent, so that the last known
	// rate is kept.
	Held bool
	// Backlog counts the requests that wait at the limit. Latency is what one
	// takes from there on.
	Backlog int
	Latency time.Duration
}

// Limited reports whether the workflow has a limit.
func (s State) Limited() bool { return s.Rate < NoLimit }

// LinkState is what a workflow has with one downstream process.
type LinkState struct {
	// Service and Process name it.
	Service, Process string
	// Alpha is the number of calls to it per request.
	Alpha float64
	// Announced is the last rate it announced, in calls/s, and Age how long ago
	// that was; Heard is false if it never did.
	Announced float64
	Age       time.Duration
	Heard     bool
	// Quantile is where in the range of its service's rates the limit is taken.
	Quantile float64
}

// State returns what is known of a workflow, and false if it was forgotten.
func (a *Adapter) State(w Workflow) (State, bool) {
	f := a.flow(w)
	if f == nil {
		return State{}, false
	}
	s := State{
		Name: f.name, Workflow: w,
		Offered: f.offered, Demand: f.demand,
		Rate: f.sigma, Local: f.local, Downstream: f.down, Held: f.held,
		Backlog: f.limiter.backlog, Latency: time.Duration(f.limiter.latency * 1e9),
	}
	if f.tight >= 0 {
		s.Tight = a.services.rows[f.tight].key
	}
	for i := range f.sources {
		if src := &f.sources[i]; src.peer == 0 || a.serviceOf[src.peer] != f.tight {
			s.Shared += src.share
		}
	}
	return s, true
}

// AppendStates appends the states of all workflows, in the order of their
// numbers, the default one first.
func (a *Adapter) AppendStates(to []State) []State {
	for i, f := range a.flows {
		if f != nil {
			s, _ := a.State(Workflow(a.workflows.id(i)))
			to = append(to, s)
		}
	}
	return to
}

// AppendLinks appends what a workflow has with each process it calls, by service.
func (a *Adapter) AppendLinks(now mono.Time, w Workflow, to []LinkState) []LinkState {
	f := a.flow(w)
	if f == nil {
		return to
	}
	for b := range f.branches {
		for i := range f.branches[b].links {
			l := &f.branches[b].links[i]
			p := a.peers.rows[l.peer].key
			s := LinkState{Service: p.service, Process: p.process, Alpha: l.alpha, Heard: l.any, Quantile: f.branches[b].q}
			if l.any {
				s.Announced, s.Age = l.rate, now.Sub(l.at)
			}
			to = append(to, s)
		}
	}
	return to
}

// Load returns the smoothed use of a resource by all workflows, in busy seconds
// per second, and whether it is overloaded.
func (a *Adapter) Load(resource int) (load float64, overloaded bool) {
	if resource < 0 || resource >= len(a.resources) {
		return 0, false
	}
	return a.resources[resource].load, a.resources[resource].overloaded()
}
