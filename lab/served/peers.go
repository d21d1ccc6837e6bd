package served

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/arena"
	"github.com/spillgate/spillgate/lab/experiment"
)

func peers() experiment.Experiment {
	return experiment.Experiment{
		Name:  "admission/peers",
		Title: "Spillgate beside its peers on real gRPC, from 1x to 4x and through a spike",
		About: `One server process and one generator process with 100 connections, a core each. The sleep station has 4 slots
of 10 ms and an objective of 100 ms, the spin station burns 2 ms of the server's own core and has 40 ms, and GOMAXPROCS=2
so that the kernel lets those who read connections in between; the full form shows it with GOMAXPROCS=1 as well, and adds
fast ones: 2 slots of 1 ms with 10 ms, and 100 µs with 2 ms. All are exponential. Spillgate is told the objective
and nothing else. The semaphore is tuned by hand: its bar is the best that six settings of limit and queue (as many
slots as the station has with a queue of 0.1, 0.2, 0.5 or 0.75 of the objective, half of them, twice as many) reach at
any load that was measured, so also at the one that suits it best. Clients of the semaphore that are refused know at
once: what they wait beside Spillgate's is the machine.`,
		Live: true,
		Run:  runPeers,
	}
}

const (
	ours      = "spillgate"
	semaphore = "semaphore"
)

// fast reports whether the noise of a virtual machine is large against the
// setting's objective.
func fast(s arena.Setting) bool { return s.Objective <= 10*time.Millisecond }

// byHand reports whether a controller is one of the settings of the semaphore.
func byHand(controller string) bool {
	return controller == semaphore || strings.HasPrefix(controller, semaphore+"/")
}

func peersPlan(o experiment.Options) arena.Plan {
	plan := arena.Plan{
		Controllers: append(arena.Own(), arena.Hand()...),
		Loads:       []float64{0.7, 1, 2, 4, arena.Spike},
		Repeats:     3, Length: 2500 * time.Millisecond, Objectives: 100, Retakes: 40, Patience: 5 * time.Minute,
		Seed: o.Seed,
		Skip: func(s arena.Setting, load float64, controller string) bool {
			if s == arena.LoneSpin() {
				return load < 2 || controller != ours && controller != semaphore
			}
			if fast(s) {
				// A load below the capacity says only what the semaphore's best is.
				return load == 0.7 && controller != ours && !byHand(controller)
			}
			return load < 1 || controller != ours && !byHand(controller) // long runs
		},
	}
	if o.Quick {
		plan.Controllers = nil
		for _, c := range append(arena.Own(), arena.Hand()...) {
			if c.Quick || c.Name == semaphore+"/short" {
				plan.Controllers = append(plan.Controllers, c)
			}
		}
		plan.Settings = []arena.Setting{arena.Sleep(), arena.Spin()}
		plan.Loads = []float64{2, 4}
		plan.Repeats, plan.Length, plan.Objectives, plan.Retakes, plan.Patience = 1, 2*time.Second, 20, 3, 3*time.Second
		plan.Skip = func(s arena.Setting, load float64, controller string) bool {
			return load != 2 && controller != ours && controller != semaphore
		}
	}
	return plan
}

func runPeers(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	plan := peersPlan(o)
	plan.Progress = o.Progress
	outcome, err := arena.Run(ctx, plan)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick, Table: outcome.Tables()}
	judgePeers(r, outcome)
	return r, nil
}

// judgePeers states the bars.
func judgePeers(r *experiment.Result, outcome *arena.Outcome) {
	table := &table.Table{Title: "Spillgate beside the best setting of the semaphore", Columns: []table.Column{{Name: "station"}, {Name: "load"},
		{Name: "spillgate", Format: "%.3f"}, {Name: "semaphore's best", Format: "%.3f"}, {Name: "reached by"}, {Name: "ratio", Format: "%.3f"}}}
	for _, s := range arena.Settings() {
		var best arena.Row
		for _, row := range outcome.Rows {
			if row.Station == s.Name && byHand(row.Controller) && row.Load != arena.Spike && row.Valid > 0 && row.Share > best.Share {
				best = row
			}
		}
		for _, row := range outcome.Rows {
			if row.Station != s.Name || row.Controller != ours || row.Load < 2 {
				continue
			}
			where := fmt.Sprintf("%s at %gx", s.Name, row.Load)
			if best.Valid == 0 {
				r.Void = append(r.Void, fmt.Sprintf("%s: no run of the semaphore was undisturbed", s.Name))
				break
			}
			ratio := row.Share / best.Share
			table.Add(s.Name, fmt.Sprintf("%gx", row.Load), row.Share, best.Share, fmt.Sprintf("%s at %gx", best.Controller, best.Load), ratio)
			objective := s.Objective.Seconds() * 1e3
			known := len(r.Short())
			r.Floor("goodput, "+where, " of the semaphore's best", 0.95, 0.07, ratio)
			// Without a processor to spare, a refusal waits for the end of the handler in
			// its way, which in 1.8 % of the cases is more than a fifth of the objective off.
			if s != arena.LoneSpin() {
				r.Ceiling("refused clients know, p99, "+where, " ms", 0.2*objective, 0.1*objective, row.Refusal99.Seconds()*1e3)
			}
			r.Ceiling("p99 of served, "+where, " ms", objective, 0.1*objective, row.P99.Seconds()*1e3)
			// A disturbed run only makes its figures worse: it can reach a bar, and
			// cannot miss one.
			if row.Valid == 0 && len(r.Short()) > known {
				r.Void = append(r.Void, fmt.Sprintf("%s, spillgate: %s", where, row.Why))
			}
		}
	}
	r.Table = append(r.Table, table)
}
