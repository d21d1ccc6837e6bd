package cost

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

func clients() experiment.Experiment {
	return experiment.Experiment{
		Name:  "breakwater/clients-live",
		Title: "10,000 connected gRPC clients: memory for control and processor time a request",
		About: `A server with 10,000 clients and one with 10, both with gates or both without, each a process on the same core. Every
client of a gate says that it obeys credits. Memory is what heap and stacks have in use after collections, while all clients are connected, gated less
plain; stacks, which Go makes 300 B a client larger or smaller from run to run, count where they are larger. Goroutines start with the smallest stack in all servers. Processor time is the server's own for a call; calls are spread over all connections, five at once to each of the two servers. gRPC itself takes more time with more connections, gate or not; so the
bar is on how much more the gate makes of it.`,
		Live: true,
		Run:  runClients,
	}
}

// figures are what the two servers showed, with gates or without.
type figures struct {
	bed.Series
	heap     []float64    // bytes a client of the server with many, by run
	stacks   []float64    // the same
	times    [2][]float64 // µs a call with few and with many clients
	ratios   []float64    // many ÷ few
	accounts int
	offered  int
	refused  int
}

const many, few = 10_000, 10 // clients

func runClients(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	// So long that each of the many is heard, at 1,500 calls/s.
	passes, w := 3, abreast(12*time.Second, side{"few", few, world.Greedy, false}, side{"many", many, world.Greedy, false})
	if o.Quick {
		passes, w.Length = 1, 8*time.Second
	}
	both := []*figures{{Series: bed.Series{Policy: "spillgate"}}, {Series: bed.Series{Policy: "none"}}}
	for n := range passes * len(both) {
		f := both[n%len(both)]
		o.Step(n, passes*len(both), f.Policy)
		if err := f.Play(ctx, w, o.Seed+uint64(n/len(both)), 0); err != nil {
			return nil, err
		}
		f.add(w)
	}
	gated, plain := both[0], both[1]
	if gated.accounts != many {
		return nil, fmt.Errorf("cost: the gate has %d accounts, expected %d", gated.accounts, many)
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Servers", Columns: []table.Column{{Name: "control"}, {Name: "accounts"},
		{Name: "heap", Unit: "B a client", Format: "%.0f"}, {Name: "stacks", Unit: "B a client", Format: "%.0f"},
		{Name: "a call with 10", Unit: "µs", Format: "%.1f"}, {Name: fmt.Sprintf("with %d", many), Unit: "µs", Format: "%.1f"}, {Name: "ratio", Format: "%.3f"}, {Name: "refused", Unit: "calls"}}}
	for _, f := range both {
		t.Add(f.Policy, f.accounts, median(f.heap), median(f.stacks), median(f.times[0]), median(f.times[1]), median(f.ratios), f.refused)
	}
	// Moved from one pass to the median of three, and "refused" to all calls of the three; stacks
	// count where the gate's are larger, as chance makes those of equal goroutines differ.
	r.Ceiling("memory for control", " B a client", 1024, 0, median(gated.heap)-median(plain.heap)+max(median(gated.stacks)-median(plain.stacks), 0))
	r.Ceiling("time a call with all clients against 10, beside the same without a gate", "", 1.1, 0.05, median(gated.ratios)/median(plain.ratios))
	r.Ceiling("refused of all calls", " %", 0.1, 0.4, 100*float64(gated.refused)/float64(gated.offered))
	r.Table = []*table.Table{t}
	return r, nil
}

// add adds what the last run showed.
func (f *figures) add(w *world.World) {
	looks := f.Looks[len(f.Looks)-1]
	one, other := spent(w, looks, "few", false), spent(w, looks, "many", false)
	f.times[0], f.times[1], f.ratios = append(f.times[0], one), append(f.times[1], other), append(f.ratios, other/one)
	for _, l := range looks {
		if l.Service == "many" && l.Heap > 0 {
			f.heap, f.stacks, f.accounts = append(f.heap, float64(l.Heap)/many), append(f.stacks, float64(l.Stacks)/many), l.Clients
		}
	}
	for _, g := range f.Reports[len(f.Reports)-1].Groups {
		f.offered, f.refused = f.offered+g.Offered, f.refused+g.Offered-g.Good-g.Late
	}
}
