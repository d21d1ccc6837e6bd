package tuning

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/interactive"
	"github.com/spillgate/spillgate/lab/wild"
	"github.com/spillgate/spillgate/lab/worlds"
)

// trial is a world that every copy of the core plays.
type trial struct {
	wild.Telling
	// control, if not nil, is the policy: the default uses neither rates nor class shares.
	control *mesh.Control
	// classes says that the world is that of lab/interactive: described worlds have no class
	// shares in the simulator.
	classes bool
}

// trials returns the worlds of lab/wild that tell most, and one each for what they do not
// use: rates of workflows along a call graph, and class shares.
func trials() []trial {
	var all []trial
	for _, t := range wild.Tell() {
		all = append(all, trial{Telling: t})
	}
	return append(all, rated(), trial{Telling: wild.Telling{World: &world.World{Name: "chains beside single requests, class shares, 0.8x"}}, classes: true})
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
	return trial{Telling: wild.Telling{World: w, Worth: served}, control: &control}
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
			r, worth, err := t.play(ctx, first+uint64(k))
			if err != nil {
				return nil, fmt.Errorf("%s, seed %d: %w", t.World.Name, first+uint64(k), err)
			}
			sum := fnv.New64a()
			fmt.Fprintf(sum, "%+v", r)
			outcomes[k] = Outcome{worth, sum.Sum64()}
		}
		all = append(all, outcomes)
	}
	return all, nil
}

// play returns the whole report, and what it is worth.
func (t *trial) play(ctx context.Context, seed uint64) (report any, worth float64, err error) {
	if t.classes {
		r, err := learn(ctx, interactive.Telling(seed))
		if err != nil {
			return nil, 0, err
		}
		return r.Shares, interactive.Worth(r), nil
	}
	var r *world.Report
	if t.control == nil {
		r, err = worlds.Simulate(ctx, t.World, contenders.Name, seed)
	} else {
		var p *experiment.Played
		if p, err = experiment.Play(ctx, &experiment.Cell{Name: t.World.Name, World: t.World, Control: *t.control, Seed: seed}); err == nil {
			r = p.Seen
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return r, t.Worth(r), nil
}

// learn plays a world that has no description.
func learn(ctx context.Context, cfg mesh.Config) (*mesh.Report, error) {
	w, err := mesh.New(cfg)
	if err != nil {
		return nil, err
	}
	for n := 0; w.Step(); n++ {
		if n%100_000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return w.Report()
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
