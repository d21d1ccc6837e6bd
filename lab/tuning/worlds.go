package tuning

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/wild"
	"github.com/spillgate/spillgate/lab/worlds"
)

// trial is a world that every copy of the core plays.
type trial struct {
	wild.Telling
	// control, if not nil, is the policy: the default uses neither rates nor class shares.
	control *mesh.Control
}

// trials returns the worlds of lab/wild that tell most, and one each for what they do not
// use: rates of workflows along a call graph, and class shares.
func trials() []trial {
	var all []trial
	for _, t := range wild.Tell() {
		all = append(all, trial{Telling: t})
	}
	return append(all, rated(), shared())
}

const ms = time.Millisecond

func waits(mean time.Duration) world.Step {
	return world.Step{Wait: &world.Draw{Shape: world.Exponential, Mean: mean}}
}

func calls(service, method string) world.Step {
	return world.Step{Call: []world.Target{{Service: service, Method: method}}}
}

func asks(service, method string) []world.Ask {
	return []world.Ask{{Target: world.Target{Service: service, Method: method}}}
}

// rated are two workflows that share an entry and a store, of which one asks the store
// three times and grows to twice what that can do.
func rated() trial {
	w := &world.World{
		Name: "two workflows with rates, one grows to 2x", Objective: 200 * ms, Warmup: 3 * time.Second, Length: 9 * time.Second,
		Services: []world.Service{
			{Name: "entry", Workers: 16, Methods: []world.Method{
				{Name: "light", Steps: []world.Step{waits(ms), calls("store", "read")}},
				{Name: "heavy", Steps: []world.Step{waits(ms), calls("store", "read"), calls("store", "read"), calls("store", "read")}}}},
			{Name: "store", Workers: 8, Methods: []world.Method{{Name: "read", Steps: []world.Step{waits(8 * ms)}}}},
		},
		Network: world.Network{Delay: 100 * time.Microsecond},
		Clients: []world.Group{
			{Name: "light", Clients: 10, Ask: asks("entry", "light"), Load: world.Load{Steps: []world.Rate{{PerSecond: 300}}}},
			{Name: "heavy", Clients: 10, Ask: asks("entry", "heavy"), Load: world.Load{Steps: []world.Rate{{PerSecond: 150}, {At: 5 * time.Second, PerSecond: 600}}}},
		},
	}
	control := mesh.CreditsRates()
	return trial{wild.Telling{World: w, Worth: served}, &control}
}

// shared are requests that go through four servers beside those that go to one of
// them, which it is to learn.
func shared() trial {
	w := &world.World{
		Name: "chains of four beside single requests, class shares, 0.85x", Objective: 300 * ms, Warmup: 4 * time.Second, Length: 20 * time.Second,
		Network: world.Network{Delay: 100 * time.Microsecond},
	}
	names := []string{"a", "b", "c", "d"}
	for i, name := range names {
		s := world.Service{Name: name, Workers: 2, Methods: []world.Method{{Name: "single", Steps: []world.Step{waits(10 * ms)}}, {Name: "chain", Steps: []world.Step{waits(10 * ms)}}}}
		if i+1 < len(names) {
			s.Methods[1].Steps = append(s.Methods[1].Steps, calls(names[i+1], "chain"))
			s.Methods[1].Idle = true
		}
		w.Services = append(w.Services, s)
		w.Clients = append(w.Clients, world.Group{Name: "single at " + name, Clients: 5, Deadline: -1, Ask: asks(name, "single"), Load: world.Load{Steps: []world.Rate{{PerSecond: 110}}}})
	}
	w.Clients = append(w.Clients, world.Group{Name: "chain", Clients: 10, Deadline: -1, Ask: asks("a", "chain"), Load: world.Load{Steps: []world.Rate{{PerSecond: 60}}}})
	control := mesh.Bare("share", admission.Config{})
	control.Share = &share.Config{}
	return trial{wild.Telling{World: w, Worth: served}, &control}
}

// served counts the answers in time.
func served(r *world.Report) float64 {
	sum := 0
	for i := range r.Groups {
		sum += r.Groups[i].Good
	}
	return float64(sum)
}

// Outcome is what one world came to on one seed.
type Outcome struct {
	Worth float64
	// All is a digest of the whole report: two that differ were played differently.
	All uint64
}

// Play plays one of every so many worlds on seeds from the first on: the outcomes by world
// and seed.
func Play(ctx context.Context, first uint64, seeds, every int) ([][]Outcome, error) {
	var all [][]Outcome
	for i, t := range trials() {
		if i%every > 0 {
			continue
		}
		outcomes := make([]Outcome, seeds)
		for k := range outcomes {
			r, err := t.play(ctx, first+uint64(k))
			if err != nil {
				return nil, fmt.Errorf("%s, seed %d: %w", t.World.Name, first+uint64(k), err)
			}
			text, err := json.Marshal(r)
			if err != nil {
				return nil, err
			}
			sum := fnv.New64a()
			sum.Write(text)
			outcomes[k] = Outcome{t.Worth(r), sum.Sum64()}
		}
		all = append(all, outcomes)
	}
	return all, nil
}

func (t *trial) play(ctx context.Context, seed uint64) (*world.Report, error) {
	if t.control == nil {
		return worlds.Simulate(ctx, t.World, contenders.Name, seed)
	}
	p, err := experiment.Play(ctx, &experiment.Cell{Name: t.World.Name, World: t.World, Control: *t.control, Seed: seed})
	if err != nil {
		return nil, err
	}
	return p.Seen, nil
}

// named returns the names of the worlds that Play plays.
func named(every int) (names []string) {
	for i, t := range trials() {
		if i%every == 0 {
			names = append(names, t.World.Name)
		}
	}
	return names
}
