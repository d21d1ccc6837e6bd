package sim_test

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim"
)

// TestOrder compares the engine with a stable sort, scheduling while running: in the
// heap alone, and over lanes that hold events in order, half in order, and in none.
func TestOrder(t *testing.T) {
	type planned struct {
		at mono.Time
		id int
	}
	for _, lanes := range []int{0, 1, 4} {
		rng := sim.Chance(1, 0, lanes)
		var e sim.Engine[int]
		e.Lanes(lanes)
		var want, got []planned
		plan := func(at mono.Time) {
			want = append(want, planned{at, len(want)})
			e.At(at, len(want)-1)
		}
		along := func(lane int, at mono.Time) {
			if lane >= lanes {
				plan(at)
				return
			}
			want = append(want, planned{at, len(want)})
			e.AlongLane(lane, at, len(want)-1)
		}
		for range 500 {
			plan(mono.Time(rng.IntN(50)))
		}
		for {
			id, ok := e.Next(mono.Never)
			if !ok {
				break
			}
			got = append(got, planned{e.Now(), id})
			if e.Len() != len(want)-len(got) {
				t.Fatalf("%d events to come, expected %d", e.Len(), len(want)-len(got))
			}
			if len(want) < 5000 {
				plan(e.Now() + mono.Time(rng.IntN(20)))
				along(0, e.Now()+7)
				along(1, e.Now()+mono.Time(rng.IntN(20)))
				along(2, e.Now())
				if rng.IntN(40) == 0 {
					along(3, e.Now()+mono.Time(200-rng.IntN(3)*50))
				}
			}
		}
		sort.SliceStable(want, func(i, j int) bool { return want[i].at < want[j].at })
		if len(got) != len(want) {
			t.Fatalf("%d lanes: %d events came, %d were scheduled", lanes, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%d lanes: event %d is %v, expected %v", lanes, i, got[i], want[i])
			}
		}
	}
}

func TestNextStopsBeforeEnd(t *testing.T) {
	var e sim.Engine[string]
	e.At(10, "at ten")
	e.At(mono.Never, "never")
	if _, ok := e.Next(10); ok || e.Now() != 0 {
		t.Fatalf("an event at the end came, or time moved to %v", e.Now())
	}
	e.Advance(20)
	if e.Now() != 10 {
		t.Fatalf("advanced to %v, past an event at 10ns", e.Now())
	}
	if ev, ok := e.Next(11); !ok || ev != "at ten" {
		t.Fatalf("got %q, %v", ev, ok)
	}
	e.At(5, "late")
	if ev, ok := e.Next(11); !ok || ev != "late" || e.Now() != 10 {
		t.Fatalf("a past event is due now: got %q, %v at %v", ev, ok, e.Now())
	}
	if e.Len() != 0 || e.Done() != 2 {
		t.Fatalf("%d left, %d done, expected 0 and 2", e.Len(), e.Done())
	}
}

// TestChanceStreams shows that a stream depends on all of its name and on
// nothing else.
func TestChanceStreams(t *testing.T) {
	draw := func(r *rand.Rand) uint64 { return r.Uint64() }
	//lint:ignore SA4000 a stream of its own each time
	if draw(sim.Chance(1, 2, 3)) != draw(sim.Chance(1, 2, 3)) {
		t.Fatal("the same name gave two streams")
	}
	seen := map[uint64]bool{}
	for seed := range uint64(4) {
		for purpose := range sim.Stream(4) {
			for id := range 64 {
				seen[draw(sim.Chance(seed, purpose, id))] = true
			}
		}
	}
	if len(seen) != 4*4*64 {
		t.Fatalf("%d different streams out of %d names", len(seen), 4*4*64)
	}
}

// BenchmarkEngine is one event taken and one scheduled, with n to come, on top
// of the cost of drawing the instant: at a random delay, through the heap, and at a
// constant one, through a lane.
func BenchmarkEngine(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		for _, lanes := range []int{0, 1} {
			b.Run(fmt.Sprintf("%s/%d", []string{"heap", "lane"}[lanes], n), func(b *testing.B) {
				rng := sim.Chance(1, 0, 0)
				var e sim.Engine[[2]int32]
				e.Lanes(lanes)
				for range n {
					e.At(mono.Time(rng.Uint32N(1000)), [2]int32{})
				}
				b.ResetTimer()
				for range b.N {
					ev, _ := e.Next(mono.Never)
					if random := mono.Time(rng.Uint32N(1000)); lanes == 0 {
						e.At(e.Now()+random, ev)
					} else {
						e.AlongLane(0, e.Now()+1000, ev)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
			})
		}
	}
}
