package rates

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Policy divides what is short at this process among the workflows that use it.
type Policy uint8

const (
	// BottleneckFair limits no workflow until a resource is overloaded, and then gives
	// each workflow its max-min fair share of that resource. When the overload
	// has passed it raises the limits step by step until they do not bind.
	BottleneckFair Policy = iota
	// MaxMinFair limits at all times: each workflow to its max-min fair share of
	// every resource's capacity. It needs true capacities and no overload to act.
	MaxMinFair
	// DominantFair limits at all times: the workflows' dominant shares, each the
	// largest of its shares of the resources, are made max-min fair (Ghodsi et
	// al., NSDI 2011).
	DominantFair

	numPolicies
)

// String names p as configurations and tests do.
func (p Policy) String() string {
	switch p {
	case BottleneckFair:
		return "bottleneck-fair"
	case MaxMinFair:
		return "max-min-fair"
	case DominantFair:
		return "dominant-fair"
	}
	return "unknown"
}

// Resource is something in this process that workflows contend for.
type Resource struct {
	// Name is for people.
	Name string
	// Capacity is how much of it can be in use at a time: workers, or permits.
	// Required. Pressure.Capacity may change it later.
	Capacity float64
}

// Terms are what an operator grants one workflow. The zero Terms are those of a
// workflow nobody named.
type Terms struct {
	// Weight scales the workflow's fair share. Default 1; at most 1e6.
	Weight float64
	// Guarantee is a rate in requests/s that this process never limits the
	// workflow below, whatever the others want. What the workflow does not use of
	// it goes to them. Default 0. Guarantees that exceed the capacity take all of
	// it. DominantFair knows none.
	Guarantee float64
}

// Config describes an Adapter. Only Resources is required; zero fields take the
// default named in their comment.
type Config struct {
	// Resources are what this process can be short of, at least one, at most 16.
	// OnUse and Signals name them by their place here. Required.
	Resources []Resource
	// Service and Process name this process as its peers do. Calls that it makes
	// to itself limit nothing. May be empty if it makes none.
	Service, Process string
	// Policy divides what is short. Default BottleneckFair.
	Policy Policy
	// Terms are the weights and guarantees of workflows, by name.
	Terms map[string]Terms
	// Period is the time between two decisions. Default 100 ms, as in the paper.
	// Larger measures better and reacts later; at least 1 ms.
	Period time.Duration
	// Quantile is how the rates that the processes of one service announced
	// become one: 0 is the smallest, 1 the largest. Default 0.5, the median;
	// negative means 0. Larger uses more of the fast processes and has more
	// refused by the slow ones.
	Quantile float64
	// IdleCost turns on the search for the best quantile, per workflow and
	// service: it is the weight of a request/s of unused capacity against one
	// that is refused. The search starts from IdleCost/(1+IdleCost) instead of
	// Quantile. Default 0: off. Larger ends at larger quantiles.
	IdleCost float64
	// Headroom is the share of a resource's load that is not handed out again
	// while it is overloaded, so that its queue drains. Default 0.05; negative
	// means none. Larger drains faster and leaves more unused; at most 0.5. While
	// there are credits nothing is kept back, but more handed out: the queue is theirs
	// to keep short, and what is held back at the entries must not leave it empty.
	Headroom float64
	// Hold is how many periods the limits stay as they are after an overload,
	// before they are raised. Default 3. Larger is steadier and fills up later.
	Hold int
	// Probe is by how much a limit is raised per period at a process that is
	// idle, in requests/s; at a busy one it is raised by the idle share of that,
	// and workflows that are raised together divide it. Default a tenth of what
	// the capacity could do of the workflow alone. Larger fills up faster and
	// overshoots more.
	Probe float64
	// Stale is how many periods an announced rate and a claimed demand count
	// after they were heard. Default 3. Larger bridges sparser replies and
	// believes in a silent process for longer.
	Stale int
	// Forget is how long a workflow, a peer or a pair of them is remembered
	// without being heard of. Default 30 s; at least Stale periods. A silent
	// downstream service holds down its callers for as long.
	Forget time.Duration
	// MaxWorkflows bounds the workflows told apart, the default one included.
	// Default 256, at most 65,535. Those beyond it share the default workflow.
	MaxWorkflows int
	// MaxPeers bounds the upstream and downstream processes told apart. Default
	// 1,024, at most 65,535. Beyond it the one not heard of for longest is
	// forgotten for a new one. A workflow and a peer that it meets take about 100
	// bytes.
	MaxPeers int
	// WaitShare is the part of its budget that a request may wait at the limit, for
	// its turn and for its token, up to 1, as in the paper. Default 0.5, because fresh
	// requests use the rate as well and have all of their time left. What passes has to
	// queue and be served further on, as long as those before it did and by chance longer;
	// and those are the ones that came through. At 1, requests enter with nothing to spare:
	// with a leaf at twice its capacity, 9 % of it came in time (simulation). At 0.05, what
	// a burst brings is refused that there would be time for once it is over: of bursts of
	// three times the capacity 29 instead of 31 % were in time (wisp/trace).
	WaitShare float64
	// MaxWait is the longest shaping wait of a request without a deadline.
	// Default 1 s. Larger keeps more waiting; what would wait longer is refused as
	// work.Rate.
	MaxWait time.Duration
	// QueueLimit is the most requests of one workflow that wait, a bound on
	// memory. Default 10,000. One more is refused as work.QueueFull.
	QueueLimit int
}

const (
	resourceLimit = 16
	idLimit       = math.MaxUint16
	weightLimit   = 1e6
)

// check reports every mistake in c.
func (c Config) check() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("rates: "+format, args...))
	}
	if len(c.Resources) == 0 || len(c.Resources) > resourceLimit {
		wrong("there are %d Resources, expected 1 to %d: name what this process can be short of, for example its workers", len(c.Resources), resourceLimit)
	}
	for _, r := range c.Resources {
		if !(r.Capacity > 0) || math.IsInf(r.Capacity, 0) {
			wrong("Capacity of resource %q is %v, expected above 0 and finite: the workers or permits it has", r.Name, r.Capacity)
		}
	}
	if c.Policy >= numPolicies {
		wrong("Policy is %d, expected 0 to %d", c.Policy, numPolicies-1)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Terms)) {
		t := c.Terms[name]
		if !(t.Weight >= 0 && t.Weight <= weightLimit) {
			wrong("Weight of workflow %q is %v, expected above 0 and at most %v, or 0 for the default", name, t.Weight, weightLimit)
		}
		if !(t.Guarantee >= 0 && t.Guarantee < NoLimit) {
			wrong("Guarantee of workflow %q is %v, expected 0 or more requests/s and below %v", name, t.Guarantee, NoLimit)
		}
		if t.Guarantee > 0 && c.Policy == DominantFair {
			wrong("Guarantee of workflow %q is %v, expected 0 with the policy %v", name, t.Guarantee, c.Policy)
		}
	}
	if c.Period != 0 && c.Period < time.Millisecond {
		wrong("Period is %v, expected at least 1ms, or 0 for the default", c.Period)
	}
	if !(c.Quantile <= 1) {
		wrong("Quantile is %v, expected at most 1, 0 for the default, negative for the smallest rate", c.Quantile)
	}
	if !(c.IdleCost >= 0) || math.IsInf(c.IdleCost, 1) {
		wrong("IdleCost is %v, expected 0 or more and finite", c.IdleCost)
	}
	if !(c.Headroom <= 0.5) {
		wrong("Headroom is %v, expected at most 0.5, 0 for the default, negative for none", c.Headroom)
	}
	if !(c.Probe >= 0) || math.IsInf(c.Probe, 1) {
		wrong("Probe is %v, expected above 0 requests/s and finite, or 0 for the default", c.Probe)
	}
	if c.Hold < 0 || c.Stale < 0 {
		wrong("Hold and Stale are %d and %d, expected 1 or more periods, or 0 for the defaults", c.Hold, c.Stale)
	}
	if c.Forget < 0 || c.MaxWait < 0 {
		wrong("Forget and MaxWait are %v and %v, expected above 0, or 0 for the defaults", c.Forget, c.MaxWait)
	}
	if !(c.WaitShare >= 0 && c.WaitShare <= 1) {
		wrong("WaitShare is %v, expected above 0 and at most 1, or 0 for the default", c.WaitShare)
	}
	if c.MaxWorkflows < 0 || c.MaxWorkflows > idLimit || c.MaxPeers < 0 || c.MaxPeers > idLimit {
		wrong("MaxWorkflows and MaxPeers are %d and %d, expected 1 to %d, or 0 for the defaults", c.MaxWorkflows, c.MaxPeers, idLimit)
	}
	if c.QueueLimit < 0 {
		wrong("QueueLimit is %d, expected 1 or more requests, or 0 for the default", c.QueueLimit)
	}
	return errors.Join(errs...)
}

// withDefaults returns c with its defaults filled in, or every mistake in it.
func (c Config) withDefaults() (Config, error) {
	if err := c.check(); err != nil {
		return c, err
	}
	c.Terms = maps.Clone(c.Terms)
	if c.Period == 0 {
		c.Period = 100 * time.Millisecond
	}
	switch {
	case c.IdleCost > 0:
		c.Quantile = bestQuantile(c.IdleCost)
	case c.Quantile == 0:
		c.Quantile = 0.5
	}
	c.Quantile = max(c.Quantile, 0)
	if c.Headroom == 0 {
		c.Headroom = 0.05
	}
	c.Headroom = max(c.Headroom, 0)
	if c.Hold == 0 {
		c.Hold = 3
	}
	if c.Stale == 0 {
		c.Stale = 3
	}
	if c.Forget == 0 {
		c.Forget = 30 * time.Second
	}
	c.Forget = max(c.Forget, time.Duration(c.Stale)*c.Period)
	if c.MaxWorkflows == 0 {
		c.MaxWorkflows = 256
	}
	if c.MaxPeers == 0 {
		c.MaxPeers = 1024
	}
	if c.WaitShare == 0 {
		c.WaitShare = 0.5
	}
	if c.MaxWait == 0 {
		c.MaxWait = time.Second
	}
	if c.QueueLimit == 0 {
		c.QueueLimit = 10_000
	}
	return c, nil
}
