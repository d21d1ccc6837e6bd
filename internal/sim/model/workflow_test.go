package model_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim/model"
	"github.com/spillgate/spillgate/internal/work"
)

// shared is a server under a policy for its workflows, from its cold start on.
func shared(seed uint64, policy model.Policy, groups ...model.Group) model.Config {
	return model.Config{
		Seed: seed, Policy: policy, Objective: sharedObjective, GiveUp: true,
		Length: 12 * time.Second, Warmup: 4 * time.Second,
		Server: sharedServer, Network: model.Network{Delay: 100 * time.Microsecond},
		Groups: groups,
	}
}

const sharedObjective = 100 * time.Millisecond

var sharedServer = model.Server{Cores: 4, Service: model.Service{Mean: 5 * time.Millisecond}, Message: 20 * time.Microsecond}

// goodput is what was answered in time at a shared server, of its capacity.
func goodput(r *model.Report) float64 {
	return float64(r.Total.Good) / r.Seconds / sharedServer.Capacity()
}

// TestWorkflowsHoldTheirShares: one workflow asks for a third of what there is, the
// other for four times of it. With rates the second is held back at the gate, and
// the first does not notice; a fair queue alone does it as well. Nor is the second
// locked out of what is left, if it asks for fifteen times of it.
func TestWorkflowsHoldTheirShares(t *testing.T) {
	capacity := sharedServer.Capacity()
	for _, c := range []struct {
		name     string
		schedule schedule.Config
		rates    *rates.Config
		plain    bool
		greedy   float64 // of the capacity, offered
		modest   float64 // of its load, served in time
		all      float64 // of the capacity
		byRate   float64 // of what the other is refused by the server
	}{
		{"rates", schedule.Config{}, &rates.Config{}, true, 4, 0.97, 0.88, 0.9},
		{"fair", schedule.Config{Fair: true}, nil, true, 4, 0.97, 0.95, 0},
		{"rates and fair", schedule.Config{Fair: true}, &rates.Config{}, true, 4, 0.98, 0.88, 0.9},
		{"rates and fair at fifteen times", schedule.Config{Fair: true}, &rates.Config{}, true, 15, 0.98, 0.75, 0.9},
		{"rates, fair and credits", schedule.Config{Fair: true}, &rates.Config{}, false, 4, 0.95, 0.88, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			policy := model.Gated(c.name, admission.Config{Objective: sharedObjective, Schedule: c.schedule, Rates: c.rates, NoCredit: c.plain}, credit.WalletConfig{})
			if c.plain {
				policy.Sender = plain().Sender
			}
			report := run(t, shared(1, policy,
				model.Group{Name: "modest", Clients: 10, Load: model.Constant(capacity / 3)},
				model.Group{Name: "greedy", Clients: 10, Load: model.Constant(c.greedy * capacity)}))
			modest, greedy := report.Groups[0], report.Groups[1]
			if got := float64(modest.Good) / float64(modest.Offered); got < c.modest {
				t.Errorf("the modest workflow got %.3f of its load, want at least %v; refused %v", got, c.modest, modest.Refused)
			}
			if got := goodput(report); got < c.all {
				t.Errorf("goodput is %.3f of the capacity, want at least %v", got, c.all)
			}
			if refused := greedy.RefusedByServer(); float64(greedy.Refused[work.Rate]+greedy.Refused[work.Infeasible]) < c.byRate*float64(refused) {
				t.Errorf("the greedy workflow was refused for %v, want %v of it for its rate", greedy.Refused, c.byRate)
			}
		})
	}
}

// TestAWorkflowAloneIsNotLockedOut: at the start nobody knows the server, and the first
// requests take seven times the objective. All that comes later waits for its rate, so
// if it were refused by that forecast, nothing would ever correct it.
func TestAWorkflowAloneIsNotLockedOut(t *testing.T) {
	policy := model.Gated("rates", admission.Config{Objective: sharedObjective, Rates: &rates.Config{}, NoCredit: true}, credit.WalletConfig{})
	policy.Sender = plain().Sender
	for seed := range uint64(8) {
		report := run(t, shared(seed, policy, model.Group{Name: "alone", Clients: 10, Load: model.Constant(4 * sharedServer.Capacity())}))
		if got := goodput(report); got < 0.85 {
			t.Errorf("seed %d: goodput is %.3f of the capacity, want at least 0.85; refused %v", seed, got, report.Total.Refused)
		}
	}
}
