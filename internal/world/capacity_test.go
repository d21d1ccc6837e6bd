package world

import (
	"math"
	"testing"
	"time"
)

// The numbers are worked out by hand.
func TestCapacity(t *testing.T) {
	const ms = time.Millisecond
	draw := func(d time.Duration) *Draw { return &Draw{Mean: d} }
	w := (&World{
		Objective: 100 * ms, Length: time.Second,
		Hosts: []Host{{Name: "box", Processors: 2, Message: ms}},
		Services: []Service{
			{Name: "front", Workers: 8, Methods: []Method{
				{Name: "get", Steps: []Step{{Wait: draw(10 * ms)}}},
				{Name: "both", Steps: []Step{{Wait: draw(10 * ms)}, {Call: []Target{{"a", "do"}, {"b", "do"}}}}},
				{Name: "poll", Idle: true, Steps: []Step{{Wait: draw(time.Second)}}},
			}},
			{Name: "a", Host: "box", Methods: []Method{{Name: "do", Steps: []Step{{Compute: draw(4 * ms)}}}}},
			{Name: "b", Host: "box", Replicas: 3, Workers: 2, Methods: []Method{{Name: "do",
				Steps: []Step{{Compute: draw(2 * ms)}, {Wait: draw(28 * ms)}, {Call: []Target{{"c", "do"}}}}}}},
			{Name: "async", Workers: 2, Async: true, Methods: []Method{{Name: "do", Steps: []Step{{Wait: draw(10 * ms)}, {Call: []Target{{"c", "do"}}}, {Wait: draw(10 * ms)}}}}},
			{Name: "crowd", Contention: Contention{Each: 0.1, Pair: 0.1}, Methods: []Method{{Name: "do", Steps: []Step{{Wait: draw(10 * ms)}}}}},
			{Name: "crew", Workers: 2, Contention: Contention{Each: 0.1, Pair: 0.1}, Methods: []Method{{Name: "do", Steps: []Step{{Wait: draw(10 * ms)}}}}},
			{Name: "c", Methods: []Method{{Name: "do", Steps: []Step{{Wait: draw(30 * ms)}}}}},
			{Name: "keys", Replicas: 2, Workers: 32, Locks: []Lock{{Name: "hot"}, {Name: "pool", Permits: 4}}, Methods: []Method{
				{Name: "hot", Steps: []Step{{Wait: draw(10 * ms), Lock: "hot"}, {Compute: draw(2 * ms), Lock: "hot"}}},
				{Name: "cold", Steps: []Step{{Wait: draw(10 * ms), Lock: "pool"}}},
			}},
		},
		Clients: []Group{
			{Ask: []Ask{{Target: Target{"front", "get"}}}},
			{Ask: []Ask{{Target: Target{"front", "both"}}}},
			{Ask: []Ask{{Target: Target{"front", "poll"}}}},
			{Ask: []Ask{{Target: Target{"a", "do"}}}},
			{Ask: []Ask{{Target: Target{"async", "do"}}}},
			{Ask: []Ask{{Target: Target{"crowd", "do"}}}},
			{Ask: []Ask{{Target: Target{"crew", "do"}}}},
			{Ask: []Ask{{Target{"front", "get"}, 3}, {Target{"front", "both"}, 1}}},
			{Ask: []Ask{{Target{"keys", "hot"}, 1}, {Target{"keys", "cold"}, 4}}},
			{Ask: []Ask{{Target: Target{"keys", "cold"}}}},
		},
	}).WithDefaults()
	for i, want := range []float64{
		800,                      // 8 workers, 10 ms each
		100,                      // b's six workers are held for 60 ms; front's eight for 70 ms would allow 114
		math.Inf(1),              // polls hold no worker
		333.333,                  // 4 ms and two messages, on two processors
		100,                      // two workers, twice 10 ms: none is held for c
		3 / 0.018,                // three get the most done, for 10 ms times 1 + 0.1 × 2 + 0.1 × 6 each; four take 25 ms
		2 / 0.013,                // as many as there are workers
		8 / (0.010 + 0.060*0.25), // front is held for 25 ms on average, b for 15 ms of six
		2 / (0.012 * 0.2),        // one in five holds the lock of its process, two of them, for 12 ms
		8 / 0.010,                // twice four connections
	} {
		if got := w.Capacity(i); math.Abs(got-want) > 1e-3 && got != want {
			t.Errorf("group %d: %v/s, want %v", i, got, want)
		}
	}
}
