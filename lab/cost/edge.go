package cost

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

func edge() experiment.Experiment {
	return experiment.Experiment{
		Name:  "bench/edges",
		Title: "gRPC and net/http with Spillgate on both sides, at the server alone, and with mode off, beside plain ones",
		About: `Servers are as README has them: the gate that spillgate.New makes, the network watched, the runtime's default garbage
collection. Clients are those of README too, with a wallet, or plain. grpcgate keeps goroutines for handlers, so a plain gRPC server that
keeps them too is shown. Servers have one core, clients another one, and 8 or 64 requests are in flight.
All ways take turns of a fraction of a second in one process of clients, so that they meet the same machine; a ratio is that of a round, and
the median of all rounds counts. Processor time is a call's, of all rounds.`,
		Live: true,
		Run:  runEdges,
	}
}

type arm struct {
	name   string
	wallet bool
	gate   string
	floors map[bool]float64 // by Web
}

// arms are what is compared with the first of them, plain on both sides. The floor is the
// least part of plain throughput.
var arms = []arm{
	{"plain", false, "", nil},
	{"both sides", true, usualGate, map[bool]float64{false: 0.90, true: 0.90}},
	{"server only", false, usualGate, map[bool]float64{false: 0.95}},
	{"mode off", false, offGate, map[bool]float64{false: 0.97, true: 0.97}},
	{"plain, goroutines kept", false, keptGoroutines, nil}, // of gRPC alone
}

// armsOf returns the arms over a protocol.
func armsOf(web bool) []arm {
	if web {
		return arms[:len(arms)-1]
	}
	return arms
}

var flights = []int{8, 64}

// mostFailed is the part of the calls, one in so many, that may fail: on a machine that stands
// still for longer than a wait for a credit is worth, some are refused unsent.
const mostFailed = 50

func runEdges(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	rounds, length := 40, 100*time.Millisecond
	if o.Quick {
		rounds, length = 12, 60*time.Millisecond
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Edges", Columns: []table.Column{{Name: "what"}, {Name: "in flight"}, {Name: "calls", Unit: "/s", Format: "%.0f"},
		{Name: "of plain", Format: "%.3f"}, {Name: "server", Unit: "µs", Format: "%.1f"}, {Name: "client", Unit: "µs", Format: "%.1f"}, {Name: "bar"}}}
	for n, web := range []bool{false, true} {
		name := "gRPC"
		if web {
			name = "net/http"
		}
		o.Step(n, 2, name)
		found, err := playEdge(ctx, web, rounds, length)
		if err != nil {
			return nil, fmt.Errorf("cost: %s: %w", name, err)
		}
		arms := armsOf(web)
		for i, batches := range found {
			arm, flight := arms[i%len(arms)], flights[i/len(arms)]
			ratio, sum := beside(batches, found[i-i%len(arms)])
			if sum.Failed > sum.Calls/mostFailed {
				return nil, fmt.Errorf("cost: %s, %s: %d of %d calls failed", name, arm.name, sum.Failed, sum.Calls)
			}
			bar := "-"
			if floor, ok := arm.floors[web]; ok {
				bar = fmt.Sprintf("≥ %.2f", floor)
				r.Floor(fmt.Sprintf("%s, %s, %d in flight: throughput of plain", name, arm.name, flight), "", floor, 0.01, ratio)
			}
			each := float64(sum.Calls) * float64(time.Microsecond)
			t.Add(name+", "+arm.name, flight, sum.rate(), ratio, float64(sum.Server)/each, float64(sum.Client)/each, bar)
		}
	}
	r.Table = []*table.Table{t}
	return r, nil
}

// beside returns the median ratio of throughputs, round by round, and the sum of all rounds.
func beside(mine, plain []batch) (ratio float64, sum batch) {
	ratios := make([]float64, len(mine))
	for i := range mine {
		ratios[i] = mine[i].rate() / plain[i].rate()
		sum.add(mine[i])
	}
	return median(ratios), sum
}

// playEdge returns the batches of each arm, with few requests in flight and then with many.
func playEdge(ctx context.Context, web bool, rounds int, length time.Duration) ([][]batch, error) {
	cpus, err := proc.CPUs()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	own := proc.Spec{Name: "server", CPUs: cpus[:1], GOMAXPROCS: 1}
	servers, arms := map[string]*proc.Child{}, armsOf(web)
	for _, a := range arms {
		if servers[a.gate] == nil {
			if servers[a.gate], err = role.Start(ctx, order{Web: web, Gate: a.gate}, own); err != nil {
				return nil, err
			}
			defer servers[a.gate].Stop(time.Second)
		}
	}
	ask := order{Rounds: rounds, Batch: length}
	for _, flight := range flights {
		for _, a := range arms {
			s := servers[a.gate]
			ask.Ways = append(ask.Ways, way{Web: web, Wallet: a.wallet, Addr: s.Addr(), Pid: s.Pid(), Flight: flight})
		}
	}
	clients, err := role.Start(ctx, ask, proc.Spec{Name: "clients", CPUs: cpus[len(cpus)-1:], GOMAXPROCS: 1})
	if err != nil {
		return nil, err
	}
	defer clients.Stop(time.Second)
	if err := clients.Wait(); err != nil {
		return nil, err
	}
	var found [][]batch
	if err := proc.ReadAnswer(clients.Output(), &found); err != nil {
		return nil, err
	}
	if len(found) != len(ask.Ways) {
		return nil, fmt.Errorf("the clients answered for %d ways, expected %d", len(found), len(ask.Ways))
	}
	return found, nil
}
