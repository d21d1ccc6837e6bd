package worlds

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

const ms = time.Millisecond

// single is one service of eight workers and 20 clients.
func single(shape world.Shape, load float64) *world.World {
	return &world.World{
		Name: "single", Objective: 100 * ms, Warmup: 3 * time.Second, Length: 13 * time.Second,
		Services: []world.Service{{Name: "service", Workers: 8, Deaf: true, Proxied: true, Methods: []world.Method{
			{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Shape: shape, Mean: 10 * ms}}}}}}},
		Clients: []world.Group{{Name: "clients", Clients: 20, Ask: []world.Ask{{Target: world.Target{Service: "service", Method: "do"}}},
			Load: world.Load{Steps: []world.Rate{{Times: load}}}}},
		Network: world.Network{Delay: 250 * time.Microsecond},
	}
}

// before is what the simulator of one service, which this one replaced, measured: good
// answers, or all without a policy, which serves almost none in time at twice the
// capacity; and their median and 99th percentile. Each is the mean of two seeds, of
// 10 s, or 13 s without a policy.
var before = []struct {
	policy string
	shape  world.Shape
	load   float64
	want   [3]float64
}{
	{"none", world.Constant, 0.7, [3]float64{7233.5, 0.01062, 0.01717}},
	{"none", world.Constant, 2, [3]float64{10392, 3.255, 6.409}},
	{"none", world.Exponential, 0.7, [3]float64{7234, 0.00872, 0.04928}},
	{"none", world.Exponential, 2, [3]float64{10444.5, 3.305, 6.375}},
	{"semaphore:8:16", world.Constant, 0.7, [3]float64{5555.5, 0.01062, 0.01717}},
	{"semaphore:8:16", world.Constant, 2, [3]float64{8000, 0.02910, 0.03051}},
	{"semaphore:8:16", world.Exponential, 0.7, [3]float64{5558, 0.00865, 0.04981}},
	{"semaphore:8:16", world.Exponential, 2, [3]float64{7939, 0.02739, 0.06737}},
	{"spillgate", world.Constant, 0.7, [3]float64{5555.5, 0.01062, 0.01717}},
	{"spillgate", world.Constant, 2, [3]float64{7965.5, 0.06921, 0.08493}},
	{"spillgate", world.Exponential, 0.7, [3]float64{5558, 0.00865, 0.04981}},
	{"spillgate", world.Exponential, 2, [3]float64{7944.5, 0.04011, 0.08493}},
}

// A world of one service is what the simulator of one service made of it: goodput and
// quantiles agree within chance. Those of Spillgate may move with its policy: the bounds
// are wide there.
func TestOneServiceAsBefore(t *testing.T) {
	if testing.Short() {
		t.Skip("twenty-four simulated worlds of 13 s")
	}
	for _, b := range before {
		t.Run(fmt.Sprintf("%s/%v/%v", b.policy, b.shape, b.load), func(t *testing.T) {
			var got [3]float64
			for seed := range uint64(2) {
				w, late := single(b.shape, b.load), 0
				if b.policy == "none" {
					w.Clients[0].Deadline, w.Warmup, late = -1, 0, 1
				}
				r, err := Simulate(t.Context(), w, b.policy, seed+1)
				if err != nil {
					t.Fatal(err)
				}
				g := &r.Groups[0]
				for i, v := range [3]float64{float64(g.Good + late*g.Late), g.P50.Seconds(), g.P99.Seconds()} {
					got[i] += v / 2
				}
			}
			limits := [3]float64{0.03, 0.08, 0.12}
			if b.policy == "spillgate" && b.load > 1 {
				limits = [3]float64{0.05, 0.6, 0.2}
			}
			for i, what := range [3]string{"answers", "p50", "p99"} {
				if diff := math.Abs(got[i]/b.want[i] - 1); diff > limits[i] {
					t.Errorf("%s: %v, before %v", what, got[i], b.want[i])
				}
			}
		})
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
	for _, name := range []string{"", "semaphore", "semaphore:0", "semaphore:8:-1", "semaphore:8:1:1", "semaphore:x", "semaphore:0x", "semaphore:2xx", "nothing", "semaphore:1000001"} {
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

// A user that is refused in no time does not send for ever at the same instant.
func TestRefusedAtOnce(t *testing.T) {
	w := single(world.Constant, 0)
	w.Network.Delay, w.Warmup, w.Length = 0, 0, time.Second
	w.Clients[0].Load = world.Load{Users: 20}
	r, err := Simulate(t.Context(), w, "semaphore:1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	// One is in the service at a time, and 19 come back each millisecond.
	if c := r.Groups[0].Counts; c.Good < 98 || c.Good > 100 || c.Refused < 18_000 || c.Refused > 20_000 {
		t.Errorf("counted %+v, want 100 good ones and 19,000 refused", c)
	}
}

// What is inside a service bounds it: a lock of one permit, and workers, which are given back
// while a request calls. Callers who give up early do, and what only real processes do is a
// mistake.
func TestInsideAService(t *testing.T) {
	steady := func(rate float64) world.Load { return world.Load{Steps: []world.Rate{{PerSecond: rate}}} }
	ask := func(method string) []world.Ask {
		return []world.Ask{{Target: world.Target{Service: "front", Method: method}}}
	}
	wait := func(d time.Duration, lock string) world.Step {
		return world.Step{Wait: &world.Draw{Mean: d}, Lock: lock}
	}
	calls := world.Step{Call: []world.Target{{Service: "back", Method: "do"}}}
	w := &world.World{Objective: 5 * time.Second, Length: 10 * time.Second,
		Services: []world.Service{
			{Name: "front", Workers: 2, Async: true, Locks: []world.Lock{{Name: "door"}}, Methods: []world.Method{
				{Name: "calls", Steps: []world.Step{wait(2*ms, ""), calls}}, {Name: "locks", Steps: []world.Step{wait(10*ms, "door")}}}},
			{Name: "back", Methods: []world.Method{{Name: "do", Steps: []world.Step{wait(50*ms, "")}}}}},
		Clients: []world.Group{{Name: "callers", Ask: ask("calls"), Load: steady(80)}, {Name: "locked", Ask: ask("locks"), Load: world.Load{Users: 4}},
			{Name: "hasty", GiveUp: ms, Ask: ask("calls"), Load: steady(20)}}}
	r, err := Simulate(t.Context(), w, "none", 1)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Groups[0].Counts; c.Offered < 600 || c.Good < c.Offered-20 { // kept, two workers would serve 380
		t.Errorf("callers %+v", c)
	}
	if c := r.Groups[1].Counts; c.Good < 900 || c.Good > 1000 {
		t.Errorf("%d went through a door that lets 1,000 pass", c.Good)
	}
	if c := r.Groups[2].Counts; c.Expired < c.Offered*9/10 {
		t.Errorf("hasty callers %+v, expected that they give up", c)
	}
	w.Clients[0].Cycle = 3
	if _, err := Simulate(t.Context(), w, "none", 1); err == nil {
		t.Error("a cycle was accepted")
	}
}
