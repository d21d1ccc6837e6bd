package culpritsim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim/hold"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The bars, those of the paper's evaluation and of the specification.
const (
	rateFloor     = 0.96
	tailCeiling   = 1.16
	dropCeiling   = 0.0001
	decideWithin  = 500 * time.Millisecond
	decideOutside = time.Second // with a look every 250 ms, as from outside a server
)

// slack is how far the objective lies above the p99 without a culprit.
const slack = 1.25

// contender is one way to deal with a culprit.
type contender struct {
	name  string
	every time.Duration
	// control returns the controller of a run; nil does nothing.
	control func(objective time.Duration) (hold.Controller, error)
	judged  bool
}

func engine(choice culprit.Choice) func(time.Duration) (hold.Controller, error) {
	return func(objective time.Duration) (hold.Controller, error) {
		e, err := culprit.New(culprit.Config{Objective: objective, Mode: culprit.Enforce, Choice: choice})
		return &ours{engine: e}, err
	}
}

func contenders() []contender {
	return []contender{
		{"no control", 100 * ms, nil, false},
		{"oldest first", 100 * ms, func(o time.Duration) (hold.Controller, error) {
			return &oldest{objective: o, steps: map[uint64]culprit.Step{}}, nil
		}, false},
		{"victims dropped", 100 * ms, func(o time.Duration) (hold.Controller, error) { return &victimsDropped{objective: o}, nil }, false},
		{"greedy", 100 * ms, engine(culprit.Greedy), false},
		{"present use", 100 * ms, engine(culprit.Present), false},
		{"ours, a look every 250 ms", 250 * ms, engine(culprit.Weighed), false},
		{"ours", 100 * ms, engine(culprit.Weighed), true},
	}
}

// outcome is what one contender came to on one seed.
type outcome struct {
	rate, tail, dropped float64
	decided             time.Duration // from the onset to the first cancel of the target; -1 never
	wrong               int           // cancels of what is no culprit
	first               bool          // the first cancel was that of the target
}

// playScene plays a scene on one seed with every contender.
func playScene(s scene, seed uint64) ([]outcome, error) {
	free := hold.Play(s.config(seed, false, 100*ms))
	if free.P99 == 0 {
		return nil, fmt.Errorf("seed %d: nothing ended without a culprit; expected requests", seed)
	}
	s.objective = time.Duration(slack * float64(free.P99))
	var all []outcome
	var onset mono.Time
	for _, c := range contenders() {
		cfg := s.config(seed, true, c.every)
		if c.control != nil {
			control, err := c.control(s.objective)
			if err != nil {
				return nil, err
			}
			cfg.Controller = control
		} else {
			cfg.Trace = true
		}
		r := hold.Play(cfg)
		if c.control == nil {
			onset = mono.Time(draw(seed).onset)
			if s.gradual {
				onset = harm(r.Requests, onset, s.objective)
			}
		}
		all = append(all, outcomeOf(r, free, onset))
	}
	return all, nil
}

func outcomeOf(r, free *hold.Report, onset mono.Time) outcome {
	o := outcome{rate: r.Rate / free.Rate, tail: float64(r.P99) / float64(free.P99), dropped: float64(r.Dropped) / float64(max(r.Started, 1)), decided: -1}
	if r.P99 == 0 {
		o.tail = nothingEnded
	}
	o.wrong = r.WrongLimits
	for k, c := range r.Cancels {
		o.first = o.first || k == 0 && c.Target
		if c.Target && o.decided < 0 {
			o.decided = max(c.At.Sub(onset), 0)
		}
		if !c.Culprit {
			o.wrong++
		}
	}
	return o
}

// nothingEnded stands for the p99 of a run in which nothing that started later ended.
const nothingEnded = 1e9

// ended returns what a table shows of a p99.
func ended(tail float64) any {
	if tail >= nothingEnded {
		return "none ended"
	}
	return tail
}

// harm returns when a gradual culprit begins to harm: from then on the p99 of the
// half second before is always above the objective. A request counts when it ends or
// misses.
func harm(requests []hold.Request, from mono.Time, objective time.Duration) mono.Time {
	const bin, bins = 100 * ms, 5
	missed, all := make([]int, last/bin+1), make([]int, last/bin+1)
	for _, r := range requests {
		at := r.Started.Add(min(r.Took, objective))
		if k := int(at.Sub(from) / bin); at >= from && k < len(all) {
			all[k]++
			if r.Took > objective {
				missed[k]++
			}
		}
	}
	harmed := len(all)
	for k := len(all) - bins; k >= 0; k-- {
		late, n := 0, 0
		for j := k; j < k+bins; j++ {
			late, n = late+missed[j], n+all[j]
		}
		if float64(late) <= 0.01*float64(n) {
			break
		}
		harmed = k
	}
	if harmed == len(all) {
		return from
	}
	return from.Add(time.Duration(harmed+bins) * bin)
}

// summary is the worst and the median of a contender over the seeds.
type summary struct {
	rate, tail, dropped   float64
	medianRate, medianTop float64
	decided, median       time.Duration
	found, first          float64 // share of seeds on which the target was cancelled, and first
	wrong                 int
}

func summarize(all []outcome) summary {
	s := summary{rate: all[0].rate}
	var rates, tails []float64
	var times []time.Duration
	for _, o := range all {
		rates, tails = append(rates, o.rate), append(tails, o.tail)
		s.dropped = max(s.dropped, o.dropped)
		s.wrong += o.wrong
		if o.first {
			s.first += 1 / float64(len(all))
		}
		if o.decided >= 0 {
			times = append(times, o.decided)
		}
	}
	slices.Sort(rates)
	slices.Sort(tails)
	slices.Sort(times)
	s.rate, s.tail = rates[0], tails[len(tails)-1]
	s.medianRate, s.medianTop = rates[len(rates)/2], tails[len(tails)/2]
	s.found = float64(len(times)) / float64(len(all))
	if len(times) > 0 {
		s.decided, s.median = times[len(times)-1], times[len(times)/2]
	}
	return s
}

// Seeds of one run: all of them must reach the bars.
const (
	quickSeeds = 10
	fullSeeds  = 100
)

func runScene(ctx context.Context, o experiment.Options, s scene) (*experiment.Result, error) {
	n := fullSeeds
	if o.Quick {
		n = quickSeeds
	}
	seeds := seedsOf(o.Seed, n)
	played, err := experiment.Each(ctx, o, seeds, func(seed *uint64) (string, float64) { return fmt.Sprintf("%s seed %d", s.name, *seed), 1 },
		func(_ context.Context, seed *uint64) ([]outcome, error) { return playScene(s, *seed) })
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: fmt.Sprintf("%s: %s; %d seeds", s.name, s.title, n), Columns: []table.Column{{Name: "contender"},
		{Name: "throughput, worst", Unit: "of the run without culprit", Format: "%.3f"}, {Name: "median", Format: "%.3f"},
		{Name: "p99, worst", Unit: "of the run without culprit", Format: "%.2f"}, {Name: "median", Format: "%.2f"},
		{Name: "victims dropped", Unit: "%", Format: "%.3f"}, {Name: "target cancelled", Unit: "of seeds", Format: "%.2f"}, {Name: "first of all", Unit: "of seeds", Format: "%.2f"},
		{Name: "wrong cancels"}, {Name: "time to decide, worst", Unit: "ms"}, {Name: "median", Unit: "ms"}}}
	for i, c := range contenders() {
		mine := make([]outcome, n)
		for k := range played {
			mine[k] = played[k][i]
		}
		v := summarize(mine)
		t.Add(c.name, v.rate, v.medianRate, ended(v.tail), ended(v.medianTop), 100*v.dropped, v.found, v.first, v.wrong, v.decided.Milliseconds(), v.median.Milliseconds())
		switch {
		case c.judged:
			r.Floor("throughput", " of the run without culprit", rateFloor, 0, v.rate)
			r.Ceiling("p99", "x", tailCeiling, 0, v.tail)
			r.Ceiling("victims dropped", " %", 100*dropCeiling, 0, 100*v.dropped)
			r.Floor("target cancelled", " of the seeds", 1, 0, v.found)
			r.Floor("target cancelled first", " of the seeds", 0.95, 0, v.first)
			r.Ceiling("wrong cancels", "", 0, 0, float64(v.wrong))
			r.Ceiling("time to decide", " ms", float64(decideWithin.Milliseconds()), 0, float64(v.decided.Milliseconds()))
		case c.every > 100*ms:
			r.Floor("target cancelled, a look every 250 ms", " of the seeds", 1, 0, v.found)
			r.Ceiling("wrong cancels, a look every 250 ms", "", 0, 0, float64(v.wrong))
			r.Ceiling("time to decide, a look every 250 ms", " ms", float64(decideOutside.Milliseconds()), 0, float64(v.decided.Milliseconds()))
		}
	}
	if s.gradual {
		t.Note = "The culprit does harm only after a while: the time to decide counts from the instant after which, without control, the p99 of the last half second is always above the objective."
	}
	r.Table = []*table.Table{t}
	return r, nil
}
