package tracing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/taskfile"
	"github.com/spillgate/spillgate/lab/experiment"
)

const (
	// mostCoarse and mostPrecise are what tracing may take of the throughput.
	mostCoarse, mostPrecise = 0.006, 0.05
	// mostWindow is what the engine may take for a window of windowTasks tasks at
	// windowResources resources, in milliseconds.
	mostWindow                   = 1
	windowTasks, windowResources = 1000, 8
	// objective is that of the engine, as in the examples.
	objective = 100 * time.Millisecond
)

// sizes are requests of some 15 µs, about the least that a request over a socket costs a server,
// and of some 70 µs. The bars are of the second: 16 events at the 25 ns that one of Java may cost
// are 0.6 % of 67 µs, and what a server of the 16 cases is measured with is no smaller: of c1's
// 1,500 transactions a second on two processors each has 20 statements, 67 µs each.
var sizes = []size{{steps: 10_000}, {steps: 45_000, judged: true}}

// size is how much work a request is.
type size struct {
	steps  int
	judged bool
}

// Experiments returns those of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{{Name: "atropos/overhead", Title: "What tracing costs a program in C, Go and Java, and the engine a window", Live: true,
		About: "A load of requests with 16 events each keeps every processor busy: a task begins and ends, and waits for, takes and gives back a lock three times and a pool once. Without an engine, in mode coarse and in mode precise it runs in turn, many times. What it then serves less per second of processor time is the overhead, together with what the engine uses. The bars are of requests of some 70 µs, a statement of the cases' databases; the events of a request cost the same whatever else it does, and stand in the second table.",
		Run:   overhead}}
}

func overhead(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	rounds, slice := 60, 10
	if o.Quick {
		rounds = 8
	}
	r := &experiment.Result{Quick: o.Quick}
	lost := &table.Table{Title: fmt.Sprintf("What tracing takes of the throughput, in %d interleaved rounds", rounds), Columns: []table.Column{{Name: "language"},
		{Name: "request", Unit: "µs", Format: "%.1f"}, {Name: "coarse", Unit: "%", Format: "%.2f"}, {Name: "of it the engine", Unit: "%", Format: "%.2f"}, {Name: "precise", Unit: "%", Format: "%.2f"}, {Name: "of it the engine", Unit: "%", Format: "%.2f"},
		{Name: "spread of untraced", Unit: "%", Format: "%.2f"}},
		Note: "request: the processor time of one, untraced. Rates are those of the least disturbed tenth of spans of 20 ms in each mode; spread: between the quartiles of all"}
	events := &table.Table{Title: "What events cost, each the fastest of many slices", Columns: []table.Column{{Name: "language"},
		{Name: "all 16 of a request, coarse", Unit: "ns", Format: "%.0f"}, {Name: "precise", Unit: "ns", Format: "%.0f"},
		{Name: "one, off", Unit: "ns", Format: "%.2f"}, {Name: "coarse", Unit: "ns", Format: "%.2f"}, {Name: "precise", Unit: "ns", Format: "%.2f"}, {Name: "half a lock", Unit: "ns", Format: "%.2f"}, {Name: "coarse ÷ half a lock", Format: "%.2f"}},
		Note: "half a lock: half of an uncontended lock and unlock of the language's own mutex"}
	all := programs()
	for i, p := range all {
		o.Step(i, len(all)+1, p.name)
		if why := p.missing(); why != "" {
			r.Notes = append(r.Notes, why)
			continue
		}
		if err := p.measure(ctx, r, lost, events, rounds, slice, o.Quick); err != nil {
			return nil, err
		}
	}
	window, err := timeWindow()
	if err != nil {
		return nil, err
	}
	r.Ceiling(fmt.Sprintf("engine: a window of %d tasks and %d resources", windowTasks, windowResources), " ms", mostWindow, 0.1, window)
	r.Table = append(r.Table, lost, events)
	return r, nil
}

// measure takes one language.
func (p *program) measure(ctx context.Context, r *experiment.Result, loss, events *table.Table, rounds, slice int, quick bool) error {
	dir, err := os.MkdirTemp("", "spillgate-tracing-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	load, bench, err := p.build(ctx, dir)
	if err != nil {
		return err
	}
	for _, size := range sizes {
		in, err := p.throughput(ctx, load, filepath.Join(dir, "tasks"), size.steps, rounds, slice)
		if err != nil {
			return err
		}
		off := &in[taskfile.Off]
		coarse, precise := lost(&in[taskfile.Coarse], off), lost(&in[taskfile.Precise], off)
		loss.Add(p.name, 1e6/off.rate(), 100*coarse, 100*(in[taskfile.Coarse].share()-off.share()), 100*precise, 100*(in[taskfile.Precise].share()-off.share()),
			100*(quantile(off.rates, 0.75)-quantile(off.rates, 0.25))/off.rate())
		if size.judged {
			r.Ceiling(p.name+": coarse", " of the throughput", mostCoarse, 0.002, coarse)
			r.Ceiling(p.name+": precise", " of the throughput", mostPrecise, 0.005, precise)
		}
	}
	ns, err := p.events(ctx, bench, filepath.Join(dir, "events"), quick)
	if err != nil {
		return err
	}
	events.Add(p.name, ns["coarse-request"], ns["precise-request"], ns["off"], ns["coarse"], ns["precise"], ns["mutex"], ns["coarse"]/ns["mutex"])
	r.Ceiling(p.name+": an event, coarse", " ns", p.mostEvent, 1, ns["coarse"])
	return nil
}

// throughput returns what the load does in each mode, with requests of so many steps. In mode off
// there is no engine.
func (p *program) throughput(ctx context.Context, load []string, path string, steps, rounds, slice int) (in [taskfile.Precise + 1]speed, err error) {
	engine, err := taskfile.Attach(path, taskfile.Geometry{})
	if err != nil {
		return in, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	out := newCounts()
	child, err := p.start(ctx, load, path, steps, out)
	if err != nil {
		cancel()
		return in, err
	}
	defer child.Stop(0)
	defer cancel()
	if err := out.measure(ctx, 3*slice, new(speed)); err != nil { // what is compiled while it runs
		return in, err
	}
	for round := range rounds {
		for turn := range in {
			mode := taskfile.Mode((turn + round) % len(in))
			if err := p.slice(ctx, engine, mode, out, slice, &in[mode]); err != nil {
				return in, err
			}
		}
	}
	return in, nil
}

// slice measures the load in one mode, with an engine that looks and decides unless it
// is off.
func (p *program) slice(ctx context.Context, engine *taskfile.Engine, mode taskfile.Mode, out *counts, n int, to *speed) error {
	if err := engine.SetMode(mode); err != nil {
		return err
	}
	if mode == taskfile.Off {
		return out.measure(ctx, n, to)
	}
	choice, err := culprit.New(culprit.Config{Objective: objective})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- engine.Run(running, taskfile.Loop{Period: 100 * time.Millisecond, Objective: objective, See: func(l *taskfile.Look) { choice.Observe(&l.Sample) }})
	}()
	err = out.measure(ctx, n, to)
	stop()
	if e := <-ended; !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	return err
}

// events returns what single events cost, in nanoseconds, and half a lock and unlock.
func (p *program) events(ctx context.Context, bench []string, path string, quick bool) (map[string]float64, error) {
	if bench == nil {
		return goEvents(path)
	}
	rounds := "20000000"
	if quick {
		rounds = "10000000"
	}
	out, err := exec.CommandContext(ctx, bench[0], append(bench[1:len(bench):len(bench)], path, rounds)...).Output()
	if err != nil {
		return nil, fmt.Errorf("tracing: the events of %s: %w", p.name, err)
	}
	ns := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if ns[name], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, fmt.Errorf("tracing: the events of %s: line %q, expected a name and a number", p.name, line)
		}
	}
	return ns, nil
}

// lost returns the part of the throughput that a mode takes: what its load serves less, and what
// its engine uses more than this process does without.
func lost(with, without *speed) float64 {
	return 1 - with.rate()/without.rate()*(1-with.share())/(1-without.share())
}

// quantile returns the quantile q of all, which it sorts.
func quantile(all []float64, q float64) float64 {
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}
