package culprit

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	_ "github.com/spillgate/spillgate/internal/seeded"
)

// anySample draws a sample at an instant. Tasks keep their properties by ID, so that
// samples of a sequence belong together.
func anySample(t *rapid.T, at mono.Time, resources []Resource) *Sample {
	s := &Sample{At: at, Resources: resources}
	for id := range uint64(12) {
		began := mono.Time(id * 20_000_000)
		if began > at || rapid.IntRange(0, 2).Draw(t, "absent") == 0 {
			continue
		}
		task := Task{ID: id + 1, Kind: id % 4, Started: began, Background: id%5 == 4, Idle: id%7 == 6, Steps: Steps(rapid.IntRange(0, 15).Draw(t, "steps")),
			Undo: time.Duration(rapid.IntRange(0, 2).Draw(t, "undo")) * 100 * time.Millisecond, Starved: time.Duration(rapid.IntRange(0, 3).Draw(t, "starved")) * 40 * time.Millisecond, MayStarve: time.Duration(rapid.IntRange(0, 2).Draw(t, "may starve")) * 40 * time.Millisecond}
		if id%3 == 0 {
			task.Done, task.Total = uint64(rapid.IntRange(0, 12).Draw(t, "done")), 10
		}
		if rapid.IntRange(0, 9).Draw(t, "barred") == 0 {
			task.Barred = Backup
		}
		for r := range resources {
			what := rapid.IntRange(0, 4).Draw(t, "what")
			if what == 0 {
				continue
			}
			h := Hold{Task: int32(len(s.Tasks)), Resource: int32(r), Gets: uint64(rapid.IntRange(0, 1000).Draw(t, "gets")), Waits: uint64(what), Used: uint64(rapid.IntRange(0, 50).Draw(t, "used")),
				WaitTime: time.Duration(rapid.IntRange(0, 300).Draw(t, "lost")) * time.Millisecond, WaitingSince: Unset, HeldSince: Unset, Shared: rapid.Bool().Draw(t, "shared")}
			if what >= 3 {
				h.WaitingSince = task.Started
			} else {
				h.HeldSince = task.Started
			}
			s.Holds = append(s.Holds, h)
		}
		s.Tasks = append(s.Tasks, task)
	}
	if len(s.Tasks) > 0 && rapid.Bool().Draw(t, "edges") {
		for range rapid.IntRange(1, 10).Draw(t, "n") {
			pick := rapid.IntRange(0, len(s.Tasks)-1)
			s.Edges = append(s.Edges, Edge{int32(pick.Draw(t, "waiter")), int32(pick.Draw(t, "blocker")), int32(rapid.IntRange(0, len(resources)-1).Draw(t, "over"))})
		}
	}
	n := uint64(rapid.IntRange(0, 50).Draw(t, "finished"))
	late := uint64(rapid.IntRange(0, 50).Draw(t, "late"))
	s.Taken = float64(rapid.IntRange(0, 4).Draw(t, "taken")) / 4
	s.Finished = Finished{Count: n, Timed: n, Late: min(n, late)}
	return s
}

func anyResources(t *rapid.T) []Resource {
	var all []Resource
	for k := range rapid.IntRange(1, 5).Draw(t, "resources") {
		all = append(all, Resource{Name: fmt.Sprint("r", k), Kind: Kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind")), Others: float64(rapid.IntRange(0, 3).Draw(t, "others"))})
	}
	return all
}

// Whatever a source shows: scores and blame are shares, nothing is not a number, an
// action names a task that may be acted on with that step and was not before, no
// younger than MinAge unless its kind was limited by an earlier action that was carried out, and another
// engine decides the same, also one that took over in between.
func TestAnySamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Objective: 50 * time.Millisecond, Mode: Mode(rapid.IntRange(0, 1).Draw(t, "mode")), Choice: Choice(rapid.IntRange(0, 2).Draw(t, "choice"))}
		a, b := newEngine(t, cfg), newEngine(t, cfg)
		resources := anyResources(t)
		taken, limited := map[uint64]Step{}, map[uint64]mono.Time{}
		at := mono.Time(0)
		for range rapid.IntRange(2, 12).Draw(t, "samples") {
			at = at.Add(time.Duration(rapid.IntRange(1, 250).Draw(t, "every")) * time.Millisecond)
			s := anySample(t, at, resources)
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 3).Draw(t, "takes over") == 0 {
				state := b.AppendState(nil)
				b = newEngine(t, cfg)
				if err := b.Restore(state); err != nil {
					t.Fatal(err)
				}
			}
			x, y := a.Observe(s), b.Observe(s)
			if fmt.Sprintf("%+v", x) != fmt.Sprintf("%+v", y) {
				t.Fatalf("two engines differ:\n%+v\n%+v", x, y)
			}
			checkDecision(t, cfg, s, x, taken, limited)
		}
	})
}

func newEngine(t *rapid.T, cfg Config) *Engine {
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func checkDecision(t *rapid.T, cfg Config, s *Sample, d *Decision, taken map[uint64]Step, limited map[uint64]mono.Time) {
	sum := 0.0
	for _, c := range d.Candidates {
		if !(c.Score >= 0 && c.Score <= 1+1e-9) || math.IsNaN(c.Net) || math.IsInf(c.Net, 0) || c.Victims < 0 || c.Remaining < 0 {
			t.Fatalf("candidate %+v", c)
		}
		if !c.Dam {
			sum += c.Score
		}
	}
	if sum > 1+1e-6 {
		t.Fatalf("scores sum to %v: %+v", sum, d.Candidates)
	}
	for _, b := range d.Blame {
		if !(b.Lost >= 0 && b.Lost <= 1) || !(b.Explains >= 0 && b.Explains <= 1+1e-9) || !(b.Level >= 0) {
			t.Fatalf("blame %+v", b)
		}
	}
	if l := d.Action.Limit; l.For > 0 && !d.Action.Would {
		defer func() { limited[l.Kind] = s.At.Add(l.For) }()
	}
	if d.Action.Step == NoStep {
		return
	}
	for _, task := range s.Tasks {
		if task.ID != d.Action.Task {
			continue
		}
		young := s.At.Sub(task.Started) < cfg.Objective && limited[task.Kind] <= s.At
		if task.Barred != NotBarred || !task.Steps.Has(d.Action.Step) || taken[task.ID] >= d.Action.Step || young {
			t.Fatalf("action %+v on %+v after %v", d.Action, task, taken[task.ID])
		}
		taken[task.ID] = d.Action.Step
		return
	}
	t.Fatalf("action %+v on a task that is not there", d.Action)
}

// The flow through pools moves blame as the plain computation does, that sends each
// row from each waiting task to each that it waits for.
func TestFlowAgainstPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		resources := anyResources(t)
		s := anySample(t, mono.Time(time.Second), resources)
		var v view
		var before, now looked
		if !v.look(s, &before, &now, 50*time.Millisecond, false) {
			t.Fatal("not a sample")
		}
		var g graph
		g.build(&v, 0.05, 0.5, intake{})
		want := plainFlow(&v, &g)
		for at := range want {
			if math.Abs(want[at]-g.final[at]) > 1e-9 {
				t.Fatalf("task %d, resource %d: %v, plainly %v", at/v.r, at%v.r, g.final[at], want[at])
			}
		}
		column := make([]float64, v.r)
		for at, x := range g.final {
			column[at%v.r] += x
		}
		for r, sum := range column {
			if sum > 1+1e-9 {
				t.Fatalf("resource %d: blame of %v in all", r, sum)
			}
		}
	})
}

// plainFlow computes the final blame row by row.
func plainFlow(v *view, g *graph) []float64 {
	moving := append([]float64(nil), g.direct...)
	final := make([]float64, len(moving))
	for range passes {
		next := make([]float64, len(moving))
		for i := range v.n {
			for r := range v.r {
				b := moving[i*v.r+r]
				final[i*v.r+r] += b * (1 - g.waits[i])
				for on := range v.r {
					if part := b * g.onward[i*v.r+on]; part > 0 {
						plainSend(v, g, i, on, r, part, next)
					}
				}
			}
		}
		moving = next
	}
	for at, rest := range moving { // what is still moving stays
		final[at] += rest
	}
	return final
}

func plainSend(v *view, g *graph, i, on, r int, part float64, next []float64) {
	if g.edged(i, on) {
		for k := g.edgesFrom[i]; k < g.edgesFrom[i+1]; k++ {
			if e := g.edge[k]; int(e.Resource) == on {
				next[int(e.Blocker)*v.r+r] += part * g.part[k]
			}
		}
		return
	}
	var f flow
	if f.poolFor(v, g, i, on) != on {
		next[int(g.queued[on].dam)*v.r+r] += part
		return
	}
	for j := range v.n {
		next[j*v.r+r] += part * g.keeps[j*v.r+on]
	}
}
