package check

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/sim/model"
	"github.com/spillgate/spillgate/internal/slots"
)

// Random returns the world of a seed, around Spillgate's own policy, and how to
// check it. Worlds are small, and harsher than any network: what can go wrong
// should do so within a second of testing.
func Random(seed uint64) (model.Config, Config) {
	rng := sim.Chance(seed, 0, 0)
	pick := func(n int) int { return rng.IntN(n) }
	chance := func(p float64) bool { return rng.Float64() < p }

	mean := []time.Duration{time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond, 5 * time.Millisecond}[pick(4)]
	cores := []int{1, 2, 4, 10, 32}[pick(5)]
	delay := time.Duration(rng.Float64() * 4 * float64(mean))
	cfg := model.Config{
		Seed:      seed,
		Objective: time.Duration(float64(10*(mean+2*delay)) * (0.5 + rng.Float64())),
		Server:    model.Server{Cores: cores, Service: model.Service{Mean: mean, Shape: model.Shape(pick(3))}},
		Network:   model.Network{Delay: delay},
		GiveUp:    chance(0.3),
	}
	cfg.Server.Message = mean / 20
	if chance(0.3) {
		cfg.Network.Jitter = delay / 2
	}
	if chance(0.4) {
		cfg.Network.LoseGrant = rng.Float64() * 0.5
		cfg.Network.RepeatGrant = rng.Float64()
		cfg.Network.DelayGrant = rng.Float64() * 0.5
	}
	if chance(0.4) {
		cfg.Retry.Max = 1 + pick(3)
	}

	// As long as it takes for about so many requests to be served.
	cfg.Length = time.Duration(float64(800+pick(3000)) / cfg.Server.Capacity() * 1e9)
	cfg.Groups = groups(rng, cfg)
	calm := faults(rng, &cfg)

	gate := admission.Config{Objective: cfg.Objective}
	if chance(0.2) {
		gate.Slots = slots.Config{Min: cores, Initial: cores, Max: cores}
	}
	if chance(0.15) {
		gate.Credit.NoSpeculation = true
	}
	if chance(0.1) {
		gate.NoCredit = true
	}
	if chance(0.1) {
		gate.QueueLimit = 1 + pick(20)
	}
	if chance(0.3) {
		gate.Credit.MaxWindow = 1 + pick(64)
	}
	ordered := false
	if chance(0.4) {
		ordered = true
		gate.Schedule = schedule.Config{Order: schedule.Order(pick(6)), Fair: chance(0.5)}
	}
	if chance(0.3) {
		ordered = true
		gate.Rates = &rates.Config{Period: max(4*cfg.Objective, time.Millisecond)}
	}
	wallet := credit.WalletConfig{}
	if chance(0.5) {
		wallet.QueueLimit = 1 + pick(32)
	}
	cfg.Policy = model.Gated("spillgate", gate, wallet)
	return cfg, Config{Calm: calm, Ordered: ordered}
}

func groups(rng *rand.Rand, cfg model.Config) []model.Group {
	var all []model.Group
	for i := range 1 + rng.IntN(3) {
		rate := cfg.Server.Capacity() * []float64{0.1, 0.5, 0.9, 1, 1.5, 3}[rng.IntN(6)]
		g := model.Group{Name: fmt.Sprint("group ", i), Clients: 1 + rng.IntN(12)}
		g.Load.Steps = []model.Step{{Rate: rate}}
		if rng.Float64() < 0.4 {
			g.Load.Steps = append(g.Load.Steps, model.Step{At: cfg.Length / 3, Rate: rate * 3}, model.Step{At: cfg.Length * 2 / 3, Rate: rate / 2})
		}
		if i > 0 && rng.Float64() < 0.3 {
			g.Kind = model.Kind(1 + rng.IntN(2))
		}
		if g.Kind == model.Honest && rng.Float64() < 0.3 {
			g.Churn = model.Churn{Stay: cfg.Length / 8, Away: cfg.Length / 16}
		}
		all = append(all, g)
	}
	return all
}

// faults adds faults in the first half of a world and returns when they are
// over.
func faults(rng *rand.Rand, cfg *model.Config) time.Duration {
	half := float64(cfg.Length) / 2
	for range rng.IntN(4) {
		f := model.Fault{At: time.Duration(rng.Float64() * half)}
		switch rng.IntN(3) {
		case 0:
			f.Speed = []float64{0.25, 0.5, 1, 2, 4}[rng.IntN(5)]
		case 1:
			f.KillServer = time.Duration(rng.Float64() * half / 4)
		case 2:
			f.KillClients = rng.Float64()
			f.Notice = time.Duration(rng.Float64() * half / 4)
			f.Back = time.Duration(rng.Float64() * half / 2)
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	return time.Duration(half)
}
