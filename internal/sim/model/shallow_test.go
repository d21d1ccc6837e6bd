package model_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/sim/model"
)

// TestShortQueueStaysFilled: two slots of 1 ms and an objective of 10 ms leave a
// queue of six or seven requests. Credits that let in just what the slots can do
// would leave it empty for a twentieth of the time.
func TestShortQueueStaysFilled(t *testing.T) {
	const objective = 10 * time.Millisecond
	server := model.Server{Cores: 2, Service: model.Service{Mean: time.Millisecond}, Message: -1}
	policy := gated(objective)
	for _, load := range []float64{2, 4} {
		var good, seconds float64
		for seed := range uint64(3) {
			report := run(t, model.Config{
				Seed: seed + 1, Policy: policy, Objective: objective, GiveUp: true,
				Length: 8 * time.Second, Warmup: 2 * time.Second,
				Server: server, Network: model.Network{Delay: 150 * time.Microsecond},
				Groups: []model.Group{{Name: "clients", Clients: 100, Load: model.Constant(load * server.Capacity())}},
			})
			good += float64(report.Total.Good)
			seconds += report.Seconds
			if p99 := report.Total.Known.Quantile(0.99); p99 > objective/5 {
				t.Errorf("load %v, seed %d: refused clients know after %v at the 99th percentile, want at most %v", load, seed+1, p99, objective/5)
			}
		}
		if share := good / seconds / server.Capacity(); share < 0.97 {
			t.Errorf("load %v: goodput is %.3f of the capacity, want at least 0.97", load, share)
		}
	}
}

// TestFewSlotsRefuseLittle: what one or two slots can do in time, below their
// capacity, they do. With one, at 0.7 of it, a twentieth would be late by itself.
func TestFewSlotsRefuseLittle(t *testing.T) {
	const objective = 10 * time.Millisecond
	policy := gated(objective)
	for _, tt := range []struct {
		cores   int
		load    float64
		atLeast float64 // of what is offered, in time
	}{
		{1, 0.5, 0.985}, {1, 0.7, 0.93}, {2, 0.7, 0.985}, {2, 0.9, 0.93}, {4, 0.9, 0.975},
	} {
		server := model.Server{Cores: tt.cores, Service: model.Service{Mean: time.Millisecond}, Message: -1}
		var good, offered int
		for seed := range uint64(3) {
			report := run(t, model.Config{
				Seed: seed + 1, Policy: policy, Objective: objective, GiveUp: true,
				Length: 8 * time.Second, Warmup: 2 * time.Second,
				Server: server, Network: model.Network{Delay: 50 * time.Microsecond},
				Groups: []model.Group{{Name: "clients", Clients: 20, Load: model.Constant(tt.load * server.Capacity())}},
			})
			good += report.Total.Good
			offered += report.Total.Offered
		}
		if share := float64(good) / float64(offered); share < tt.atLeast {
			t.Errorf("%d cores at %v of their capacity: %.3f in time, want at least %v", tt.cores, tt.load, share, tt.atLeast)
		}
	}
}
