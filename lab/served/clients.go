package served

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func clients() experiment.Experiment {
	return experiment.Experiment{
		Name:  "breakwater/clients-live",
		Title: "10,000 connected gRPC clients: memory for control and processor time a request",
		About: `10,000 connections to a gated and to a plain gRPC server, each a process on one core. Every client says that it
obeys credits, makes calls and asks for a control stream; the server grants as many streams as its limit. Memory is
what heap and stacks have in use after collections, gated less plain. Processor time is the server's own for a call,
five at once, spread over all connections, with 10,000 clients and with 10 in turn, thousands of calls each, since
processors change their speed by the second. gRPC itself takes more time with more connections, gate or not; so the
bar is on how much more the gate makes of it. Goroutines start with the smallest stack in all servers.`,
		Live: true,
		Run:  runClients,
	}
}

// crowdFigures are what one kind of server shows.
type crowdFigures struct {
	memory            []float64    // bytes in all, by pass
	times             [2][]float64 // µs a call with few and with many clients, by turn
	ratios            []float64    // many ÷ few, by turn
	accounts, refused int
}

func runClients(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	const many, few = 10_000, 10
	// Several passes, the kinds in turn: the machine is now fast and now slow.
	passes, rounds, turns := 3, 5, 5
	if o.Quick {
		passes, rounds = 1, 2
	}
	if err := allowFiles(many + 500); err != nil {
		return nil, err
	}
	var figures [2]crowdFigures
	kinds := []string{grpcGated, grpcPlain}
	for pass := range passes {
		for i, kind := range kinds {
			before := (pass*len(kinds) + i) * (2 + rounds)
			show := func(done int, what string) {
				step(o, before+done, passes*len(kinds)*(2+rounds), kind+": "+what)
			}
			if err := figures[i].measure(ctx, kind, few, many, rounds, turns, show); err != nil {
				return nil, err
			}
		}
	}
	step(o, 1, 1, "done")
	gated, plain := figures[0], figures[1]
	if gated.accounts != many {
		return nil, fmt.Errorf("served: the gate has %d accounts, expected %d", gated.accounts, many)
	}

	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Servers", Columns: []table.Column{{Name: "server"}, {Name: "accounts"},
		{Name: "heap and stacks", Unit: "MB", Format: "%.1f"}, {Name: "a client", Unit: "B", Format: "%.0f"},
		{Name: "a call with 10", Unit: "µs", Format: "%.1f"}, {Name: fmt.Sprintf("with %d", many), Unit: "µs", Format: "%.1f"}, {Name: "ratio", Format: "%.3f"}, {Name: "refused", Unit: "calls"}}}
	for i, f := range figures {
		t.Add(kinds[i], f.accounts, median(f.memory)/1e6, median(f.memory)/many, median(f.times[0]), median(f.times[1]), median(f.ratios), f.refused)
	}
	// Moved from one pass to the median of three, and "refused" to all calls of the three.
	r.Ceiling("memory for control", " B a client", 1024, 0, (median(gated.memory)-median(plain.memory))/many)
	r.Ceiling("time a call with all clients against 10, beside the same without a gate", "", 1.1, 0.05, median(gated.ratios)/median(plain.ratios))
	r.Ceiling("refused of all calls", " %", 0.1, 0.4, 100*float64(gated.refused)/float64(2*passes*rounds*turns*turnCalls))
	r.Table = []*table.Table{t}
	return r, nil
}

// evenStacks makes every goroutine start with the smallest stack. The runtime would take
// the mean of those in use, which falls on either side of a power of two with the
// number of connections and with what else the process does; and that of a call grows
// once or twice by it, which is 2 or 3 µs.
const evenStacks = "GODEBUG=adaptivestackstart=0"

// turnCalls is how many calls a server gets before it is the other one's turn: a few
// times as many as make one collection with few clients.
const turnCalls = 4_000

// measure adds rounds in which a server with many clients is compared to one of its kind
// with few. Each round begins without garbage and is of several turns.
func (f *crowdFigures) measure(ctx context.Context, kind string, few, many, rounds, turns int, show func(int, string)) error {
	show(0, "connecting")
	small, err := gather(ctx, kind, few, evenStacks)
	if err != nil {
		return err
	}
	defer small.close()
	big, err := gather(ctx, kind, many, evenStacks)
	if err != nil {
		return err
	}
	defer big.close()
	show(1, "memory")
	s, err := big.state()
	if err != nil {
		return err
	}
	f.memory, f.accounts = append(f.memory, s.Memory), s.Clients
	for round := range rounds {
		show(2+round, "calls")
		for _, c := range []*crowd{small, big} {
			if _, err := c.state(); err != nil {
				return err
			}
		}
		for range turns {
			var each [2]float64
			for i, c := range []*crowd{small, big} {
				took, refused, err := c.drive(ctx, turnCalls)
				if err != nil {
					return err
				}
				f.refused += refused
				each[i] = float64(took) / float64(time.Microsecond)
				f.times[i] = append(f.times[i], each[i])
			}
			f.ratios = append(f.ratios, each[1]/each[0])
		}
	}
	return nil
}
