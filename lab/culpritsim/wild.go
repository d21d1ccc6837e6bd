package culpritsim

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim/hold"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// trialRun is one random application: quiet, or with a hog.
type trialRun struct {
	seed uint64
	hog  bool
}

// found is what it came to.
type found struct {
	quiet, hog, harmful bool
	right, wrong        int
	broken              []string
	decided             time.Duration
	rate, tail          float64 // of the run without hog; a hogged run only
	minutes             float64 // task-minutes
	suspect, lookedAt   int
	noneRate            float64 // the same without control
	kind                culprit.Kind
}

// hogAt is when a hog begins, hogEnd when its run ends; a quiet run takes quietEnd.
const (
	hogAt    = 10 * time.Second
	hogEnd   = 20 * time.Second
	quietEnd = 60 * time.Second
)

// objectiveFor plays the application alone and returns the objective that its owner
// would set.
func objectiveFor(seed uint64) time.Duration {
	a := newRandomApp(seed)
	a.cfg.From, a.cfg.End = time.Second, 15*time.Second
	return max(time.Duration(slack*float64(hold.Play(a.cfg).P99)), 2*ms)
}

func playRandom(t *trialRun) (found, error) {
	objective := objectiveFor(t.seed)
	w, err := watch(culprit.Config{Objective: objective, Mode: culprit.Enforce})
	if err != nil {
		return found{}, err
	}
	if !t.hog {
		return playQuiet(t.seed, objective, w), nil
	}
	return playHog(t.seed, objective, w), nil
}

func playQuiet(seed uint64, objective time.Duration, w *watched) found {
	a := newRandomApp(seed)
	a.crowd()
	a.calm(quietEnd)
	a.busy(quietEnd)
	a.cfg.Objective, a.cfg.From, a.cfg.End, a.cfg.Controller = objective, time.Second, quietEnd, w
	r := hold.Play(a.cfg)
	return found{quiet: true, wrong: len(r.Cancels) + r.WrongLimits, broken: w.broken, minutes: r.TaskTime.Minutes(), suspect: w.suspect, lookedAt: w.looks}
}

func playHog(seed uint64, objective time.Duration, w *watched) found {
	play := func(hog bool, control hold.Controller) (*hold.Report, *randomApp, bool) {
		a := newRandomApp(seed)
		a.calm(hogEnd)
		a.cfg.Objective, a.cfg.From, a.cfg.End, a.cfg.Controller = objective, hogAt+time.Second, hogEnd, control
		if hog && !a.hog(hogAt) {
			return nil, a, false
		}
		return hold.Play(a.cfg), a, true
	}
	none, _, ok := play(true, nil)
	if !ok {
		return found{}
	}
	free, _, _ := play(false, nil)
	r, a, _ := play(true, w)
	last := a.cfg.Guests[len(a.cfg.Guests)-1].Program.Ops[0].Resource
	f := found{hog: true, harmful: none.P99 > objective || none.Done == 0, broken: w.broken, decided: -1, minutes: r.TaskTime.Minutes(),
		rate: r.Rate / max(free.Rate, 1), tail: float64(r.P99) / float64(max(free.P99, 1)), suspect: w.suspect, lookedAt: w.looks,
		noneRate: none.Rate / max(free.Rate, 1), kind: a.cfg.Resources[last].Kind}
	f.wrong += r.WrongLimits
	for _, c := range r.Cancels {
		if !c.Culprit {
			f.wrong++
			continue
		}
		if f.right == 0 {
			f.decided = c.At.Sub(mono.Time(hogAt))
		}
		f.right++
	}
	return f
}

// How many applications each form plays. A quiet one has about 100 task-minutes, so
// that the full form sees a million of them.
const (
	quickQuiet, quickHogs = 150, 200
	fullQuiet, fullHogs   = 11_000, 2_000
)

func runRandom(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	quiet, hogs, minutes := fullQuiet, fullHogs, 1e6
	if o.Quick {
		quiet, hogs, minutes = quickQuiet, quickHogs, 1e4
	}
	var runs []trialRun
	for _, seed := range seedsOf(o.Seed, quiet) {
		runs = append(runs, trialRun{seed, false})
	}
	for _, seed := range seedsOf(o.Seed, hogs) {
		runs = append(runs, trialRun{seed, true})
	}
	all, err := experiment.Each(ctx, o, runs, func(t *trialRun) (string, float64) { return fmt.Sprintf("seed %d", t.seed), 1 },
		func(_ context.Context, t *trialRun) (found, error) { return playRandom(t) })
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	judgeQuiet(r, all, minutes)
	judgeHogs(r, all)
	broken := 0
	for i, f := range all {
		broken += len(f.broken)
		if f.wrong > 0 && len(r.Notes) < 10 {
			r.Notes = append(r.Notes, fmt.Sprintf("seed %d, with a culprit: %v: %d wrong cancels", runs[i].seed, runs[i].hog, f.wrong))
		}
		for _, text := range f.broken {
			if len(r.Notes) < 10 {
				r.Notes = append(r.Notes, fmt.Sprintf("seed %d: %s", runs[i].seed, text))
			}
		}
	}
	r.Ceiling("invariants broken", "", 0, 0, float64(broken))
	return r, nil
}

func judgeQuiet(r *experiment.Result, all []found, wanted float64) {
	minutes, cancels, suspect, looks, apps := 0.0, 0, 0, 0, 0
	for _, f := range all {
		if f.quiet {
			apps++
			minutes += f.minutes
			cancels += f.wrong
			suspect += f.suspect
			looks += f.lookedAt
		}
	}
	t := &table.Table{Title: "Without a culprit", Columns: []table.Column{{Name: "applications"}, {Name: "task-minutes", Format: "%.0f"},
		{Name: "looks"}, {Name: "suspect, overload or named", Unit: "of looks", Format: "%.4f"}, {Name: "cancels"}}}
	t.Add(apps, minutes, looks, float64(suspect)/float64(max(looks, 1)), cancels)
	r.Table = append(r.Table, t)
	r.Floor("task-minutes without a culprit", "", wanted, 0, minutes)
	r.Ceiling("cancels without a culprit", "", 0, 0, float64(cancels))
}

func judgeHogs(r *experiment.Result, all []found) {
	t := &table.Table{Title: "With a culprit", Columns: []table.Column{{Name: "its resource"}, {Name: "applications"}, {Name: "harmed"},
		{Name: "culprit cancelled", Unit: "of harmed", Format: "%.3f"}, {Name: "others cancelled"}, {Name: "within 500 ms", Unit: "of cancelled", Format: "%.3f"},
		{Name: "throughput", Unit: "of the run without, mean", Format: "%.3f"}, {Name: "without control", Format: "%.3f"}}}
	var harmed, right, wrong int
	for kind := culprit.Lock; kind <= culprit.System; kind++ {
		var n, h, ok, bad, fast int
		var rate, none float64
		for _, f := range all {
			if !f.hog || f.kind != kind {
				continue
			}
			n++
			bad += f.wrong
			if !f.harmful {
				continue
			}
			h++
			rate, none = rate+f.rate, none+f.noneRate
			if f.right > 0 {
				ok++
				if f.decided <= decideWithin {
					fast++
				}
			}
		}
		t.Add(kind.String(), n, h, float64(ok)/float64(max(h, 1)), bad, float64(fast)/float64(max(ok, 1)), rate/float64(max(h, 1)), none/float64(max(h, 1)))
		harmed, right, wrong = harmed+h, right+ok, wrong+bad
	}
	t.Note = "A culprit that makes some percent of the requests late is found only when enough of them have been: the time counts from its start."
	r.Table = append(r.Table, t)
	r.Floor("culprits cancelled", " of those that harm", 0.98, 0, float64(right)/float64(max(harmed, 1)))
	r.Ceiling("others cancelled beside a culprit", " per culprit", 0.001, 0, float64(wrong)/float64(max(right, 1)))
}
