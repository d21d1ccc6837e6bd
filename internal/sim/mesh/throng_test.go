package mesh

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// So many users without a pause keep so many requests at work, and get done what the law says.
func TestContentionIsTheLaw(t *testing.T) {
	law := world.Contention{Each: 1.0 / 16, Pair: 1.0 / 1024}
	for _, users := range []int{1, 4, 31, 100} {
		w := alone(world.Service{Contention: law, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: exponential(10 * msec)}}}}}, 1)
		w.Warmup, w.Length = time.Second, 61*time.Second
		w.Clients[0].Load = world.Load{Users: users}
		m := mustDescribe(t, w, None(), 1)
		if _, err := m.Run(); err != nil {
			t.Fatal(err)
		}
		n := float64(users)
		want := 100 * n / (1 + (n-1)/16 + n*(n-1)/1024)
		if got := float64(m.Measured().Groups[0].Good) / 60; math.Abs(got/want-1) > 0.04 {
			t.Errorf("%d users: %.0f/s were done, by the law %.0f/s", users, got, want)
		}
	}
}

// What holds a wait up is how many there are at each instant, not at its beginning; and faults change the pace of all.
func TestContentionAtEveryInstant(t *testing.T) {
	w := alone(world.Service{Contention: world.Contention{Each: 1}, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: constant(100 * msec)}}}}}, 1)
	w.Warmup, w.Length = 0, 2*time.Second
	// The first is alone for 50 ms; then there are two, and each takes twice as long, until the first ends at 150 ms. The second
	// has had half of its time by then. The other half takes three times as long, and stops for 30 ms.
	w.Clients[0].Load = world.Load{Arrivals: []time.Duration{0, 50 * msec, 10 * time.Second}}
	w.Faults = []world.Fault{{At: 150 * msec, For: time.Second, Service: "service", Slower: 3}, {At: 200 * msec, For: 30 * msec, Service: "service", Stop: true}}
	m := mustDescribe(t, w, None(), 1)
	if _, err := m.Run(); err != nil {
		t.Fatal(err)
	}
	if got := m.Measured().Groups[0].Max.Truncate(msec); got != 280*msec {
		t.Errorf("the second answer came after %v, want 100 ms, three times 50 ms and 30 ms", got)
	}
	if n := m.Measured().Groups[0].Good; n != 2 {
		t.Errorf("%d answers, want 2", n)
	}
}

// A process that is killed leaves nobody behind in the crowd: who comes after it is alone.
func TestContentionEndsWithTheProcess(t *testing.T) {
	w := alone(world.Service{Contention: world.Contention{Pair: 1}, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: constant(100 * msec)}}}}}, 1)
	w.Warmup, w.Length = 0, 2*time.Second
	w.Clients[0].Load = world.Load{Arrivals: []time.Duration{0, 0, 0, 500 * msec, 10 * time.Second}}
	w.Faults = []world.Fault{{At: 50 * msec, For: 100 * msec, Service: "service", Kill: true}}
	m := mustDescribe(t, w, None(), 1)
	if _, err := m.Run(); err != nil {
		t.Fatal(err)
	}
	if g := m.Measured().Groups[0]; g.Good != 1 || g.Max.Truncate(msec) != 100*msec {
		t.Errorf("%d answers, the last after %v, want one after 100 ms", g.Good, g.Max)
	}
}
