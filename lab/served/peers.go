package served

import (
	"context"
	"fmt"
	"math"
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
so that the kernel lets those who read connections in between; the full form shows it with GOMAXPROCS=1 as well.
All are exponential. Spillgate is told the objective and nothing else. The semaphore is tuned by hand: its bar is the best that six settings of limit and queue (as many
slots as the station has with a queue of 0.1, 0.2, 0.5 or 0.75 of the objective, half of them, twice as many) reach at
any load that was measured, so also at the one that suits it best.`,
		Live: true,
		Run:  runPeers(peersPlan),
	}
}

func peersFast() experiment.Experiment {
	return experiment.Experiment{
		Name:  "admission/peers-fast",
		Title: "the same with objectives of 10 and 2 ms, for a machine with nothing beside",
		About: `As admission/peers, with 2 slots that sleep 1 ms and an objective of 10 ms, and with 100 µs of the server's core and
one of 2 ms. A virtual machine whose host takes a processor away for a millisecond now and then voids these runs.`,
		Live: true,
		Run:  runPeers(fastPlan),
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
		Settings:    []arena.Setting{arena.Sleep(), arena.Spin(), arena.LoneSpin()},
		Loads:       []float64{1, 2, 4, arena.Spike},
		Repeats:     5, Length: 2500 * time.Millisecond, Objectives: 100, Retakes: 40, Patience: 5 * time.Minute,
		Seed: o.Seed,
		// The runs are long: what says nothing about a bar meets one load.
		Skip: func(s arena.Setting, load float64, controller string) bool {
			switch {
			case s == arena.LoneSpin():
				return load < 2 || controller != ours && controller != semaphore
			case controller == ours || controller == semaphore:
				return false
			case byHand(controller):
				return load == arena.Spike
			}
			return load != 2
		},
	}
	if o.Quick {
		plan.Controllers = quickly()
		plan.Settings = []arena.Setting{arena.Sleep(), arena.Spin()}
		plan.Loads = []float64{2, 4}
		plan.Repeats, plan.Length, plan.Objectives, plan.Retakes, plan.Patience = 1, 2*time.Second, 20, 2, 3*time.Second
		plan.Skip = func(s arena.Setting, load float64, controller string) bool {
			if controller == ours || controller == semaphore {
				return false
			}
			return load != 2 || s == arena.Spin() && !byHand(controller) // for want of time
		}
	}
	return plan
}

func fastPlan(o experiment.Options) arena.Plan {
	plan := arena.Plan{
		Controllers: append(arena.Own(), arena.Hand()...),
		Settings:    []arena.Setting{arena.FastSleep(), arena.FastSpin()},
		Loads:       []float64{0.7, 1, 2, 4, arena.Spike},
		Repeats:     3, Length: 2500 * time.Millisecond, Retakes: 40, Patience: 5 * time.Minute,
		Seed: o.Seed,
		// A load below the capacity says only what the semaphore's best is.
		Skip: func(_ arena.Setting, load float64, controller string) bool {
			return load == 0.7 && controller != ours && !byHand(controller)
		},
	}
	if o.Quick {
		plan.Controllers, plan.Loads = quickly(), []float64{2, 4}
		plan.Repeats, plan.Length, plan.Retakes, plan.Patience = 1, 2*time.Second, 2, 3*time.Second
		plan.Skip = func(_ arena.Setting, load float64, controller string) bool {
			return load != 2 && controller != ours && controller != semaphore
		}
	}
	return plan
}

// quickly returns who takes part in a quick form.
func quickly() (list []arena.Controller) {
	for _, c := range append(arena.Own(), arena.Hand()...) {
		if c.Quick || c.Name == semaphore+"/short" {
			list = append(list, c)
		}
	}
	return list
}

func runPeers(planned func(experiment.Options) arena.Plan) func(context.Context, experiment.Options) (*experiment.Result, error) {
	return func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
		plan := planned(o)
		plan.Progress = o.Progress
		outcome, err := arena.Run(ctx, plan)
		if err != nil {
			return nil, err
		}
		r := &experiment.Result{Quick: o.Quick, Table: outcome.Tables()}
		judgePeers(r, outcome)
		return r, nil
	}
}

// judgePeers states the bars.
func judgePeers(r *experiment.Result, outcome *arena.Outcome) {
	table := &table.Table{Title: "Spillgate beside the best setting of the semaphore", Columns: []table.Column{{Name: "station"}, {Name: "load"},
		{Name: "spillgate", Format: "%.3f"}, {Name: "semaphore's best", Format: "%.3f"}, {Name: "reached by"}, {Name: "ratio", Format: "%.3f"}, {Name: "repeats"}},
		Note: "ratio: the median of the repeats in which neither was disturbed; the best is whom it is lowest beside."}
	for _, s := range arena.Settings() {
		for _, row := range outcome.Rows {
			if row.Station != s.Name || row.Controller != ours || row.Load < 2 {
				continue
			}
			best, ratio, repeats := besideBest(outcome, row, true)
			var theirs []string
			if repeats == 0 {
				best, ratio, repeats = besideBest(outcome, row, false)
				theirs = []string{fmt.Sprintf("too few runs of the semaphore were undisturbed: %s", best.Why)}
			}
			table.Add(s.Name, fmt.Sprintf("%gx", row.Load), row.Share, best.Share, fmt.Sprintf("%s at %gx", best.Controller, best.Load), ratio, repeats)
			judgePeer(r, s, row, ratio, theirs)
		}
	}
	r.Table = append(r.Table, table)
}

// besideBest returns the setting and load of the semaphore beside which a row's goodput
// is lowest, and in how many repeats. With quiet, these are undisturbed and half of all
// or more; no repeat if there is no such setting.
func besideBest(outcome *arena.Outcome, row arena.Row, quiet bool) (best arena.Row, ratio float64, repeats int) {
	ratio = math.NaN() // which reaches no bar
	for _, other := range outcome.Rows {
		if other.Station != row.Station || !byHand(other.Controller) || other.Load == arena.Spike || quiet && other.Valid == 0 {
			continue
		}
		x, n := row.Beside(other)
		if n > 0 && (2*n >= row.Repeats || !quiet) && (repeats == 0 || x < ratio) {
			best, ratio, repeats = other, x, n
		}
	}
	return best, ratio, repeats
}

// judgePeer states the bars of a row of Spillgate's. theirs says what disturbed the runs
// of the semaphore that the ratio is of; the other bars compare with nobody.
func judgePeer(r *experiment.Result, s arena.Setting, row arena.Row, ratio float64, theirs []string) {
	where, objective := fmt.Sprintf("%s at %gx", s.Name, row.Load), s.Objective.Seconds()*1e3
	var machine experiment.Machine
	if row.Valid == 0 {
		machine.Ours = []string{row.Why}
	}
	r.On(experiment.Machine{Ours: machine.Ours, Theirs: theirs}, func() {
		// Moved from the ratio of the medians of three repeats to the median of the ratios of
		// five: the machine is faster in one repeat than in another, for both alike.
		r.Floor("goodput, "+where, " of the semaphore's best", 0.95, 0.07, ratio)
	})
	r.On(machine, func() {
		r.Ceiling("p99 of served, "+where, " ms", objective, 0.1*objective, row.P99.Seconds()*1e3)
		// Without a processor to spare, a refusal waits for the end of the handler in its
		// way, which in 1.8 % of the cases is more than a fifth of the objective off.
		if s != arena.LoneSpin() {
			r.Ceiling("refused clients know, p99, "+where, " ms", 0.2*objective, 0.1*objective, row.Refusal99.Seconds()*1e3)
		}
	})
}
