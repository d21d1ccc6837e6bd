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
		About: `One server process and one generator process with 100 connections, a core each. The sleep station has 2 slots
of 1 ms and an objective of 10 ms, the spin station burns 100 µs of the server's own core and has 2 ms; both are
exponential. Spillgate is told the objective and nothing else. The semaphore is tuned by hand: its bar is the best
that six settings of limit and queue (as many slots as the station has with a queue of 0.1, 0.2, 0.5 or 0.75 of the
objective, half of them, twice as many) reach at any load that was measured, so also at the one that suits it best.`,
		Live: true,
		Run:  runPeers,
	}
}

const (
	ours      = "spillgate"
	semaphore = "semaphore"
)

// byHand reports whether a controller is one of the settings of the semaphore.
func byHand(controller string) bool {
	return controller == semaphore || strings.HasPrefix(controller, semaphore+"/")
}

func peersPlan(o experiment.Options) arena.Plan {
	plan := arena.Plan{
		Controllers: append(arena.Own(), arena.Hand()...),
		Loads:       []float64{0.7, 1, 2, 4, arena.Spike},
		Repeats:     3, Length: 2500 * time.Millisecond, Retakes: 40, Patience: 5 * time.Minute,
		Seed: o.Seed,
		// A load below the capacity says only what the semaphore's best is.
		Skip: func(_ arena.Setting, load float64, controller string) bool {
			return load == 0.7 && controller != ours && !byHand(controller)
		},
	}
	if o.Quick {
		plan.Controllers = nil
		for _, c := range append(arena.Own(), arena.Hand()...) {
			if c.Quick || c.Name == semaphore+"/short" {
				plan.Controllers = append(plan.Controllers, c)
			}
		}
		plan.Loads = []float64{0.7, 1, 2, 4}
		plan.Repeats, plan.Length, plan.Retakes, plan.Patience = 1, 1200*time.Millisecond, 4, 4*time.Second
		plan.Skip = func(s arena.Setting, load float64, controller string) bool {
			switch controller {
			case ours:
				return load < 2
			case semaphore:
				return load == 0.7 && s.Station == "sleep" // where it does best at 2x
			}
			return load != 2
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
	for _, s := range []arena.Setting{arena.Sleep(), arena.Spin()} {
		var best arena.Row
		for _, row := range outcome.Rows {
			if row.Station == s.Station && byHand(row.Controller) && row.Load != arena.Spike && row.Valid > 0 && row.Share > best.Share {
				best = row
			}
		}
		for _, row := range outcome.Rows {
			if row.Station != s.Station || row.Controller != ours || row.Load < 2 {
				continue
			}
			where := fmt.Sprintf("%s at %gx", s.Station, row.Load)
			if best.Valid == 0 {
				r.Void = append(r.Void, fmt.Sprintf("%s: no run of the semaphore was undisturbed", s.Station))
				break
			}
			ratio := row.Share / best.Share
			table.Add(s.Station, fmt.Sprintf("%gx", row.Load), row.Share, best.Share, fmt.Sprintf("%s at %gx", best.Controller, best.Load), ratio)
			objective := s.Objective.Seconds() * 1e3
			known := len(r.Short())
			r.Floor("goodput, "+where, " of the semaphore's best", 0.95, 0.07, ratio)
			r.Ceiling("refused clients know, p99, "+where, " ms", 0.2*objective, 0.1*objective, row.Refusal99.Seconds()*1e3)
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
