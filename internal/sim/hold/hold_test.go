package hold

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
)

const ms = time.Millisecond

// watch is a controller that looks, and cancels what it is told.
type watch func(*culprit.Sample) []culprit.Action

func (w watch) Observe(s *culprit.Sample) ([]culprit.Action, time.Duration) { return w(s), 0 }

// everything is an application with all kinds of resources, busy for a while.
func everything(seed uint64) Config {
	return Config{Seed: seed, Objective: 50 * ms, Every: 20 * ms, Delay: ms, From: time.Second, End: 6 * time.Second,
		Resources: []Resource{{Name: "table", Kind: culprit.Lock}, {Name: "threads", Kind: culprit.Queue, Slots: 3},
			{Name: "processors", Kind: culprit.System, Slots: 2}, {Name: "pool", Kind: culprit.Memory, Pages: 500, Hot: 450, Miss: ms}, {Name: "old", Kind: culprit.Memory, History: true, Miss: ms}},
		Loads: []Load{{Rate: []Step{{Rate: 100}, {From: 3 * time.Second, Rate: 200}, {From: 4 * time.Second}}, Program: Program{Kind: 1, Ops: []Op{
			{Do: Acquire, Resource: 1}, {Do: Run, Time: 3 * ms, Random: true}, {Do: Acquire, Shared: true}, {Do: Work, Resource: 2, Time: 5 * ms, Random: true}, {Do: Release}}}},
			{Clients: 4, Think: 10 * ms, Program: Program{Kind: 2, Ops: []Op{{Do: Touch, Resource: 3, Units: 10, Chunk: 5, Time: ms}, {Do: Touch, Resource: 4, Units: 5, Chunk: 5, Time: ms}}}}},
		Guests: []Guest{
			{Program: Program{Kind: 3, Ops: []Op{{Do: Acquire}, {Do: Run, Time: 300 * ms}}, Known: true}, At: 2 * time.Second, Again: time.Second, Until: 5 * time.Second, Steps: culprit.StepsOf(culprit.Statement), Undo: 0.5},
			{Program: Program{Kind: 4, Ops: []Op{{Do: Touch, Resource: 3, Units: 2000, Chunk: 20, Time: 5 * ms}}}, At: 2 * time.Second, Steps: culprit.StepsOf(culprit.Statement)},
			{Program: Program{Kind: 5, Ops: []Op{{Do: Acquire, Resource: 4, Shared: true}, {Do: Rest, Time: 2 * time.Second}}}, At: time.Second, Steps: culprit.StepsOf(culprit.Session)},
			{Program: Program{Kind: 6, Ops: []Op{{Do: Work, Resource: 2, Time: 10 * ms}}, Times: 100, Weight: 4}, At: 3 * time.Second, Steps: culprit.StepsOf(culprit.Throttle, culprit.Statement)},
		}}
}

func TestTheSameAgain(t *testing.T) {
	for seed := range uint64(5) {
		if a, b := Play(everything(seed)), Play(everything(seed)); fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
			t.Errorf("seed %d:\n%+v\n%+v", seed, a, b)
		}
	}
	if a, b := Play(everything(1)), Play(everything(2)); a.Done == b.Done && a.P99 == b.P99 {
		t.Error("two seeds give the same run")
	}
}

// What a sample shows is possible: a lock is held by one, or by several that share
// it; slots are not exceeded; nobody waits for what is free; use grows with time.
func TestSamplesAreConsistent(t *testing.T) {
	for seed := range uint64(10) {
		cfg := everything(seed)
		looks, waits := 0, 0
		cancelled := map[uint64]bool{}
		cfg.Controller = watch(func(s *culprit.Sample) []culprit.Action {
			looks++
			if err := s.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			var exclusive, shared, slots int
			for _, h := range s.Holds {
				held := h.HeldSince != culprit.Unset
				switch {
				case h.WaitingSince != culprit.Unset:
					waits++
				case held && h.Resource == 0 && h.Shared:
					shared++
				case held && h.Resource == 0:
					exclusive++
				case held && h.Resource == 1:
					slots++
				}
			}
			if exclusive > 1 || exclusive == 1 && shared > 0 || slots > 3 {
				t.Fatalf("seed %d, %v: lock held by %d and shared by %d, %d slots of 3", seed, s.At, exclusive, shared, slots)
			}
			var actions []culprit.Action // one of each kind of guest, in the middle of its work
			for _, task := range s.Tasks {
				if task.Kind >= 3 && s.At.Sub(task.Started) > 250*ms && task.Steps != 0 && !cancelled[task.ID] {
					cancelled[task.ID] = true
					step := culprit.Statement
					if !task.Steps.Has(step) {
						step = culprit.Session
					}
					actions = append(actions, culprit.Action{Task: task.ID, Step: step})
				}
			}
			return actions
		})
		r := Play(cfg)
		if looks < 290 || waits == 0 || len(r.Cancels) < 4 || r.Done == 0 {
			t.Errorf("seed %d: %d looks, %d waits, %d cancels, %d done: not much was seen", seed, looks, waits, len(r.Cancels), r.Done)
		}
	}
}

// With two processors, one task of weight 3 and one of weight 1 that each need 60 ms:
// speed 0.5 for a unit of weight, so the first has 1.5 processors and ends after
// 40 ms; the second had 20 ms then, and ends 40 ms later.
func TestShareDivides(t *testing.T) {
	var seen []string
	cfg := Config{Every: 10 * ms, End: 200 * ms, Resources: []Resource{{Name: "processors", Kind: culprit.System, Slots: 2}},
		Guests: []Guest{{Program: Program{Kind: 1, Ops: []Op{{Do: Work, Time: 60 * ms}}, Weight: 3}}, {Program: Program{Kind: 2, Ops: []Op{{Do: Work, Time: 60 * ms}}}}}}
	cfg.Controller = watch(func(s *culprit.Sample) []culprit.Action {
		line := fmt.Sprint(time.Duration(s.At), ":")
		for i, h := range s.Holds {
			line += fmt.Sprintf(" kind %d had %v lost %v;", s.Tasks[i].Kind, time.Duration(h.Gets).Round(ms), h.WaitTime.Round(ms))
		}
		seen = append(seen, line)
		return nil
	})
	Play(cfg)
	for k, want := range map[int]string{
		1: "20ms: kind 1 had 30ms lost 10ms; kind 2 had 10ms lost 10ms;",
		4: "50ms: kind 2 had 30ms lost 20ms;",
		7: "80ms: kind 2 had 60ms lost 20ms;",
		9: "100ms:",
	} {
		if seen[k] != want {
			t.Errorf("look %d: %q, want %q", k, seen[k], want)
		}
	}
}

// A request that comes after a pending exclusive one waits behind it, though the
// holder would let it pass; when the pending one is cancelled it goes on.
func TestPendingExclusiveDams(t *testing.T) {
	cfg := Config{Every: 10 * ms, Delay: ms, End: 300 * ms, Resources: []Resource{{Name: "lock", Kind: culprit.Lock}}}
	shared := Program{Kind: 1, Ops: []Op{{Do: Acquire, Shared: true}, {Do: Run, Time: 200 * ms}}}
	cfg.Guests = []Guest{{Program: shared}, {Program: Program{Kind: 2, Ops: []Op{{Do: Acquire}, {Do: Run, Time: ms}}}, At: 20 * ms, Steps: culprit.StepsOf(culprit.Statement)}, {Program: shared, At: 40 * ms}}
	held := map[string]int{}
	cfg.Controller = watch(func(s *culprit.Sample) []culprit.Action {
		n := 0
		for _, h := range s.Holds {
			if h.HeldSince != culprit.Unset {
				n++
			}
		}
		held[s.At.String()] = n
		for _, task := range s.Tasks {
			if task.Kind == 2 && s.At == 100_000_000 {
				return []culprit.Action{{Task: task.ID, Step: culprit.Statement}}
			}
		}
		return nil
	})
	Play(cfg)
	if held["90ms"] != 1 || held["120ms"] != 2 {
		t.Errorf("holders after 90 and 120 ms: %d and %d, want 1 and 2", held["90ms"], held["120ms"])
	}
}

// A guest that fills the pool makes the others miss; when it is gone its pages are free
// and theirs come back.
func TestPoolIsFilledAndFreed(t *testing.T) {
	cfg := Config{Every: 100 * ms, End: 6 * time.Second, From: ms, Objective: 100 * ms,
		Resources: []Resource{{Name: "pool", Kind: culprit.Memory, Pages: 1000, Hot: 900, Miss: ms}},
		Loads:     []Load{{Rate: []Step{{Rate: 200}}, Program: Program{Kind: 1, Ops: []Op{{Do: Touch, Units: 20, Chunk: 20, Time: ms}}}}},
		Guests:    []Guest{{Program: Program{Kind: 2, Ops: []Op{{Do: Touch, Units: 6400, Chunk: 64, Time: 20 * ms}}}, At: 2 * time.Second}}, Trace: true}
	r := Play(cfg)
	var mean [6]float64
	var n [6]int
	for _, q := range r.Requests {
		k := int(time.Duration(q.Started) / time.Second)
		mean[k] += q.Took.Seconds() * 1e3
		n[k]++
	}
	for k := range mean {
		mean[k] /= float64(n[k])
	}
	if math.Abs(mean[1]-1) > 0.01 || mean[3] < 5 || mean[5] > 1.5 {
		t.Errorf("mean latency by second %.1f ms, want 1 before, 5 or more while the pool is filled, 1 after", mean)
	}
}
