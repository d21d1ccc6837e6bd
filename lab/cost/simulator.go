package cost

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/experiment"
)

func simulator() experiment.Experiment {
	return experiment.Experiment{
		Name:  "bench/simulator",
		Title: "events a second of the simulator, with policies and without, in one service and in call graphs",
		About: `A world with all policies and the same world with none take turns of a few milliseconds, after a warm-up of simulated time, so that
what is timed is neither the building of the world nor the growing of its tables. The measure is the processor time of the whole process, the
garbage collector included. An event is what the world's queue returns: an arrival, a message, the end of a piece of work, a deadline, a wake-up. A world
without policies has fewer and cheaper ones, so the time a request is beside them. Medians of the turns; while two readings of the clock take over 80 ns,
others slow the processor down, and a turn beside them does not count if there are enough others.`,
		Live: true,
		Run:  runSimulator,
	}
}

// eventsFloor is how many million events a second a world with policies must handle on one core.
const eventsFloor = 5

// timed is a world that is simulated in turns.
type timed struct {
	name         string
	bare, policy *mesh.World
	// Of each turn: millions of events a second, and µs a request.
	events, request, bareEvents, bareRequest []float64
	quiet                                    []float64 // those of events while nobody else used the processor
}

func runSimulator(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	rounds := 120
	if o.Quick {
		rounds = 40
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Simulator", Columns: []table.Column{{Name: "world"}, {Name: "policies", Unit: "M events/s", Format: "%.2f"},
		{Name: "none", Unit: "M events/s", Format: "%.2f"}, {Name: "policies, a request", Unit: "µs", Format: "%.2f"},
		{Name: "none, a request", Unit: "µs", Format: "%.2f"}, {Name: "turns that count"}, {Name: "bar"}}}
	for i, build := range []func(uint64) (*timed, error){oneService, graphOf(20, 5), graphOf(1000, 100)} {
		k, err := build(o.Seed)
		if err != nil {
			return nil, err
		}
		o.Step(i, 3, k.name)
		for range rounds {
			if err := errors.Join(k.turn(), ctx.Err()); err != nil {
				return nil, err
			}
		}
		k.judge(r, t)
	}
	r.Table = append(r.Table, t)
	return r, nil
}

// oneService has a thousand clients with credits that send twice what it can do.
func oneService(seed uint64) (*timed, error) {
	const mean = 10 * time.Microsecond
	w := &world.World{Objective: 20 * mean, Warmup: 20 * time.Millisecond, Length: time.Hour, Network: world.Network{Delay: mean / 2},
		Services: []world.Service{{Name: "service", Workers: 10, Message: mean / 20,
			Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Shape: world.Exponential, Mean: mean}}}}}}},
		Clients: []world.Group{{Name: "all", Clients: 1000, Ask: []world.Ask{{Target: world.Target{Service: "service", Method: "do"}, Weight: 1}},
			Load: world.Load{Steps: []world.Rate{{Times: 2}}}}}}
	return newTimed("one service, 1,000 clients at 2x", w.Warmup, func(policies bool) (mesh.Config, error) {
		ctl := mesh.None()
		if policies {
			ctl = mesh.Gated("spillgate", admission.Config{}, credit.WalletConfig{})
		}
		return mesh.Describe(w, ctl, seed)
	})
}

// graphOf is a call graph at random, of which the busiest service is sent twice what it can do.
func graphOf(services, workflows int) func(uint64) (*timed, error) {
	return func(seed uint64) (*timed, error) {
		const warmup = 2 * time.Second
		return newTimed(fmt.Sprintf("call graph of %d services and %d workflows at 2x", services, workflows), warmup, func(policies bool) (mesh.Config, error) {
			cfg := mesh.Random(seed, mesh.Graph{Services: services, Workflows: workflows, Load: 2})
			cfg.Control, cfg.Warmup, cfg.Length = mesh.Timeouts(), warmup, time.Hour
			if policies {
				cfg.Control = mesh.Whole(schedule.LSTF)
			}
			return cfg, nil
		})
	}
}

// newTimed builds a world with policies and without, and lets the warm-up pass.
func newTimed(name string, warmup time.Duration, config func(policies bool) (mesh.Config, error)) (*timed, error) {
	var worlds [2]*mesh.World
	for i := range worlds {
		cfg, err := config(i == 1)
		if err != nil {
			return nil, err
		}
		w, err := mesh.New(cfg)
		if err != nil {
			return nil, err
		}
		for w.Since() < warmup && w.Step() {
		}
		worlds[i] = w
	}
	return &timed{name: name, bare: worlds[0], policy: worlds[1]}, nil
}

// turn times a few milliseconds of each world.
func (k *timed) turn() error {
	clock := readClock()
	bare, bareRequest, err := speed(k.bare)
	if err != nil {
		return err
	}
	events, request, err := speed(k.policy)
	if err != nil {
		return err
	}
	if max(clock, readClock()) <= quietClock {
		k.quiet = append(k.quiet, events)
	}
	k.events, k.request = append(k.events, events), append(k.request, request)
	k.bareEvents, k.bareRequest = append(k.bareEvents, bare), append(k.bareRequest, bareRequest)
	return nil
}

// speed returns the millions of events that w handles in a second of processor time, and the
// µs that it needs for a request.
func speed(w *mesh.World) (events, request float64, err error) {
	const batch = 50_000
	before, err := w.Report()
	if err != nil {
		return 0, 0, err
	}
	began := machine.Own()
	for range batch {
		w.Step()
	}
	spent := machine.Own() - began
	after, err := w.Report()
	if err != nil {
		return 0, 0, err
	}
	requests := after.Total.Offered - before.Total.Offered
	return float64(after.Events-before.Events) / float64(spent.Microseconds()), float64(spent.Microseconds()) / float64(requests), nil
}

// judge states the bar, of the median of the turns that count.
func (k *timed) judge(r *experiment.Result, t *table.Table) {
	counts := k.events
	var m experiment.Machine
	if len(k.quiet) >= quietBatches {
		counts = k.quiet
	} else {
		m.Ours = []string{fmt.Sprintf("nobody else slowed the processor down, so that two readings of the clock took at most %d ns, in %d of %d turns; at least %d are needed",
			quietClock, len(k.quiet), len(k.events), quietBatches)}
	}
	r.On(m, func() { r.Floor(k.name, " M events/s", eventsFloor, 0.2, median(counts)) })
	t.Add(k.name, median(counts), median(k.bareEvents), median(k.request), median(k.bareRequest), fmt.Sprintf("%d of %d", len(counts), len(k.events)), fmt.Sprintf("≥ %d", eventsFloor))
}
