package share

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestEstimatorFollowsTheModelAtOnce: a doubled load shows before any request
// has met it.
func TestEstimatorFollowsTheModelAtOnce(t *testing.T) {
	stage := Stage{Arrival: 60, Service: 100, Transfer: 0.002, TransferSD: 0.0005}
	e, err := NewEstimator(Chain{stage, stage, stage, stage})
	if err != nil {
		t.Fatal(err)
	}
	if mean, _ := e.Estimate(); !near(mean, 0.108, 4) {
		t.Errorf("mean %v, want 0.108", mean)
	}
	stage.Arrival = 80
	if err := e.Update(Chain{stage, stage, stage, stage}); err != nil {
		t.Fatal(err)
	}
	mean, p95 := e.Estimate()
	// p95 of an Erlang-4 with 20/s, and 8 ms that hardly vary.
	if !near(mean, 0.208, 4) || !near(p95, 0.3877+0.008, 3) {
		t.Errorf("mean %v, p95 %v, want 0.208, 0.396", mean, p95)
	}
	stage.Arrival = 500
	if err := e.Update(Chain{stage}); err != nil {
		t.Fatal(err)
	}
	if mean, p95 := e.Estimate(); math.IsInf(mean, 0) || math.IsInf(p95, 0) || mean < 0.3 {
		t.Errorf("overloaded: %v, %v, want large and finite", mean, p95)
	}
	if e.Update(Chain{{Service: -1}}) == nil {
		t.Error("a negative rate was accepted")
	}
}

// TestEstimatorLearnsWhatTheModelMisses: latencies twice as long and with a shorter
// tail than the model says.
func TestEstimatorLearnsWhatTheModelMisses(t *testing.T) {
	e, err := NewEstimator(Chain{{Arrival: 60, Service: 100}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for range 20_000 {
		e.OnLatency(seconds(0.05 * (0.5 + rng.Float64()))) // uniform
	}
	mean, p95 := e.Estimate()
	if !within(mean, 0.05, 0.05) || !within(p95, 0.0725, 0.1) {
		t.Errorf("mean %v, p95 %v, want 0.05, 0.0725", mean, p95)
	}
	e.OnLatency(-1)
	e.OnLatency(math.MaxInt64)
	if m, p := e.Trim(); m > trimMost || p > trimMost || !(m > 0) || !(p > 0) {
		t.Errorf("trims %v, %v", m, p)
	}
}
