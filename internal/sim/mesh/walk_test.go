package mesh

import (
	"testing"
	"time"
)

// TestWalk: what a request takes alone is the same added up, or played by solo, as in a world, also for the requests
// after it, whose calls go where the callers' turns have come to.
func TestWalk(t *testing.T) {
	var found [addedUp + 1]int
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
				clear(w.manners)
			}
			worlds[i] = w
		}
		for n := range uint64(400) {
			chance := draws(seed).of(drawTypical, n)
			workflow, tenant := int32(chance.of(drawWorkflow, 0).below(8)), uint32(n)
			found[worlds[0].manners[workflow]]++
			if a, b := worlds[0].isolated(workflow, chance, tenant), worlds[1].isolated(workflow, chance, tenant); a != b {
				t.Fatalf("seed %d: request %d, of workflow %d and manner %d, takes %v, in a world %v", seed, n, workflow, worlds[0].manners[workflow], a, b)
			}
		}
	}
	if found[addedUp] < 1000 || found[inSolo] < 1000 {
		t.Errorf("%v requests by manner, expected many of both", found)
	}
}
