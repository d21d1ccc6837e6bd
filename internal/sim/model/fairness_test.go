package model_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/none"
	"github.com/spillgate/spillgate/internal/sim/model"
)

// TestNobodyTakesMoreThanItsShare: 90 clients that behave beside 10 that send too
// much, in three ways. Shares are of what the server executed in time, so that
// the processor time that a flood's refusals cost is nobody's. A client that always
// has requests ready uses its equal share of the credits all the time, and one
// whose requests come by chance does not; so a tenth of the clients may get more
// than a tenth.
func TestNobodyTakesMoreThanItsShare(t *testing.T) {
	tests := []struct {
		name   string
		kind   model.Kind
		honest float64 // load of the 90, in capacities
		others float64 // load of the 10
		atMost float64 // share of the 10
		// atLeast is the share of their own load that the 90 get served, where
		// they ask for less than they could have.
		atLeast float64
	}{
		{"heavy but obedient, beside light clients", model.Honest, 0.5, 2, 0.6, 0.95},
		{"heavy but obedient, beside as many as there is room for", model.Honest, 1.5, 2, 0.2, 0},
		{"ignores its window", model.Flooding, 1.5, 2, 0.2, 0},
		{"floods at five times the capacity", model.Flooding, 1.5, 5, 0.35, 0},
		{"a new connection for each request, beside light clients", model.Minting, 0.5, 2, 0.6, 0.95},
		{"a new connection for each request", model.Minting, 1.5, 2, 0.15, 0},
	}
	server := model.Server{Cores: 10, Service: model.Service{Mean: 10 * time.Microsecond}}
	policy := gated(200 * time.Microsecond)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var honest, others, offered int
			for seed := range uint64(3) { // one alone is off by up to 0.005
				report := run(t, model.Config{
					Seed: seed + 1, Policy: policy, Objective: 200 * time.Microsecond, GiveUp: true,
					Length: 150 * time.Millisecond, Warmup: 50 * time.Millisecond,
					Server: server, Network: model.Network{Delay: 5 * time.Microsecond},
					Groups: []model.Group{
						{Name: "honest", Clients: 90, Load: model.Constant(tt.honest * server.Capacity())},
						{Name: "others", Clients: 10, Kind: tt.kind, Load: model.Constant(tt.others * server.Capacity())},
					},
				})
				honest += report.Groups[0].Good
				offered += report.Groups[0].Offered
				others += report.Groups[1].Good
			}
			if share := float64(others) / float64(others+honest); share > tt.atMost {
				t.Errorf("the ten got %.3f of what was served, want at most %.2f", share, tt.atMost)
			}
			if got := float64(honest) / float64(offered); got < tt.atLeast {
				t.Errorf("the ninety got %.2f of their load, want at least %.2f", got, tt.atLeast)
			}
		})
	}
}

// TestModestClientsKeepWhatTheyAskFor: two tenants with two connections each use a
// fifth of the server each, where a third of it is theirs, and a third tenant wants
// three times all of it. What must be refused of a long queue is refused to who made it.
func TestModestClientsKeepWhatTheyAskFor(t *testing.T) {
	const objective = 100 * time.Millisecond
	server := model.Server{Cores: 8, Service: model.Service{Mean: 8 * time.Millisecond}}
	policy := gated(objective)
	load := func(name string, part float64) model.Group {
		return model.Group{Name: name, Clients: 2, Load: model.Constant(part * server.Capacity())}
	}
	var good, offered, all float64
	var seconds float64
	for seed := range uint64(2) {
		report := run(t, model.Config{
			Seed: seed + 1, Policy: policy, Objective: objective, GiveUp: true, Length: 30 * time.Second, Warmup: 3 * time.Second,
			Server: server, Network: model.Network{Delay: time.Millisecond}, Groups: []model.Group{load("a", 0.2), load("b", 0.2), load("c", 3)},
		})
		for _, g := range report.Groups[:2] {
			good += float64(g.Good)
			offered += float64(g.Offered)
		}
		all += float64(report.Total.Good)
		seconds += report.Seconds
	}
	// Without the difference between clients it is 0.87.
	if kept := good / offered; kept < 0.93 {
		t.Errorf("tenants that ask for less than their share get %.3f of it, want 0.93", kept)
	}
	if goodput := all / seconds / server.Capacity(); goodput < 0.97 {
		t.Errorf("goodput is %.3f of the capacity, want 0.97", goodput)
	}
}

// TestPoliteBesideGreedy: one client sends ten times what the server can do, twenty ask for
// half of an equal share each. These get it, whether the greedy one obeys its window or not.
// (lab run wild/greedy plays more of the kind.)
func TestPoliteBesideGreedy(t *testing.T) {
	const objective = 200 * time.Millisecond
	plain := model.Policy{
		Name: "plain",
		Door: func(uint64, int) (baseline.Door, error) {
			return baseline.NewGate(admission.Config{Objective: objective, NoCredit: true})
		},
		Sender: func(uint64, int) (baseline.Sender, error) { return none.Sender{}, nil },
	}
	for _, tt := range []struct {
		name    string
		policy  model.Policy
		kind    model.Kind
		service time.Duration
	}{
		{"obeys", gated(objective), model.Honest, 2 * time.Millisecond},
		{"ignores its window", gated(objective), model.Flooding, 2 * time.Millisecond},
		{"ignores its window, slow service", gated(objective), model.Flooding, 20 * time.Millisecond},
		{"nobody knows credits", plain, model.Honest, 2 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := model.Server{Cores: 8, Service: model.Service{Mean: tt.service, Shape: model.Exponential}}
			var good, offered, all float64
			const seeds = 4
			for seed := range uint64(seeds) {
				r := run(t, model.Config{
					Seed: seed + 1, Policy: tt.policy, Objective: objective, GiveUp: true, Length: 8 * time.Second, Warmup: 3 * time.Second,
					Server: server, Network: model.Network{Delay: 250 * time.Microsecond}, Groups: []model.Group{
						{Name: "polite", Clients: 20, Load: model.Constant(0.5 * 20 / 21 * server.Capacity())},
						{Name: "greedy", Clients: 1, Kind: tt.kind, Load: model.Constant(10 * server.Capacity())},
					},
				})
				good, offered = good+float64(r.Groups[0].Good), offered+float64(r.Groups[0].Offered)
				all += float64(r.Total.Good) / r.Seconds / server.Capacity() / seeds
			}
			// Refusing whoever comes, it is a tenth for the last.
			if share := good / offered; share < 0.95 {
				t.Errorf("the polite get %.3f of what they ask for, want 0.95", share)
			}
			if all < 0.95 {
				t.Errorf("goodput is %.3f of the capacity, want 0.95", all)
			}
		})
	}
}
