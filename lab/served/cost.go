package served

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/lab/experiment"
)

func cost() experiment.Experiment {
	return experiment.Experiment{
		Name:  "bench/cost",
		Title: "what a decision costs, and what a gate costs gRPC, net/http and a reverse proxy",
		About: `A decision is Admit and Leave of a gate that admits, as grpcgate and httpgate call them, timed in batches in
turn with things of like size that everybody knows. While two readings of the clock take over 80 ns, others slow the
processor down: what counts are the batches right before and after which they do not, if there are enough; without
them, a decision that takes too long says nothing. The servers run in processes of their own on one core, plain and
gated in turn, and what counts is their own processor time for a call: one core's throughput is its inverse. The
proxies forward to the same upstream. Medians of the rounds.`,
		Live: true,
		Run:  runCost,
	}
}

func runCost(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	rounds, calls := 90, 300
	if o.Quick {
		rounds, calls = 20, 200
	}
	r := &experiment.Result{Quick: o.Quick}
	d, err := newDecisions()
	if err != nil {
		return nil, err
	}
	defer d.gate.Close()
	// Decisions are timed between the servers, not all at the start: the machine is now
	// fast and now slow, for seconds.
	servers, err := edges(ctx, o, r, rounds, calls, func() error { return d.round(ctx) })
	if err != nil {
		return nil, err
	}
	d.judge(r)
	r.Table = append(r.Table, servers)
	step(o, 1, 1, "done")
	return r, nil
}

// decisions times what happens inside one process.
type decisions struct {
	gate  *live.Gate
	kinds []*kind
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
	return &decisions{gate, []*kind{
		{name: "two readings of the clock", call: func() error { time.Now(); time.Now(); return nil }},
		{name: "a mutex, locked and unlocked twice", call: func() error {
			for range 2 {
				mu.Lock()
				mu.Unlock() //nolint:staticcheck // that is what is timed
			}
			return nil
		}},
		{name: "a slot of a channel, taken and given back", call: func() error { slots <- struct{}{}; <-slots; return nil }},
		{name: "a decision, plain client", bar: true, call: decide(live.Request{})},
		{name: "a decision, client with credits", bar: true, call: decide(live.Request{Client: client})},
		{name: "the same, of a caller without room for the ticket", call: func() error {
			return end(gate.Enter(context.Background(), live.Request{Client: client}))
		}},
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
			if k.spent = append(k.spent, each); clock <= quietClock {
				k.quiet = append(k.quiet, each)
			}
		}
	}
	return ctx.Err()
}

// readClock returns what two readings of the clock take now, in ns.
func readClock() float64 {
	const times = 1_000
	start := time.Now()
	for range times {
		time.Now()
		time.Now()
	}
	return float64(time.Since(start)) / times
}

// judge states the bars, of the medians.
func (d *decisions) judge(r *experiment.Result) {
	t := &table.Table{Title: "Decisions", Columns: []table.Column{{Name: "what"}, {Name: "of all batches", Unit: "ns", Format: "%.0f"},
		{Name: "that count", Unit: "ns", Format: "%.0f"}, {Name: "batches"}, {Name: "allocations", Format: "%.2f"}, {Name: "bar"}}}
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
		t.Add(k.name, median(k.spent), median(counts), fmt.Sprintf("%d of %d", len(counts), len(k.spent)), median(k.allocated), bar)
	}
	r.Table = append(r.Table, t)
}

// edges compares servers with a gate to the same without, in turns of so many calls, and
// calls between before each round.
func edges(ctx context.Context, o experiment.Options, r *experiment.Result, rounds, calls int, between func() error) (*table.Table, error) {
	// In a round each server of a pair has this many turns: both are to meet the machine as
	// it is, now fast and now slow. A round is what is compared: it has enough calls for a
	// collection of garbage.
	const turns = 5
	upstream, err := compare(ctx, httpPlain, "")
	if err != nil {
		return nil, err
	}
	defer upstream.stop()
	pairs := []struct {
		name         string
		plain, gated string
		bar          bool
	}{
		{"gRPC, a unary call", grpcPlain, grpcGated, false},
		{"net/http, a request", httpPlain, httpGated, false},
		{"reverse proxy, a request", proxyPlain, proxyGated, true},
	}
	type side struct {
		drive func(n int) (time.Duration, error)
		times []float64
	}
	var sides [][2]*side
	for _, p := range pairs {
		var both [2]*side
		for i, kind := range []string{p.plain, p.gated} {
			s := &side{}
			if kind == grpcPlain || kind == grpcGated {
				c, err := gather(ctx, kind, 10)
				if err != nil {
					return nil, err
				}
				defer c.close()
				s.drive = func(n int) (time.Duration, error) {
					each, refused, err := c.drive(ctx, n)
					if refused > n/100 {
						err = errors.Join(err, fmt.Errorf("served: %d of %d calls were refused", refused, n))
					}
					return each, err
				}
			} else {
				c, err := compare(ctx, kind, "http://"+upstream.calls)
				if err != nil {
					return nil, err
				}
				defer c.stop()
				client := newClient()
				defer client.CloseIdleConnections()
				s.drive = func(n int) (time.Duration, error) { return driveHTTP(ctx, client, c, n) }
			}
			both[i] = s
		}
		sides = append(sides, both)
	}
	for round := range 1 + rounds { // the first warms up
		step(o, round, 1+rounds, "decisions and servers")
		if err := between(); err != nil {
			return nil, err
		}
		for _, both := range sides {
			var each [2]time.Duration
			for turn := range 2 * turns {
				// Plain, gated, gated, plain, and the next round the other way: what
				// drifts falls on both.
				i := ((turn+1)/2 + round) % 2
				spent, err := both[i].drive(calls)
				if err != nil {
					return nil, err
				}
				each[i] += spent / turns
			}
			if round > 0 {
				for i, s := range both {
					s.times = append(s.times, float64(each[i])/float64(time.Microsecond))
				}
			}
		}
	}
	t := &table.Table{Title: "Servers: processor time", Columns: []table.Column{{Name: "what"}, {Name: "plain", Unit: "µs", Format: "%.1f"},
		{Name: "gated", Unit: "µs", Format: "%.1f"}, {Name: "ratio", Format: "%.2f"}, {Name: "throughput lost", Unit: "%", Format: "%.0f"}, {Name: "bar"}}}
	for i, p := range pairs {
		var ratios []float64
		for k := range rounds {
			ratios = append(ratios, sides[i][1].times[k]/sides[i][0].times[k])
		}
		ratio, bar := median(ratios), "-"
		if p.bar {
			bar = "< 20 %"
			r.Ceiling("throughput that the gate costs a reverse proxy", " %", 20, 3, 100*(1-1/ratio))
		}
		t.Add(p.name, median(sides[i][0].times), median(sides[i][1].times), ratio, 100*(1-1/ratio), bar)
	}
	return t, nil
}

// newClient returns a client that keeps atOnce connections.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}, Timeout: 20 * time.Second}
}

// driveHTTP makes n requests, a multiple of atOnce, and returns the server's processor
// time for one.
func driveHTTP(ctx context.Context, client *http.Client, c *compared, n int) (time.Duration, error) {
	return c.spent(n, func() error { return getMany(ctx, client, "http://"+c.calls+"/", n) })
}

// getMany makes n requests, a multiple of atOnce, that many at a time.
func getMany(ctx context.Context, client *http.Client, url string, n int) (err error) {
	errs := make(chan error, atOnce)
	for range atOnce {
		go func() {
			var err error
			for i := 0; i < n/atOnce && err == nil; i++ {
				err = getOnce(ctx, client, url)
			}
			errs <- err
		}()
	}
	for range atOnce {
		err = errors.Join(err, <-errs)
	}
	return err
}

func getOnce(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("served: %s answered %s", url, resp.Status)
	}
	return nil
}

func step(o experiment.Options, done, of int, what string) {
	if o.Progress != nil {
		o.Progress(done, of, what)
	}
}

// median of a list that is not empty; of an even number the lower one.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[(len(list)-1)/2]
}
