package model_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/none"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/sim/model"
)

func plain() model.Policy {
	return model.Policy{
		Name:   "none",
		Door:   func(uint64, int) (baseline.Door, error) { return none.Door{}, nil },
		Sender: func(uint64, int) (baseline.Sender, error) { return none.Sender{}, nil },
	}
}

func gated(objective time.Duration) model.Policy {
	return model.Gated("spillgate", admission.Config{Objective: objective}, credit.WalletConfig{})
}

func run(t *testing.T, cfg model.Config) *model.Report {
	t.Helper()
	w, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Run()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSameSeedSameLog runs a world with everything in it twice.
func TestSameSeedSameLog(t *testing.T) {
	log := func(seed uint64) string {
		var out bytes.Buffer
		run(t, model.Config{
			Seed: seed, Policy: gated(time.Millisecond), Objective: time.Millisecond,
			Server:  model.Server{Cores: 4, Service: model.Service{Mean: 50 * time.Microsecond}},
			Network: model.Network{Delay: 20 * time.Microsecond, Jitter: 5 * time.Microsecond, LoseGrant: 0.1, RepeatGrant: 0.1, DelayGrant: 0.1},
			Groups: []model.Group{
				{Name: "stay", Clients: 20, Load: model.Constant(100_000)},
				{Name: "come and go", Clients: 5, Load: model.Constant(10_000), Churn: model.Churn{Stay: 5 * time.Millisecond, Away: 2 * time.Millisecond}},
				{Name: "flood", Clients: 1, Load: model.Constant(10_000), Kind: model.Flooding},
			},
			Retry:  model.Retry{Max: 2},
			Faults: []model.Fault{{At: 10 * time.Millisecond, Speed: 0.25}, {At: 20 * time.Millisecond, KillServer: 2 * time.Millisecond}, {At: 30 * time.Millisecond, KillClients: 0.5, Back: 5 * time.Millisecond}},
			Length: 50 * time.Millisecond, Log: &out,
		})
		return out.String()
	}
	first := log(7)
	if first != log(7) {
		t.Error("the same seed gave two different logs")
	}
	if first == log(8) {
		t.Error("another seed gave the same log")
	}
	if n := strings.Count(first, "\n"); n < 10_000 {
		t.Errorf("the log has %d lines, expected many more", n)
	}
}

// TestQueueingTheory compares an open server with formulas: M/M/1 has the mean
// response time 1/(µ−λ), M/D/1 the mean wait ρ/(2µ(1−ρ)).
func TestQueueingTheory(t *testing.T) {
	const mean = 10 * time.Microsecond
	for _, tt := range []struct {
		shape model.Shape
		load  float64
		want  float64 // mean response time in mean service times
	}{
		{model.Exponential, 0.5, 2},
		{model.Exponential, 0.8, 5},
		{model.Fixed, 0.8, 1 + 0.8/(2*0.2)},
		{model.Bimodal, 0.5, 1 + 0.5*(0.2*16+0.8/16)/(2*0.5)}, // Pollaczek and Khinchine
	} {
		r := run(t, model.Config{
			Seed: 1, Policy: plain(), Objective: time.Second,
			Server: model.Server{Cores: 1, Service: model.Service{Mean: mean, Shape: tt.shape}},
			Groups: []model.Group{{Name: "all", Clients: 10, Load: model.Constant(tt.load / mean.Seconds())}},
			Warmup: 10 * time.Millisecond, Length: 4 * time.Second,
		})
		got := float64(r.Total.Response.Mean()) / float64(mean)
		if math.Abs(got/tt.want-1) > 0.05 {
			t.Errorf("%v at %v: mean response is %.2f service times, expected %.2f", tt.shape, tt.load, got, tt.want)
		}
		if math.Abs(r.Busy-tt.load) > 0.02 {
			t.Errorf("%v at %v: the core was busy for %.3f of the time", tt.shape, tt.load, r.Busy)
		}
	}
}

// TestRefusalsCostTheServer: a server that refuses everything is busy with that.
func TestRefusalsCostTheServer(t *testing.T) {
	p := model.Gated("closed", admission.Config{Objective: time.Millisecond}, credit.WalletConfig{})
	open := p.Door
	p.Door = func(seed uint64, life int) (baseline.Door, error) {
		d, err := open(seed, life)
		if g, ok := d.(baseline.Gate); ok {
			g.Drain()
		}
		return d, err
	}
	p.Sender = plain().Sender
	r := run(t, model.Config{
		Seed: 1, Policy: p, Objective: time.Millisecond,
		Server: model.Server{Cores: 1, Service: model.Service{Mean: 10 * time.Microsecond}, Message: time.Microsecond},
		Groups: []model.Group{{Name: "all", Clients: 5, Load: model.Constant(200_000)}},
		Length: 100 * time.Millisecond,
	})
	if r.Total.Good+r.Total.Late != 0 || math.Abs(r.Messages-0.4) > 0.02 {
		t.Errorf("%d answers, %.3f of the core for messages, expected none and 0.4", r.Total.Good+r.Total.Late, r.Messages)
	}
}

// TestSpeedChange: work under way goes on at the new speed.
func TestSpeedChange(t *testing.T) {
	r := run(t, model.Config{
		Seed: 1, Policy: plain(), Objective: time.Second,
		Server: model.Server{Cores: 1, Service: model.Service{Mean: 100 * time.Microsecond, Shape: model.Fixed}},
		Groups: []model.Group{{Name: "one", Clients: 1, Load: model.Load{Trace: []time.Duration{0}}}},
		Faults: []model.Fault{{At: 50 * time.Microsecond, Speed: 0.25}},
		Length: time.Millisecond,
	})
	// Half at speed 1, half at a quarter of it.
	if got, want := r.Total.Response.Max(), 250*time.Microsecond; r.Total.Good != 1 || got != want {
		t.Errorf("%d answers, the last after %v, expected one after %v", r.Total.Good, got, want)
	}
}

func TestEveryMistakeAtOnce(t *testing.T) {
	_, err := model.New(model.Config{Groups: []model.Group{{Name: "g", Load: model.Constant(-1)}}})
	if err == nil {
		t.Fatal("an empty configuration was accepted")
	}
	for _, want := range []string{"Policy", "Objective", "clients", "step 0", "Cores", "Mean", "Length"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}

// BenchmarkWorld is the speed of a whole world under overload.
func BenchmarkWorld(b *testing.B) {
	var events uint64
	for b.Loop() {
		w, err := model.New(model.Config{
			Seed: 1, Policy: gated(200 * time.Microsecond), Objective: 200 * time.Microsecond,
			Server:  model.Server{Cores: 10, Service: model.Service{Mean: 10 * time.Microsecond}},
			Network: model.Network{Delay: 5 * time.Microsecond},
			Groups:  []model.Group{{Name: "all", Clients: 1000, Load: model.Constant(2e6)}},
			Length:  20 * time.Millisecond,
		})
		if err != nil {
			b.Fatal(err)
		}
		r, err := w.Run()
		if err != nil {
			b.Fatal(err)
		}
		events += r.Events
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds()/1e6, "Mevents/s")
}
