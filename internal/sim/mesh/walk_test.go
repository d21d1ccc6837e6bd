package mesh

import (
	"testing"
	"time"
)

// TestWalk: what a request takes alone is the same added up as played, also for the requests after it,
// whose calls go where the callers' turns have come to.
func TestWalk(t *testing.T) {
	added, played := 0, 0
	for seed := uint64(1); seed <= 60; seed++ {
		var worlds [2]*World
		for i := range worlds {
			cfg := Random(seed, Graph{Services: 6 + int(seed), Workflows: 8, Stages: 4 + int(seed)%16})
			cfg.Length = time.Second
			w, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			w.isolated(0, 0, 0)
			if i == 1 {
				clear(w.lone)
			}
			worlds[i] = w
		}
		for n := range uint64(400) {
			chance := draws(seed).of(drawTypical, n)
			workflow, tenant := int32(chance.of(drawWorkflow, 0).below(8)), uint32(n)
			if worlds[0].lone[workflow] {
				added++
			} else {
				played++
			}
			if a, b := worlds[0].isolated(workflow, chance, tenant), worlds[1].isolated(workflow, chance, tenant); a != b {
				t.Fatalf("seed %d: request %d, of workflow %d, takes %v added up and %v played", seed, n, workflow, a, b)
			}
		}
	}
	if added < 1000 || played < 1000 {
		t.Errorf("%d requests were added up and %d played, expected many of both", added, played)
	}
}
