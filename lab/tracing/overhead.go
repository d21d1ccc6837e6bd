package tracing

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// sizes are requests of 15 µs, about the least that a request over a socket costs a server,
// and of 67 µs. The bars are of the second: 16 events at the 25 ns that one of Java may cost
// are 0.6 % of 67 µs, and what a server of the 16 cases is measured with is no smaller: of c1's
// 1,500 transactions a second on two processors each has 20 statements, 67 µs each.
var sizes = []size{{work: 15 * time.Microsecond}, {work: 67 * time.Microsecond, judged: true}}

// size is how long a request works.
type size struct {
	work   time.Duration
	judged bool
}

const (
	// spans is how many counts of a load a part of a round has, settling how many come before: an engine looks twice by then, and
	// leaves the clock to the tracers.
	spans, settling = 20, 12
	// warming is how many counts a load has before it is measured: what is compiled while it runs is compiled then.
	warming = 50
)

// trialSteps are those of the requests that tell how many steps a processor does.
const trialSteps = 10_000

// arm is a way in which the load runs.
type arm int

// The arms. Two are untraced: what one of them loses to the other is the noise of the run.
const (
	untraced arm = iota
	coarse
	untracedAgain
	precise
	arms
)

// mode is the mode of an arm.
func (a arm) mode() taskfile.Mode {
	switch a {
	case coarse:
		return taskfile.Coarse
	case precise:
		return taskfile.Precise
	}
	return taskfile.Off
}

// Experiments returns those of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{{Name: "atropos/overhead", Title: "What tracing costs a program in C, Go and Java, and the engine a window", Live: true,
		About: "A load of requests with 16 events each keeps every processor busy: a task begins and ends, and waits for, takes and gives back a lock three times and a pool once. Without an engine, in mode coarse, without one again and in mode precise it runs in turn, many times. What it then serves less per second of processor time is the overhead, together with what the engine uses. The second part without an engine shows the noise. The bars are of requests of 67 µs, a statement of the cases' databases; the events of a request cost the same whatever else it does, and stand in the second table.",
		Run:   overhead}}
}

func overhead(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	rounds := 40
	if o.Quick {
		rounds = 4
	}
	r := &experiment.Result{Quick: o.Quick}
	percent := func(name string) table.Column { return table.Column{Name: name, Unit: "%", Format: "%.2f"} }
	losses := &table.Table{Title: fmt.Sprintf("What tracing takes of the throughput, in %d rounds", rounds), Columns: []table.Column{{Name: "language"},
		{Name: "request", Unit: "µs", Format: "%.1f"}, percent("coarse"), percent("±"), percent("of it the engine"), percent("precise"), percent("± "), percent("of it the engine "), percent("untraced again"), percent("±  ")},
		Note: "request: the processor time of one, untraced. Each part of a round is compared with the untraced parts before and after it; shown is the median over the rounds. ±: its error, 95 times in a hundred. Untraced again: the same for a part without an engine"}
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
		if err := p.measure(ctx, r, losses, events, rounds, o.Quick); err != nil {
			return nil, err
		}
	}
	window, err := timeWindow()
	if err != nil {
		return nil, err
	}
	r.Ceiling(fmt.Sprintf("engine: a window of %d tasks and %d resources", windowTasks, windowResources), " ms", mostWindow, 0.1, window)
	r.Table = append(r.Table, losses, events)
	return r, nil
}

// measure takes one language.
func (p *program) measure(ctx context.Context, r *experiment.Result, losses, events *table.Table, rounds int, quick bool) error {
	dir, err := os.MkdirTemp("", "spillgate-tracing-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	load, bench, err := p.build(ctx, dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "tasks")
	trial, err := p.throughput(ctx, load, path, trialSteps, 1)
	if err != nil {
		return err
	}
	for _, size := range sizes {
		in, err := p.throughput(ctx, load, path, int(trialSteps*size.work.Seconds()*mean(trial[untraced], rate)), rounds)
		if err != nil {
			return err
		}
		inCoarse, inPrecise, none := lost(&in, coarse), lost(&in, precise), lost(&in, untracedAgain)
		used := mean(in[untraced], share)
		losses.Add(p.name, 1e6/mean(in[untraced], rate), 100*inCoarse.median, 100*inCoarse.within, 100*(mean(in[coarse], share)-used), 100*inPrecise.median, 100*inPrecise.within, 100*(mean(in[precise], share)-used),
			100*none.median, 100*none.within)
		if size.judged {
			r.Ceiling(p.name+": coarse", " of the throughput", mostCoarse, 0.002, inCoarse.median)
			r.Ceiling(p.name+": precise", " of the throughput", mostPrecise, 0.005, inPrecise.median)
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

// throughput returns what the load does in each arm and round, with requests of so many steps. Untraced
// there is no engine.
func (p *program) throughput(ctx context.Context, load []string, path string, steps, rounds int) (in [arms][]speed, err error) {
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
	if _, err := out.measure(ctx, warming, 1); err != nil {
		return in, err
	}
	for range rounds {
		for a := range arms {
			s, err := p.slice(ctx, engine, a.mode(), out)
			if err != nil {
				return in, err
			}
			in[a] = append(in[a], s)
		}
	}
	return in, nil
}

// slice measures the load in one mode, with an engine that looks and decides unless it
// is off.
func (p *program) slice(ctx context.Context, engine *taskfile.Engine, mode taskfile.Mode, out *counts) (speed, error) {
	if err := engine.SetMode(mode); err != nil {
		return speed{}, err
	}
	if mode == taskfile.Off {
		return out.measure(ctx, settling, spans)
	}
	choice, err := culprit.New(culprit.Config{Objective: objective})
	if err != nil {
		return speed{}, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- engine.Run(running, taskfile.Loop{Period: 100 * time.Millisecond, Objective: objective, See: func(l *taskfile.Look) { choice.Observe(&l.Sample) }})
	}()
	s, err := out.measure(ctx, settling, spans)
	stop()
	if e := <-ended; !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	return s, err
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

// loss is the part of the throughput that an arm loses: the median over all rounds, and for how much it is good: 95 times in a
// hundred the median of ever more rounds is no further away.
type loss struct{ median, within float64 }

// lost returns what an arm loses to the untraced ones before and after it: what its load serves less, and what its engine uses
// more than this process does without. So what is slow for longer than a round does not count.
func lost(in *[arms][]speed, a arm) loss {
	before, after := in[untraced], in[untracedAgain]
	if a != coarse {
		after = in[untraced][1:] // of the next round
	}
	if a == precise {
		before = in[untracedAgain]
	}
	var all []float64
	for round := range after {
		s, before, after := in[a][round], before[round], after[round]
		without := (before.rate*(1-before.share) + after.rate*(1-after.share)) / 2
		all = append(all, 1-s.rate*(1-s.share)/without)
	}
	if len(all) == 0 {
		return loss{}
	}
	// The notches of a box plot: McGill, Tukey and Larsen, 1978.
	return loss{quantile(all, 0.5), 1.57 * (quantile(all, 0.75) - quantile(all, 0.25)) / math.Sqrt(float64(len(all)))}
}

// mean returns the mean of something over all rounds of an arm.
func mean(all []speed, of func(speed) float64) float64 {
	sum := 0.0
	for _, s := range all {
		sum += of(s) / float64(len(all))
	}
	return sum
}

func rate(s speed) float64  { return s.rate }
func share(s speed) float64 { return s.share }

// quantile returns the quantile q of all, which it sorts.
func quantile(all []float64, q float64) float64 {
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}
