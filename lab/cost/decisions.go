package cost

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/lab/experiment"
)

func decision() experiment.Experiment {
	return experiment.Experiment{
		Name:  "bench/decision",
		Title: "what a decision costs, on one processor and on two",
		About: `A decision is Admit and Leave of a gate that admits, as grpcgate and httpgate call them, timed in batches in
turn with things of like size that everybody knows. While two readings of the clock take over 80 ns, others slow the
processor down: what counts are the batches right before and after which they do not, if there are enough; without
them, a decision that takes too long says nothing. A decision as deployed, with the network watched and with all that a gate can do, is beside the two readings
that were timed right before it, in each batch; so is the throughput of two goroutines beside that of one, with a microsecond of work to each decision.`,
		Live: true,
		Run:  runDecision,
	}
}

// runDecision spreads its rounds over half a minute, because the machine is now fast and now slow, for seconds.
func runDecision(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	rounds := 150
	if o.Quick {
		rounds = 40
	}
	d, err := newDecisions()
	if err != nil {
		return nil, err
	}
	defer d.close()
	for n := range rounds {
		o.Step(n, rounds, "decisions")
		if err := d.round(ctx); err != nil {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r := &experiment.Result{Quick: o.Quick}
	d.judge(r)
	return r, nil
}

// pause is as long as a round.
const pause = 100 * time.Millisecond

// decisions times what happens inside one process.
type decisions struct {
	gates []*live.Gate
	kinds []*kind // of the first, two readings of the clock, others are multiples
	scale scale
}

// quietClock is the most that two readings of the clock take, in ns, while nobody else
// uses the processor's other half and its caches: 70 to 77 here, else 100 and more.
const quietClock = 80

// quietBatches is how many batches without others a median must be of.
const quietBatches = 10

// kind is one thing that takes time.
type kind struct {
	name             string
	bar              bool
	pairs            float64 // the bar in pairs of clock readings, 0: none
	pairsSpent       []float64
	call             func() error
	spent, allocated []float64 // ns and allocations of one, by batch
	quiet            []float64 // those of spent while nobody else used the processor
}

// counts returns the batches that count.
func (k *kind) counts() []float64 {
	if len(k.quiet) < quietBatches {
		return k.spent
	}
	return k.quiet
}

func newDecisions() (*decisions, error) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: 100 * time.Millisecond}})
	if err != nil {
		return nil, err
	}
	deployed, err := deployedGate(live.GateConfig{})
	if err != nil {
		return nil, err
	}
	rich := live.GateConfig{Service: "echo", Shares: map[string]float64{"checkout": 2}, ClassShares: &live.SharesConfig{}}
	rich.Rates, rich.Schedule = &rates.Config{}, schedule.Config{Order: schedule.LSTF, Fair: true}
	all, err := deployedGate(rich)
	if err != nil {
		return nil, err
	}
	client := gate.Connect(func(wire.Grant) {})
	end := func(ticket *live.Ticket, err error) error {
		if err == nil {
			ticket.Leave(work.Done)
			ticket.Grant()
		}
		return err
	}
	decide := func(r live.Request) func() error {
		var ticket live.Ticket
		return func() error { return end(&ticket, gate.Admit(context.Background(), r, &ticket)) }
	}
	var mu sync.Mutex
	slots := make(chan struct{}, 1)
	return &decisions{gates: []*live.Gate{gate, deployed, all}, scale: scale{calls: []func() error{asDeployed(deployed, ""), asDeployed(deployed, "")}}, kinds: []*kind{
		{name: "two readings of the clock", call: func() error { _, _ = time.Now(), time.Now(); return nil }},
		{name: "a mutex, locked and unlocked twice", call: func() error {
			for range 2 {
				mu.Lock()
				//lint:ignore SA2001 the pair is what is timed
				mu.Unlock()
			}
			return nil
		}},
		{name: "a slot of a channel, taken and given back", call: func() error { slots <- struct{}{}; <-slots; return nil }},
		{name: "a decision, plain client", bar: true, call: decide(live.Request{})},
		{name: "a decision, client with credits", bar: true, call: decide(live.Request{Client: client})},
		{name: "the same, of a caller without room for the ticket", call: func() error {
			return end(gate.Enter(context.Background(), live.Request{Client: client}))
		}},
		{name: "a decision, as deployed", pairs: 2.5, call: asDeployed(deployed, "")},
		{name: "the same with rates, LSTF, shares and task", pairs: 5, call: asDeployed(all, "checkout")},
	}}, nil
}

// round times a few batches of each kind, in turn.
func (d *decisions) round(ctx context.Context) error {
	const batch = 3_000 // so many that cold caches after reading the counts do not show
	var m runtime.MemStats
	for range 5 {
		for _, k := range d.kinds {
			runtime.ReadMemStats(&m)
			mallocs, clock := m.Mallocs, readClock()
			start := time.Now()
			for range batch {
				if err := k.call(); err != nil {
					return err
				}
			}
			each := float64(time.Since(start)) / batch
			clock = max(clock, readClock())
			runtime.ReadMemStats(&m)
			k.allocated = append(k.allocated, float64(m.Mallocs-mallocs)/batch)
			k.spent = append(k.spent, each)
			k.pairsSpent = append(k.pairsSpent, each/d.kinds[0].spent[len(k.spent)-1])
			if clock <= quietClock {
				k.quiet = append(k.quiet, each)
			}
		}
	}
	if err := d.scale.round(); err != nil {
		return err
	}
	return ctx.Err()
}

// deployedGate returns a gate as an edge has it: with the network watched, and culprits looked for.
func deployedGate(cfg live.GateConfig) (*live.Gate, error) {
	cfg.Objective = echoObjective
	gate, err := live.NewGate(cfg)
	if err != nil {
		return nil, err
	}
	gate.WatchNetwork()
	return gate, nil
}

// echoKind is the kind of all requests.
type echoKind struct{}

func (echoKind) Kind() string { return echoMethod }

// asDeployed returns a request of a connection with credits, as grpcgate takes it through a gate.
func asDeployed(gate *live.Gate, workflow string) func() error {
	var ticket live.Ticket
	ctx, client, sender := context.Background(), gate.Connect(func(wire.Grant) {}), live.NewSender("a peer")
	var kind live.Kind = echoKind{}
	return func() error {
		r := live.Request{Client: client, Sender: sender, Kind: kind}
		r.Workflow = workflow
		if err := gate.Admit(ctx, r, &ticket); err != nil {
			return err
		}
		ticket.Watch(ctx)
		ticket.Cancelled()
		ticket.Leave(work.Done)
		ticket.Grant()
		ticket.Unwatch()
		return nil
	}
}

// readClock returns what two readings of the clock take now, in ns.
func readClock() float64 {
	const times = 1_000
	start := time.Now()
	for range times {
		_, _ = time.Now(), time.Now()
	}
	return float64(time.Since(start)) / times
}

// judge states the bars, of the medians.
func (d *decisions) judge(r *experiment.Result) {
	t := &table.Table{Title: "Decisions", Columns: []table.Column{{Name: "what"}, {Name: "of all batches", Unit: "ns", Format: "%.0f"},
		{Name: "that count", Unit: "ns", Format: "%.0f"}, {Name: "pairs of clock readings", Format: "%.1f"}, {Name: "batches"}, {Name: "allocations", Format: "%.2f"}, {Name: "bar"}}}
	for _, k := range d.kinds {
		bar, counts := "-", k.counts()
		if k.bar {
			bar = "≤ 400 ns, ≤ 1"
			var machine experiment.Machine
			if len(k.quiet) < quietBatches {
				machine.Ours = []string{fmt.Sprintf("nobody else slowed the processor down, so that two readings of the clock took at most %d ns, in %d of %d batches; at least %d are needed",
					quietClock, len(k.quiet), len(k.spent), quietBatches)}
			}
			// Moved from the median of all batches to that of those which nobody slowed down,
			// if there are enough: the machine is fast or slow for some milliseconds at a time.
			r.On(machine, func() { r.Ceiling(k.name, " ns", 400, 0, median(counts)) })
			r.Ceiling(k.name+", allocations", "", 1, 0.01, median(k.allocated))
		}
		if k.pairs > 0 {
			bar = fmt.Sprintf("≤ %.1f pairs, ≤ 1", k.pairs)
			r.Ceiling(k.name, " pairs of clock readings", k.pairs, 0.1, median(k.pairsSpent))
			// The reading of the counts allocates now and then: a thousandth of an allocation is none.
			r.Ceiling(k.name+", allocations", "", 1, 0.01, math.Round(100*median(k.allocated))/100)
		}
		t.Add(k.name, median(k.spent), median(counts), median(k.pairsSpent), fmt.Sprintf("%d of %d", len(counts), len(k.spent)), median(k.allocated), bar)
	}
	r.Table = append(r.Table, t)
	d.scale.judge(r)
}

func (d *decisions) close() {
	for _, g := range d.gates {
		_ = g.Close()
	}
}

// median of a list that is not empty; of an even number the lower one.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[(len(list)-1)/2]
}
