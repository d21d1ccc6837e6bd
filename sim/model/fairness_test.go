package model_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/admission"
	"github.com/spillgate/spillgate/credit"
	"github.com/spillgate/spillgate/sim/model"
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
	policy := model.Gated("spillgate", admission.Config{Objective: 200 * time.Microsecond}, credit.WalletConfig{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var honest, others, offered int
			for seed := range uint64(3) { // one alone is off by up to 0.005
				world, err := model.New(model.Config{
					Seed: seed + 1, Policy: policy, Objective: 200 * time.Microsecond, GiveUp: true,
					Length: 150 * time.Millisecond, Warmup: 50 * time.Millisecond,
					Server: server, Network: model.Network{Delay: 5 * time.Microsecond},
					Groups: []model.Group{
						{Name: "honest", Clients: 90, Load: model.Constant(tt.honest * server.Capacity())},
						{Name: "others", Clients: 10, Kind: tt.kind, Load: model.Constant(tt.others * server.Capacity())},
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				report, err := world.Run()
				if err != nil {
					t.Fatal(err)
				}
				honest += report.Groups[0].Good
				offered += report.Groups[0].Offered
				others += report.Groups[1].Good
			}
			if share := float64(others) / float64(others+honest); share > tt.atMost {
				t.Errorf("the ten got %.2f of what was served, want at most %.2f", share, tt.atMost)
			}
			if got := float64(honest) / float64(offered); got < tt.atLeast {
				t.Errorf("the ninety got %.2f of their load, want at least %.2f", got, tt.atLeast)
			}
		})
	}
}
