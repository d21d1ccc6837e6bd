package wild

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/worlds"
)

// The worst seed counts, against the best semaphore of the same seed; the part that is
// judged apart has a best semaphore of its own.
func TestPonder(t *testing.T) {
	s := &scene{world: &world.World{Objective: 100 * ms}, from: time.Second, to: 2 * time.Second}
	run := func(good, part int, p50 time.Duration) *world.Report {
		return &world.Report{Bin: time.Second, Bins: []world.Counts{{Good: good - part}, {Good: part}},
			Groups: []world.GroupReport{{Counts: world.Counts{Offered: 200, Good: good, Late: 10, Refused: 20}, P50: p50, P99: 2 * p50}}}
	}
	policies := []string{"spillgate", "none", "semaphore:1", "semaphore:2"}
	f := ponder(s, policies, []*world.Report{
		run(90, 30, 20*ms), run(50, 10, 10*ms), run(100, 40, 10*ms), run(80, 60, 10*ms),
		run(45, 30, 30*ms), run(50, 10, 10*ms), run(40, 40, 10*ms), run(60, 30, 10*ms),
	})
	want := finding{goodput: 0.75, median: 0.9, part: 0.5, p99: 0.6, late: 10.0 / 55, refused: 0.1, p50: 3, bare: 0.5, best: "semaphore:1"}
	want.ratioLeast, want.ratioMost = f.ratioLeast, f.ratioMost
	if f != want {
		t.Errorf("found %+v, want %+v", f, want)
	}
}

// Every scene is a world that can be played, and shows what its name says: what is calm
// serves everything without any policy, and what is not does not.
func TestScenes(t *testing.T) {
	if testing.Short() {
		t.Skip("thirty simulated worlds")
	}
	for _, s := range scenes(false) {
		r, err := worlds.Simulate(t.Context(), s.world, "none", 1)
		if err != nil {
			t.Errorf("%s: %v", s.world.Name, err)
			continue
		}
		h := listen(&s, r)
		if served := float64(h.good) / float64(h.offered); s.calm != (served > 0.99) {
			t.Errorf("%s: without a policy %.3f are served in time, and calm is %v", s.world.Name, served, s.calm)
		}
	}
}
