package mesh_test

import (
	"bytes"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/sim/mesh"
)

// controls are what random worlds run under: the modes, and one that lets canceled
// work run on.
func controls() []mesh.Control {
	return append(mesh.Modes(), mesh.Control{Name: "waste", GiveUp: true})
}

// harsh returns a small random world in which everything happens.
func harsh(seed uint64, control mesh.Control) mesh.Config {
	rng := sim.Chance(seed, 1, 0)
	cfg := mesh.Random(seed, mesh.Graph{Services: 4 + rng.IntN(12), Load: []float64{0.5, 1, 2.5}[rng.IntN(3)]})
	cfg.Control = control
	cfg.Length = 400 * ms
	cfg.Timeout = 50 * ms
	cfg.Groups[0].Retry.Max = rng.IntN(3)
	cfg.Groups = append(cfg.Groups, mesh.Group{Name: "loop", Load: mesh.Load{Think: 20 * ms,
		Users: []mesh.Users{{At: 0, N: 3}, {At: 100 * ms, N: 12}, {At: 250 * ms, N: 2}}}})
	cfg.Groups = append(cfg.Groups, mesh.Group{Name: "flood", Flood: true, Load: mesh.Constant(50), Retry: mesh.Retry{Max: 3}})
	for range 4 {
		f := mesh.Fault{At: time.Duration(rng.IntN(300)) * ms, Service: cfg.Services[rng.IntN(len(cfg.Services))].Name, Process: -1}
		if rng.IntN(2) == 0 {
			f.Speed = 0.25 + rng.Float64()
		} else {
			f.Process, f.Kill = 0, time.Duration(1+rng.IntN(60))*ms
		}
		cfg.Faults = append(cfg.Faults, f)
	}
	return cfg
}

var seeds = flag.Uint64("seeds", 3, "how many random worlds TestBooks runs per control")

// TestBooks recounts everything after every event of random worlds.
func TestBooks(t *testing.T) {
	for _, control := range controls() {
		t.Run(control.Name, func(t *testing.T) {
			good := 0
			for seed := uint64(1); seed <= *seeds; seed++ {
				cfg := harsh(seed, control)
				var broken error
				events := 0
				cfg.Event = func(w *mesh.World) {
					if events++; broken == nil {
						broken = w.Audit()
					}
				}
				w, err := mesh.New(cfg)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for broken == nil && w.Step() {
				}
				if broken != nil {
					t.Fatalf("seed %d, event %d, after %v: %v", seed, events, w.Since(), broken)
				}
				r, err := w.Report()
				if err != nil {
					t.Fatal(err)
				}
				if n := r.Total.Ended() + w.Inside(); n != r.Total.Offered {
					t.Errorf("seed %d: %d requests offered, %d ended or inside", seed, r.Total.Offered, n)
				}
				good += r.Total.Good
			}
			if good == 0 {
				t.Error("no world gave a single good answer: nothing was tested")
			}
		})
	}
}

// TestSameSeedSameLog runs a harsh world twice under every control.
func TestSameSeedSameLog(t *testing.T) {
	for _, control := range controls() {
		log := func(seed uint64) string {
			var out bytes.Buffer
			cfg := harsh(seed, control)
			cfg.Log = &out
			run(t, cfg)
			return out.String()
		}
		first := log(7)
		if first != log(7) {
			t.Errorf("%s: the same seed gave two different logs", control.Name)
		}
		if first == log(8) {
			t.Errorf("%s: another seed gave the same log", control.Name)
		}
		if n := strings.Count(first, "\n"); n < 2000 {
			t.Errorf("%s: the log has %d lines, expected many more", control.Name, n)
		}
	}
}

// TestRandomLoad: the busiest service of a random graph is about as busy as was
// asked for.
func TestRandomLoad(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		cfg := mesh.Random(seed, mesh.Graph{Load: 0.5})
		cfg.Length = 20 * time.Second
		busiest := 0.0
		for _, s := range run(t, cfg).Services {
			busiest = max(busiest, s.Busy)
		}
		near(t, "the busiest service", busiest, 0.5, 0.1)
	}
}

// BenchmarkThousandServices is how much faster than real time a thousand services
// with a hundred workflows run.
func BenchmarkThousandServices(b *testing.B) {
	for _, control := range controls() {
		b.Run(control.Name, func(b *testing.B) {
			var events, calls uint64
			simulated := 0.0
			for b.Loop() {
				cfg := mesh.Random(1, mesh.Graph{Services: 1000, Workflows: 100})
				cfg.Control = control
				cfg.Length = 5 * time.Second
				r := run(b, cfg)
				events += r.Events
				calls += uint64(r.Total.Offered)
				simulated += 5
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
			b.ReportMetric(simulated/b.Elapsed().Seconds(), "x-real-time")
			b.ReportMetric(float64(calls)/simulated, "requests/simulated-s")
		})
	}
}
