package culprits

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
)

// contender is a way to deal with culprits.
type contender struct {
	name  string
	alone bool // without the culprit
	rule  bool // another way to choose among what a guard sees
	// run starts it; what it returns waits for its end, when ctx has ended.
	run runner
}

type runner func(ctx context.Context, s *scene, b *bench, cancelled func(process int64, step string)) (wait func(), err error)

// contenders returns all, the one without a culprit first, ours last.
func contenders() []contender {
	return []contender{
		{name: "no culprit", alone: true},
		{name: "no control"},
		{name: "hand-set limits", run: handSet},
		{name: "oldest first", rule: true, run: chooser(time.Second, oldest)},
		{name: "victims dropped", rule: true, run: chooser(guard.DefaultPeriod, victims)},
		{name: "greedy", rule: true, run: chooser(guard.DefaultPeriod, greedy)},
		{name: ours, run: spillgate},
	}
}

// again adds a second run without a culprit behind the first: what the two differ by is what chance and the machine do to the figures of
// so few requests.
func again(all []contender) []contender {
	return slices.Insert(all, 1, contender{name: "no culprit, again", alone: true})
}

// ours is the contender that the bars are about.
const ours = "spillgate"

// handSet sets what an operator would, and takes it back.
func handSet(ctx context.Context, s *scene, b *bench, _ func(int64, string)) (func(), error) {
	if s.native == nil {
		return func() {}, nil
	}
	return func() { _ = s.native(context.WithoutCancel(ctx), b, false) }, s.native(ctx, b, true)
}

// spillgate runs a guard.
func spillgate(ctx context.Context, s *scene, b *bench, cancelled func(int64, string)) (func(), error) {
	return guardOf(watched)(ctx, s, b, cancelled)
}

// guardOf runs a guard of a URL. It is connected before the load begins, as guards are.
func guardOf(url func(b *bench) string) runner {
	return func(ctx context.Context, s *scene, b *bench, cancelled func(int64, string)) (func(), error) {
		g, err := guard.New(guard.Config{URL: url(b), Objective: s.watched(), Mode: culprit.Enforce, Rules: s.rules}, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			return nil, err
		}
		g.OnCancel = func(c guard.Cancel) { cancelled(s.whose(c.Process, c.Application), c.Step) }
		var running sync.WaitGroup
		running.Go(func() { _ = g.Run(ctx) })
		return running.Wait, nil
	}
}

// choice is a task to cancel, by index in a look.
type choice struct {
	task int
	step culprit.Step
}

// chooser returns a contender that sees what a guard sees and chooses by f, which is
// told the objective.
func chooser(period time.Duration, f func(l *track.Look, objective time.Duration) []choice) runner {
	return func(ctx context.Context, s *scene, b *bench, cancelled func(int64, string)) (func(), error) {
		source, err := guard.Open(ctx, b.url, s.watched())
		if err != nil {
			return nil, err
		}
		var running sync.WaitGroup
		running.Go(func() {
			defer source.Close()
			tick := time.NewTicker(period)
			defer tick.Stop()
			for ctx.Err() == nil {
				look, err := source.Look(ctx)
				if err != nil {
					return
				}
				for _, c := range f(look, s.watched()) {
					if done, err := source.Act(ctx, look.Sample.Tasks[c.task].ID, c.step); done && err == nil {
						session := &look.Sessions[c.task]
						cancelled(s.whose(session.Process, session.Application), c.step.String())
					}
				}
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
		return running.Wait, nil
	}
}

// mildest returns the mildest step that the server has for a task.
func mildest(t *culprit.Task) culprit.Step {
	for s := culprit.Throttle; s <= culprit.Session; s++ {
		if t.Steps.Has(s) {
			return s
		}
	}
	return culprit.NoStep
}

// oldest is pt-kill with a busy time of twice the objective: the oldest statement
// that is older goes.
func oldest(l *track.Look, objective time.Duration) []choice {
	best := -1
	for i := range l.Sample.Tasks {
		t := &l.Sample.Tasks[i]
		if t.Idle || mildest(t) == culprit.NoStep || l.Sample.At.Sub(t.Started) < 2*objective {
			continue
		}
		if best < 0 || t.Started < l.Sample.Tasks[best].Started {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return []choice{{best, mildest(&l.Sample.Tasks[best])}}
}

// victims drops what has waited for longer than half the objective, as Protego does.
func victims(l *track.Look, objective time.Duration) (all []choice) {
	for _, h := range l.Sample.Holds {
		t := &l.Sample.Tasks[h.Task]
		if h.WaitingSince != culprit.Unset && l.Sample.At.Sub(h.WaitingSince) > objective/2 && t.Steps.Has(culprit.Statement) {
			all = append(all, choice{int(h.Task), culprit.Statement})
		}
	}
	return all
}

// greedy looks at the resource that most wait for, and cancels who has used it most so
// far, once something is late.
func greedy(l *track.Look, objective time.Duration) []choice {
	waiting := make([]int, len(l.Sample.Resources))
	late := false
	for _, h := range l.Sample.Holds {
		if h.WaitingSince != culprit.Unset {
			waiting[h.Resource]++
			late = late || l.Sample.At.Sub(l.Sample.Tasks[h.Task].Started) > objective
		}
	}
	most := 0
	for r, n := range waiting {
		if n > waiting[most] {
			most = r
		}
	}
	if !late || waiting[most] < 2 {
		return nil
	}
	best, usage := -1, 0.0
	for _, h := range l.Sample.Holds {
		t := &l.Sample.Tasks[h.Task]
		if int(h.Resource) != most || mildest(t) == culprit.NoStep {
			continue
		}
		u := float64(h.Gets)
		if h.HeldSince != culprit.Unset {
			u = (h.HoldTime + l.Sample.At.Sub(h.HeldSince)).Seconds()
		}
		if u > usage {
			best, usage = int(h.Task), u
		}
	}
	if best < 0 {
		return nil
	}
	return []choice{{best, mildest(&l.Sample.Tasks[best])}}
}
