package proxy

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/work"
)

// Workflow is what an operator grants the requests of one workflow, and what they
// have if nothing else says otherwise.
type Workflow struct {
	// Weight scales its share of the slots with Schedule.Fair, and its fair rate
	// with Rates. Default 1; from 0.001 to 1000. Larger gets more while others
	// wait; without others each gets all.
	Weight float64
	// Guarantee is a rate in requests/s below which Rates never limit it, whatever
	// the others want. Default 0. Larger takes more from the others when it wants
	// it; what it does not use goes to them. Not with rates.DominantFair.
	Guarantee float64
	// Deadline, Priority and Class are as in classify.Defaults.
	Deadline time.Duration
	Priority work.Priority
	Class    work.Class
}

// Schedule is the order in which requests wait for an upstream's slots.
type Schedule struct {
	// Order rules inside a workflow, or where Fair is false among all requests of a
	// class. Default schedule.FIFO.
	Order schedule.Order
	// Fair divides the slots among the workflows that wait, by their weights.
	// Without it a workflow that sends more gets more.
	Fair bool
	// NoTurns has a client that sends more get more. By default, clients take turns while requests wait, inside a
	// workflow or class and among those of one priority: addresses, of IPv6 networks of 64 bits. A request that comes
	// from a network under Config.Trust takes the turn of the client that X-Forwarded-For or Forwarded names, and where
	// they name none its connection takes turns of its own. There are no turns with OneFIFO in Share.
	NoTurns bool
	// Aging is the age from which a request goes ahead of priority and order.
	// Default 5 s. Smaller comes closer to first in, first out; larger lets the
	// order starve a request for longer.
	Aging time.Duration
}

// Rates is whether each workflow is held to a rate, that which the upstream and the
// services behind it can do of it: see package rates.
type Rates struct {
	// Enabled turns it on. Default off.
	Enabled bool
	// Policy divides what is short. Default rates.BottleneckFair.
	Policy rates.Policy
	// Period is the time between two decisions. Default 100 ms, from 1 ms to a
	// minute. Larger measures better and reacts later.
	Period time.Duration
	// Quantile is how the rates that the processes of one service announced become
	// one, up to 1, the largest. Default 0.5; negative is the smallest. Larger uses
	// more of the fast processes and has more refused by the slow ones.
	Quantile float64
	// IdleCost, above 0, searches for the best quantile: the cost of a request/s of
	// capacity that is left unused against one that is refused. Default 0, off.
	// Larger ends at larger quantiles. Not together with Quantile.
	IdleCost float64
}

const (
	// MaxNames is the largest Config.Names.
	MaxNames = classify.MaxNames
	// spareWorkflows is how many workflows a gate tells apart beyond those that are
	// listed and those that may come: of trusted senders, and of later reloads.
	spareWorkflows = 64
	maxIdleCost    = 1e6
	longestAging   = time.Hour
	longestPeriod  = time.Minute
)

// rules is the part of c that says what a request is.
func (c *Config) rules() classify.Config {
	out := classify.Config{Rules: c.Rules}
	if len(c.Workflows) > 0 {
		out.Workflows = make(map[string]classify.Defaults, len(c.Workflows))
		for name, w := range c.Workflows {
			out.Workflows[name] = classify.Defaults{Class: w.Class, Priority: w.Priority, Deadline: w.Deadline, Guarantee: w.Guarantee, Weight: w.Weight}
		}
	}
	return out
}

// inside is the name by which gates know a workflow.
func inside(name string) string {
	if name == classify.DefaultName {
		return ""
	}
	return name
}

// checkWorkflows finds the mistakes in workflows, rules, schedule and rates.
func (c *Config) checkWorkflows(wrong func(field, value, want string)) {
	c.rules().Check(wrong)
	for _, name := range slices.Sorted(maps.Keys(c.Workflows)) {
		field, w := "workflows."+name, c.Workflows[name]
		switch {
		case w.Weight == 0:
		case !(w.Weight >= schedule.MinWeight && w.Weight <= schedule.MaxWeight):
			wrong(field+".weight", number(w.Weight), fmt.Sprintf("%v to %v, or 0 for the default", schedule.MinWeight, schedule.MaxWeight))
		case !c.Schedule.Fair && !c.Rates.Enabled:
			wrong(field+".weight", number(w.Weight), "schedule.fair or rates.enabled to be true: without them nothing is divided by weight")
		}
		switch {
		case w.Guarantee == 0:
		case !(w.Guarantee > 0 && w.Guarantee < rates.NoLimit):
			wrong(field+".guarantee", number(w.Guarantee), fmt.Sprintf("0 or more requests/s and below %v", rates.NoLimit))
		case !c.Rates.Enabled:
			wrong(field+".guarantee", number(w.Guarantee), "rates.enabled to be true: without rates no workflow is limited")
		case c.Rates.Policy == rates.DominantFair:
			wrong(field+".guarantee", number(w.Guarantee), fmt.Sprintf("another rates.policy than %v, which knows no guarantees", rates.DominantFair))
		}
	}
	if n := c.Names; n < 0 || n > MaxNames {
		wrong("names", strconv.Itoa(n), fmt.Sprintf("0 to %d", MaxNames))
	}
	if o := c.Schedule.Order; o > schedule.LASF {
		wrong("schedule.order", strconv.Itoa(int(o)), "fifo, edf, lstf, sjf, srtf or lasf")
	}
	if a := c.Schedule.Aging; a < 0 || a > longestAging {
		wrong("schedule.aging", a.String(), fmt.Sprintf("0s to %v", longestAging))
	}
	r := c.Rates
	if r.Policy > rates.DominantFair {
		wrong("rates.policy", strconv.Itoa(int(r.Policy)), "bottleneck-fair, max-min-fair or dominant-fair")
	}
	if p := r.Period; p != 0 && (p < time.Millisecond || p > longestPeriod) {
		wrong("rates.period", p.String(), fmt.Sprintf("%v to %v, or 0 for the default", time.Millisecond, longestPeriod))
	}
	if !(r.Quantile <= 1) {
		wrong("rates.quantile", number(r.Quantile), "0 to 1")
	}
	if !(r.IdleCost >= 0 && r.IdleCost <= maxIdleCost) {
		wrong("rates.idle_cost", number(r.IdleCost), fmt.Sprintf("0 to %v", maxIdleCost))
	} else if r.IdleCost > 0 && r.Quantile != 0 {
		wrong("rates.idle_cost", number(r.IdleCost), "no quantile beside it: idle_cost searches for one")
	}
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// shares is what workflows get of the slots; those that are listed are told apart
// whatever else comes.
func (c *Config) shares() map[string]float64 {
	if !c.Schedule.Fair {
		return nil
	}
	all := make(map[string]float64, len(c.Workflows))
	for name, w := range c.Workflows {
		all[inside(name)] = weight(w)
	}
	return all
}

func weight(w Workflow) float64 {
	if w.Weight == 0 {
		return 1
	}
	return w.Weight
}

// gate describes the gate of an upstream.
func (c *Config) gate() admission.Config {
	out := admission.Config{Objective: c.Objective}
	out.Schedule = schedule.Config{Order: c.Schedule.Order, Fair: c.Schedule.Fair, Aging: c.Schedule.Aging, Workflows: c.told()}
	if r := c.Rates; r.Enabled {
		out.Rates = &rates.Config{Policy: r.Policy, Period: r.Period, Quantile: r.Quantile, IdleCost: r.IdleCost, Terms: c.terms(), MaxWorkflows: c.told()}
	}
	return out
}

// noTurns reports whether requests wait in no order but that of their workflow.
func (c *Config) noTurns() bool { return c.Schedule.NoTurns || c.Share.Order == OneFIFO }

// told is how many workflows a gate tells apart.
func (c *Config) told() int { return len(c.Workflows) + c.Names + spareWorkflows }

// terms is what rates grant the workflows; nil without rates.
func (c *Config) terms() map[string]rates.Terms {
	if !c.Rates.Enabled {
		return nil
	}
	all := make(map[string]rates.Terms, len(c.Workflows))
	for name, w := range c.Workflows {
		all[inside(name)] = rates.Terms{Weight: weight(w), Guarantee: w.Guarantee}
	}
	return all
}

// serves reports whether the gate serves next as well, once it is told: see grant and retune.
func (u *upstream) serves(next *Config) bool {
	c := &u.made
	// A workflow that had a share once keeps its place in the gate.
	places := len(u.shared)
	if next.Schedule.Fair || next.Rates.Enabled {
		for name := range next.Workflows {
			if !u.shared[inside(name)] {
				places++
			}
		}
	}
	return c.Health == next.Health && c.Schedule == next.Schedule && c.noTurns() == next.noTurns() && c.Rates == next.Rates && c.Culprit == next.Culprit &&
		places+next.Names <= c.told()-spareWorkflows/2
}

// retune gives the gate the objective of next. It keeps what it has learned.
func (u *upstream) retune(next *Config) {
	was, is := u.gate.Objective(), next.Objective
	if was == is {
		return
	}
	if err := u.gate.SetObjective(is); err != nil { // cannot be: it was checked
		u.p.log.Error("the objective stays as it is", "upstream", u.name, "error", err)
		return
	}
	if old, ok := (*u.calls.Swap(u.caller(is))).(interface{ Retire() }); ok {
		old.Retire()
	}
	if k := u.base.keeper; k != nil {
		k.retune(is)
	}
	u.p.log.Info("objective changed", "upstream", u.name, "from", was, "to", is, "slots", u.gate.Stats().Limit)
}

// caller returns what sends requests to the server, for an objective. The wait for credits of the upstream comes
// on top of that in the gate, and an answer after the objective helps no client. The gate limits what is sent before the
// first answer, which a server that is asked for long polls may take seconds to give.
func (u *upstream) caller(objective time.Duration) *http.RoundTripper {
	wallet := credit.WalletConfig{MaxWait: objective * 4 / 5, FirstFlight: credit.WindowLimit}
	t := httpgate.Transport(u.base, httpgate.KeepHeader(), httpgate.CountCalls(u.gate.Calls()), httpgate.Wallet(wallet))
	return &t
}

// grant gives the gate the shares and terms of next. Workflows that next does not
// list have from now on what nobody granted them.
func (u *upstream) grant(next *Config) {
	shares := next.shares()
	for name := range u.shared {
		if _, stays := shares[name]; !stays {
			u.gate.SetShare(name, 1)
		}
	}
	for name, share := range shares {
		u.gate.SetShare(name, share)
		u.shared[name] = true
	}
	if next.Rates.Enabled {
		if err := u.gate.SetTerms(next.terms()); err != nil { // cannot be: they were checked
			u.p.log.Error("weights and guarantees are not taken", "upstream", u.name, "error", err)
		}
	}
}

// finite is false for what no metric can show.
func finite(x float64) bool { return !math.IsInf(x, 0) && !math.IsNaN(x) }
