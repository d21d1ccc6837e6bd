package wild

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// contended are services that do less from some number of requests at once on, of which no gate is told. What is the most is
// done by 8 of the first, half of it by 32, a quarter by 64: row conflicts, paging. Of the second by 31, nine
// tenths of it by 64: locks and caches.
var contended = []struct {
	name       string
	law        world.Contention
	semaphores []string
}{
	{"8 at once do the most", world.Contention{Pair: 1.0 / 64}, []string{"semaphore:4:4", "semaphore:8:8", "semaphore:8:24", "semaphore:12:12", "semaphore:16:16"}},
	{"31 at once do the most", world.Contention{Each: 1.0 / 16, Pair: 1.0 / 1024}, []string{"semaphore:16:16", "semaphore:32:32", "semaphore:32:96", "semaphore:48:48", "semaphore:64:64"}},
}

// contention returns the scenes of contended services; quick leaves out those between others.
func contention(quick bool) []scene {
	var all []scene
	for i := range contended {
		play := func(what string, load world.Load, warmup, length time.Duration) *scene {
			w := plot(fmt.Sprintf("%s, %s", contended[i].name, what), 200*ms, []world.Service{
				{Name: "store", Contention: contended[i].law, Methods: does(waits(10 * ms))}}, load)
			w.Warmup, w.Length = warmup, length
			w.Clients[0].Kind, w.Clients[0].Deadline = world.Plain, 10*w.Objective // who gives up sooner takes load off it
			all = append(all, scene{world: w, semaphores: contended[i].semaphores})
			return &all[len(all)-1]
		}
		after := func(calm, then float64) world.Load {
			return world.Load{Steps: []world.Rate{{Times: calm}, {At: 3 * time.Second, Times: then}}}
		}
		play("2x", after(0.7, 2), 4*time.Second, 16*time.Second)
		play("from a cold start, 2x", times(2), 0, 4*time.Second)
		if quick {
			continue
		}
		play("1x", after(0.7, 1), 4*time.Second, 16*time.Second)
		play("4x", after(0.7, 4), 4*time.Second, 16*time.Second)
		step := play("0.5x and then 2x", after(0.5, 2), time.Second, 6*time.Second)
		step.from, step.to = 3*time.Second, 6*time.Second
		few := play("32 users", world.Load{Users: 32}, 3*time.Second, 12*time.Second)
		few.world.Clients[0].Clients = 32
		few.calm = contended[i].law.Factor(32) < 10 // all are in time without a policy
		play("512 users", world.Load{Users: 512, Think: 20 * ms}, 3*time.Second, 12*time.Second).world.Clients[0].Clients = 512
	}
	return all
}
