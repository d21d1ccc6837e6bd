package model_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/sim/model"
)

// TestServerThatWorksForNobody: a gate in front of a server that does not hear that
// a caller gave up. What the first burst left there is worked on to its end, and
// while it is, everything let in on top is given up as well. Counting that as
// throughput kept the limit where it was, and nothing came in time for ever.
func TestServerThatWorksForNobody(t *testing.T) {
	const objective = 100 * time.Millisecond
	server := model.Server{Cores: 4, Service: model.Service{Mean: 10 * time.Millisecond}, Message: 20 * time.Microsecond, Deaf: true}
	loads := map[string]model.Load{"a step from 0.4 to 4": {Steps: []model.Step{{At: 0, Rate: 0.4 * server.Capacity()}, {At: 4 * time.Second, Rate: 4 * server.Capacity()}}}}
	for _, load := range []float64{2, 4} {
		loads[fmt.Sprintf("%v from cold", load)] = model.Constant(load * server.Capacity())
	}
	with := model.Gated("credits", admission.Config{Objective: objective}, credit.WalletConfig{})
	without := with
	without.Name, without.Sender = "plain clients", plain().Sender
	for name, load := range loads {
		for _, policy := range []model.Policy{with, without} {
			t.Run(name+", "+policy.Name, func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(3) {
					report := run(t, model.Config{
						Seed: seed + 1, Policy: policy, Objective: objective, GiveUp: true,
						Length: 10 * time.Second, Warmup: 5 * time.Second,
						Server: server, Network: model.Network{Delay: 100 * time.Microsecond},
						Groups: []model.Group{{Name: "clients", Clients: 100, Load: load}},
					})
					if share := float64(report.Total.Good) / report.Seconds / server.Capacity(); share < 0.9 {
						t.Errorf("seed %d: goodput is %.3f of the capacity, want at least 0.9", seed+1, share)
					}
				}
			})
		}
	}
}
