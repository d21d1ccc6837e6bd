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
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/world"
)

// Play is a world, its policy and a seed, and how to check what they come to.
type Play struct {
	World   *world.World
	Control mesh.Control
	Seed    uint64
	Look    Config
}

// Start returns the world, watched by a checker.
func (p *Play) Start() (*mesh.World, *Checker, error) {
	cfg, err := mesh.Describe(p.World, p.Control, p.Seed)
	if err != nil {
		return nil, nil, err
	}
	watch := New(p.Look)
	cfg.Hooks, cfg.Event = watch.Hooks(), watch.Event
	w, err := mesh.New(cfg)
	return w, watch, err
}

// Random returns the play of a seed, around Spillgate's own policy. Worlds are small, and
// harsher than any network: what can go wrong should do so within a second of testing.
func Random(seed uint64) *Play {
	r := &dice{sim.Chance(seed, 0, 0)}
	mean := []time.Duration{time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond, 5 * time.Millisecond}[r.IntN(4)]
	workers := []int{1, 2, 4, 10, 32}[r.IntN(5)]
	delay := time.Duration(r.Float64() * 4 * float64(mean))
	w := &world.World{
		Name:      fmt.Sprint("random ", seed),
		Objective: max(time.Duration(float64(10*(mean+2*delay))*(0.5+r.Float64())), time.Microsecond),
		Services:  r.services(mean, workers),
		Network:   world.Network{Delay: delay},
	}
	if r.chance(0.2) {
		w.Hosts = []world.Host{{Name: "box", Processors: workers, Message: mean / 10}}
		w.Services[0].Host, w.Services[0].Message = "box", 0
	}
	if r.chance(0.3) {
		w.Network.Jitter = delay / 2
	}
	if r.chance(0.4) {
		w.Network.LoseGrant, w.Network.RepeatGrant, w.Network.DelayGrant = r.Float64()*0.5, r.Float64(), r.Float64()*0.5
	}
	// As long as it takes for about so many requests to be served.
	w.Length = max(time.Duration(float64(800+r.IntN(3000))*float64(mean)/float64(workers)), time.Millisecond)
	retry := world.Retry{}
	if r.chance(0.4) {
		retry = world.Retry{Attempts: 2 + r.IntN(3), Backoff: w.Objective / 4, Budget: 0.1}
	}
	w.Clients = r.groups(w, retry, !r.chance(0.3))
	w.Faults = r.faults(w)
	gate, ordered := r.gate(w.Objective, workers)
	wallet := credit.WalletConfig{}
	if r.chance(0.5) {
		wallet.QueueLimit = 1 + r.IntN(32)
	}
	return &Play{World: w, Control: mesh.Gated("spillgate", gate, wallet), Seed: seed, Look: Config{Every: recount, Ordered: ordered}}
}

// recount is after how many events a random world is recounted: each time takes about as
// long as a few hundred events.
const recount = 53

// dice draw a world.
type dice struct{ *rand.Rand }

func (r *dice) chance(p float64) bool { return r.Float64() < p }

func (r *dice) services(mean time.Duration, workers int) []world.Service {
	service := &world.Draw{Shape: world.Shape(r.IntN(2)), Mean: mean}
	if r.chance(0.3) {
		service = &world.Draw{Shape: world.Weighted, Points: []world.Point{{Value: mean / 4, Weight: 4}, {Value: 4 * mean, Weight: 1}}}
	}
	first := world.Service{Name: "first", Workers: workers, Message: mean / 20, Deaf: r.chance(0.5), Proxied: r.chance(0.5),
		Methods: []world.Method{{Name: "do", Steps: []world.Step{{Compute: service}}}}}
	if !r.chance(0.3) {
		return []world.Service{first}
	}
	first.Methods[0].Steps = append(first.Methods[0].Steps, world.Step{Call: []world.Target{{Service: "second", Method: "do"}}})
	return []world.Service{first, {Name: "second", Workers: workers, Replicas: 1 + r.IntN(2), Deaf: r.chance(0.3),
		Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: service}}}}}}
}

func (r *dice) groups(w *world.World, retry world.Retry, patient bool) []world.Group {
	var all []world.Group
	for i := range 1 + r.IntN(3) {
		load := []float64{0.1, 0.5, 0.9, 1, 1.5, 3}[r.IntN(6)]
		g := world.Group{Name: fmt.Sprint("group ", i), Clients: 1 + r.IntN(12), Retry: retry, Patient: patient,
			Ask:  []world.Ask{{Target: world.Target{Service: "first", Method: "do"}}},
			Load: world.Load{Steps: []world.Rate{{Times: load}}}}
		if r.chance(0.4) {
			g.Load.Steps = append(g.Load.Steps, world.Rate{At: w.Length / 3, Times: load * 3}, world.Rate{At: w.Length * 2 / 3, Times: load / 2})
		}
		if i > 0 && r.chance(0.4) {
			g.Kind = world.Kind(1 + r.IntN(3))
		}
		if g.Kind == world.Credits && r.chance(0.3) {
			g.Churn = world.Churn{Stay: w.Length / 8, Away: w.Length / 16}
		}
		g.ByReply = g.Kind == world.Credits && r.chance(0.3)
		all = append(all, g)
	}
	return all
}

// faults are in the first half of a world.
func (r *dice) faults(w *world.World) []world.Fault {
	half := float64(w.Length) / 2
	part := func(of float64) time.Duration { return max(time.Duration(r.Float64()*half*of), 1) }
	var all []world.Fault
	for range r.IntN(4) {
		f := world.Fault{At: part(1), For: part(0.5), Service: w.Services[r.IntN(len(w.Services))].Name}
		switch r.IntN(4) {
		case 0:
			f.Slower = []float64{0.25, 0.5, 2, 4}[r.IntN(4)]
		case 1:
			f.Kill = true
		case 2:
			f.Stop = true
		case 3:
			f.Service, f.Vanish, f.Notice = "", 1-r.Float64(), part(0.25)
		}
		all = append(all, f)
	}
	return all
}

// gate returns a configuration, and whether its queue has an order of its own.
func (r *dice) gate(objective time.Duration, workers int) (admission.Config, bool) {
	cfg := admission.Config{}
	if r.chance(0.2) {
		cfg.Slots = slots.Config{Min: workers, Initial: workers, Max: workers}
	}
	if r.chance(0.15) {
		cfg.Credit.NoSpeculation = true
	}
	if r.chance(0.1) {
		cfg.NoCredit = true
	}
	if r.chance(0.1) {
		cfg.QueueLimit = 1 + r.IntN(20)
	}
	if r.chance(0.3) {
		cfg.Credit.MaxWindow = 1 + r.IntN(64)
	}
	ordered := false
	if r.chance(0.4) {
		ordered = true
		cfg.Schedule = schedule.Config{Order: schedule.Order(r.IntN(6)), Fair: r.chance(0.5)}
	}
	if r.chance(0.3) {
		ordered = true
		cfg.Rates = &rates.Config{Period: max(4*objective, time.Millisecond)}
	}
	return cfg, ordered
}
