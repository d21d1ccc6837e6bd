package worlds

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/sim/model"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
)

const ms = time.Millisecond

// single is one service of eight workers and 20 clients.
func single(shape world.Shape, load float64) *world.World {
	return &world.World{
		Name: "single", Objective: 100 * ms, Warmup: 3 * time.Second, Length: 13 * time.Second,
		Services: []world.Service{{Name: "service", Workers: 8, Deaf: true, Methods: []world.Method{
			{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Shape: shape, Mean: 10 * ms}}}}}}},
		Clients: []world.Group{{Name: "clients", Clients: 20, Ask: []world.Ask{{Target: world.Target{Service: "service", Method: "do"}}},
			Load: world.Load{Steps: []world.Rate{{Times: load}}}}},
		Network: world.Network{Delay: 250 * time.Microsecond},
	}
}

// A world of one service is what the simulator of one service made of it: goodput and
// quantiles agree within chance.
func TestOneServiceAsBefore(t *testing.T) {
	if testing.Short() {
		t.Skip("forty-eight simulated worlds of 13 s")
	}
	s := contenders.Setting{Objective: 100 * ms, Cores: 8, Service: 10 * ms}
	policies := map[string]model.Policy{
		"none": contenders.None(s), "semaphore:8:16": contenders.Semaphore(s, 8, 16),
		"spillgate": model.Gated("spillgate", admission.Config{Objective: s.Objective}, credit.WalletConfig{}),
	}
	for name, policy := range policies {
		for shape, before := range map[world.Shape]model.Shape{world.Constant: model.Fixed, world.Exponential: model.Exponential} {
			for _, load := range []float64{0.7, 2} {
				t.Run(fmt.Sprintf("%s/%v/%v", name, before, load), func(t *testing.T) {
					var now, then [3]float64
					for seed := range uint64(2) {
						w := single(shape, load)
						deadline, late := time.Duration(0), 0
						if name == "none" {
							// Or nobody would wait for an answer at twice the capacity. What is inside
							// at the end of the warm-up is counted in different ways.
							deadline, w.Warmup, late = -1, 0, 1
						}
						w.Clients[0].Deadline = deadline
						r, err := Simulate(t.Context(), w, name, seed+1)
						if err != nil {
							t.Fatal(err)
						}
						g := &r.Groups[0]
						for i, v := range [3]float64{float64(g.Good + late*g.Late), g.P50.Seconds(), g.P99.Seconds()} {
							now[i] += v
						}
						m, err := model.New(model.Config{Seed: seed + 1, Policy: policy, Objective: s.Objective, GiveUp: true, Deadline: deadline,
							Server:  model.Server{Cores: 8, Deaf: true, Service: model.Service{Mean: 10 * ms, Shape: before}},
							Groups:  []model.Group{{Name: "clients", Clients: 20, Load: model.Constant(load * 800)}},
							Network: model.Network{Delay: 250 * time.Microsecond}, Warmup: w.Warmup, Length: w.Length})
						if err != nil {
							t.Fatal(err)
						}
						o, err := m.Run()
						if err != nil {
							t.Fatal(err)
						}
						for i, v := range [3]float64{float64(o.Total.Good + late*o.Total.Late), o.Total.Response.Quantile(0.5).Seconds(), o.Total.Response.Quantile(0.99).Seconds()} {
							then[i] += v
						}
					}
					for i, what := range [3]string{"answers", "p50", "p99"} {
						limit := [3]float64{0.03, 0.08, 0.12}[i]
						t.Logf("%s: %v, before %v", what, now[i]/2, then[i]/2)
						if diff := math.Abs(now[i]-then[i]) / math.Max(then[i], 1e-3); diff > limit {
							t.Errorf("%s: %v, before %v", what, now[i]/2, then[i]/2)
						}
					}
				})
			}
		}
	}
}

// The same world, policy and seed give the same bytes.
func TestSimulateTwice(t *testing.T) {
	w := single(world.Exponential, 2)
	w.Warmup, w.Length = ms, 2*time.Second
	w.Network.Jitter = ms
	for _, policy := range []string{"spillgate", "semaphore:8", "dagor", "seda", "protego", "none"} {
		var first string
		for range 2 {
			r, err := Simulate(t.Context(), w, policy, 7)
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = string(b)
			} else if first != string(b) {
				t.Errorf("%s: two runs differ:\n%s\n%s", policy, first, b)
			}
		}
	}
}

func TestUnknownPolicies(t *testing.T) {
	for _, name := range []string{"", "semaphore", "semaphore:0", "semaphore:8:-1", "semaphore:8:1:1", "nothing", "semaphore:1000001"} {
		if _, err := Simulate(t.Context(), single(world.Constant, 1), name, 1); err == nil {
			t.Errorf("policy %q was accepted", name)
		}
	}
}

// Every policy plays a world.
func TestPolicies(t *testing.T) {
	w := single(world.Exponential, 1.5)
	w.Warmup, w.Length = ms, time.Second
	for _, p := range peers {
		r, err := Simulate(t.Context(), w, p.name, 1)
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		if r.Groups[0].Good == 0 {
			t.Errorf("%s: no good answer", p.name)
		}
	}
}
