package mesh

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Config describes a world. Services, Workflows, Groups and Length are required.
type Config struct {
	// Seed is the source of all chance. Any value.
	Seed uint64
	// Services are the nodes of the call graph.
	Services []Service
	// Headroom is the objective of services that have none, as a multiple of the mean
	// time that the longest workflow takes from there on when it is alone. Default 10.
	Headroom float64
	// Workflows are the ways through it.
	Workflows []Workflow
	// Groups are the clients.
	Groups []Group
	// Control is what decides. Zero: nothing does.
	Control Control
	// Network lies between any two processes, and clients and processes.
	Network Network
	// Timeout is how long the caller of any call waits for the answer. Default
	// 10 s (Wisp §6); negative: for ever.
	Timeout time.Duration
	// Faults happen at their instants.
	Faults []Fault
	// Warmup is the time from the start of which requests are not counted in the
	// totals, though in the bins. Default 0.
	Warmup time.Duration
	// Length is the simulated time, warm-up included.
	Length time.Duration
	// Bin is the length of the bins of the report. Default 0: no bins.
	Bin time.Duration
	// RatesOf names services whose processes' rates are put into the bins.
	RatesOf []string
	// Log, if not nil, gets a line per event. Errors of writing are returned by
	// Report.
	Log io.Writer
	// Event, if not nil, is called after every event, for checks. It must not
	// change anything.
	Event func(w *World)
	// Hooks watch doors, for checks.
	Hooks Hooks

	described *described // nil: not made by Describe
}

// Service is a number of like processes.
type Service struct {
	// Name is required, unique.
	Name string
	// Processes is how many there are. Default 1.
	Processes int
	// Resources are what requests contend for at each process. Default one worker.
	Resources []Resource
	// Pick is how callers choose the process. Default RoundRobin.
	Pick Pick
	// Objective is the latency objective of the service, downstream included, for
	// controls that need one. Default: see Config.Headroom.
	Objective time.Duration
}

// Resource is a pool of workers, a semaphore or a pool of connections.
type Resource struct {
	Name string
	// Capacity is its units. Default 1.
	Capacity int
}

func (s *Service) resource(name string) int {
	for i, r := range s.Resources {
		if r.Name == name {
			return i
		}
	}
	return -1
}

// Pick is how a caller chooses among the processes of a service. Processes that
// the caller knows to be down are passed over.
type Pick uint8

const (
	// RoundRobin takes turns, per caller, from a random start.
	RoundRobin Pick = iota
	// AtRandom draws.
	AtRandom
	// ByTenant always takes the same one for a tenant: rendezvous hashing.
	ByTenant
	// LeastOutstanding takes the one to which the caller has the fewest calls
	// outstanding.
	LeastOutstanding
)

// Network is the way between any two nodes.
type Network struct {
	// Delay is the time each way. Default 100 µs; negative: none.
	Delay time.Duration
}

// Group is a number of like clients.
type Group struct {
	// Name labels results.
	Name string
	// Mix are the workflows that the clients ask for. Default all, alike.
	Mix []Part
	// Load is what all clients of the group together mean to send.
	Load Load
	// Clients is how many callers send an open load, each with connections of
	// its own. Default 1.
	Clients int
	// Tenants is how many tenants the requests are for, drawn evenly. Default
	// 100.
	Tenants int
	// Retry is how clients try again. Zero: never.
	Retry Retry
	// Flood makes the clients ignore their Sender, and retry what is not
	// retryable, without a budget.
	Flood bool
}

// Part is the share of a workflow in a mix.
type Part struct {
	Workflow string
	Weight   float64
}

// Retry is how clients try again after a failure that is retryable.
type Retry struct {
	// Max is the most retries of a request. Zero: none.
	Max int
	// Budget is the share of successes that may be retried. Default 0.1.
	Budget float64
	// Backoff is the mean of the wait before the first retry; it doubles each
	// time and is drawn between half and one and a half. Default 10 ms.
	Backoff time.Duration
}

// Fault is something that happens to a service at an instant.
type Fault struct {
	// At is the time from the start.
	At time.Duration
	// Service is whose processes are struck: the one numbered Process, or all if
	// Process is negative.
	Service string
	Process int
	// Speed, if above 0, becomes the speed of work that starts from now on; 1 is
	// nominal.
	Speed float64
	// Kill, if above 0, kills the process with all its state for so long.
	// Callers see their connections break.
	Kill time.Duration
}

func (c *Config) withDefaults() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("mesh: "+format, args...)) }
	services := c.checkServices(bad)
	workflows := map[string]bool{}
	if len(c.Workflows) == 0 {
		bad("Workflows is empty, expected at least one")
	}
	for i := range c.Workflows {
		f := &c.Workflows[i]
		if f.Name == "" || workflows[f.Name] {
			bad("workflow %d is named %q, expected a name of its own", i, f.Name)
		}
		workflows[f.Name] = true
		f.Root.check(f.Name, services, 1, bad)
		if d := f.Deadline; !d.valid() {
			bad("workflow %q has the deadline %+v, expected one of its fields above 0, or none", f.Name, d)
		}
		if f.Class > NonInteractive || f.Patience < 0 {
			bad("workflow %q has the class %d and the patience %v, expected a Kind and 0 or more", f.Name, f.Class, f.Patience)
		}
	}
	c.checkGroups(workflows, bad)
	if l := c.Control.Lottery; !(l >= 0 && l <= 1) || l > 0 && (c.Control.Queue != nil || c.Control.Share != nil) {
		bad("Control.Lottery is %v, expected 0 to 1, and 0 with Queue or Share", l)
	}
	if !(c.Headroom >= 0 && c.Headroom <= maxMultiple) {
		bad("Headroom is %v, expected 0 to %v", c.Headroom, maxMultiple)
	}
	c.checkRun(services, bad)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	switch {
	case c.Network.Delay == 0:
		c.Network.Delay = 100 * time.Microsecond
	case c.Network.Delay < 0:
		c.Network.Delay = 0
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Headroom == 0 {
		c.Headroom = 10
	}
	return nil
}

// checkRun checks the faults, and what is measured when.
func (c *Config) checkRun(services map[string]*Service, bad func(string, ...any)) {
	for _, f := range c.Faults {
		s := services[f.Service]
		if s == nil || f.Process >= s.Processes || f.At < 0 || !(f.Speed >= 0) || math.IsInf(f.Speed, 0) || f.Kill < 0 {
			bad("fault %+v names no process, or has a value out of range, expected times and speeds of 0 or more", f)
		}
	}
	for _, name := range c.RatesOf {
		if services[name] == nil {
			bad("RatesOf names %q, expected the name of a service", name)
		}
	}
	if c.Length <= 0 || c.Warmup < 0 || c.Warmup >= c.Length || c.Bin < 0 {
		bad("Length is %v, Warmup %v, Bin %v, expected Length above Warmup, and none negative", c.Length, c.Warmup, c.Bin)
	}
	if c.Bin > 0 && c.Length/c.Bin > maxBins {
		bad("Bin is %v for a Length of %v, expected at most %d bins", c.Bin, c.Length, maxBins)
	}
}

// maxMultiple bounds deadlines and objectives in multiples. A larger one is refused.
const maxMultiple = 1e6

func (d Deadline) valid() bool {
	set := 0
	for _, is := range []bool{d.After > 0, d.Multiple > 0, d.Typical > 0} {
		if is {
			set++
		}
	}
	return set <= 1 && d.After >= 0 && d.Multiple >= 0 && d.Multiple <= maxMultiple && d.Typical >= 0 && d.Typical <= maxMultiple
}

// maxProcesses bounds the processes of a service, and the units of a resource.
// More are refused.
const maxProcesses = 1 << 20

// maxBins bounds the bins of a report. More are refused.
const maxBins = 100_000

func (c *Config) checkServices(bad func(string, ...any)) map[string]*Service {
	services := map[string]*Service{}
	c.Services = append([]Service(nil), c.Services...)
	if len(c.Services) == 0 {
		bad("Services is empty, expected at least one")
	}
	for i := range c.Services {
		s := &c.Services[i]
		if s.Name == "" || services[s.Name] != nil {
			bad("service %d is named %q, expected a name of its own", i, s.Name)
		}
		services[s.Name] = s
		if s.Processes < 0 || s.Processes > maxProcesses || s.Objective < 0 || s.Pick > LeastOutstanding {
			bad("service %q has %d processes, the objective %v, and picks by %d, expected up to %d processes, 0 or more, and a Pick", s.Name, s.Processes, s.Objective, s.Pick, maxProcesses)
		}
		s.Processes = max(s.Processes, 1)
		if len(s.Resources) == 0 {
			s.Resources = []Resource{{Name: "workers"}}
		}
		s.Resources = append([]Resource(nil), s.Resources...)
		for k := range s.Resources {
			r := &s.Resources[k]
			if r.Capacity < 0 || r.Capacity > maxProcesses || s.resource(r.Name) != k {
				bad("resource %q of %q has the capacity %d, expected 1 or more, or 0 for 1, and a name of its own", r.Name, s.Name, r.Capacity)
			}
			r.Capacity = max(r.Capacity, 1)
		}
	}
	return services
}

func (c *Config) checkGroups(workflows map[string]bool, bad func(string, ...any)) {
	if len(c.Groups) == 0 {
		bad("Groups is empty, expected at least one group of clients")
	}
	c.Groups = append([]Group(nil), c.Groups...)
	for i := range c.Groups {
		g := &c.Groups[i]
		if len(g.Mix) == 0 {
			for _, f := range c.Workflows {
				g.Mix = append(g.Mix, Part{f.Name, 1})
			}
		}
		sum := 0.0
		for _, p := range g.Mix {
			if !workflows[p.Workflow] || !(p.Weight >= 0) || math.IsInf(p.Weight, 0) {
				bad("group %q has the part %+v, expected the name of a workflow and a weight of 0 or more", g.Name, p)
			}
			sum += p.Weight
		}
		if len(g.Mix) > 0 && !(sum > 0) {
			bad("group %q has a mix whose weights sum to %v, expected above 0", g.Name, sum)
		}
		if err := g.Load.check(); err != nil {
			bad("group %q: %w", g.Name, err)
		}
		if g.Clients < 0 || g.Clients > maxUsers || g.Tenants < 0 || g.Retry.Max < 0 || g.Retry.Backoff < 0 || !(g.Retry.Budget >= 0) {
			bad("group %q has a negative number, or more than %d clients", g.Name, maxUsers)
		}
		g.Clients = max(g.Clients, 1)
		if g.Load.closed() && c.described == nil {
			g.Clients = g.Load.most()
		}
		if g.Tenants == 0 {
			g.Tenants = 100
		}
		if g.Retry.Budget == 0 {
			g.Retry.Budget = 0.1
		}
		if g.Retry.Backoff == 0 {
			g.Retry.Backoff = 10 * time.Millisecond
		}
	}
}
