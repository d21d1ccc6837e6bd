package culpritsim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/sim/hold"
)

func objectiveOf(seed uint64) time.Duration {
	a := newRandomApp(seed)
	a.cfg.From, a.cfg.End = time.Second, 15*time.Second
	return max(time.Duration(1.25*float64(hold.Play(a.cfg).P99)), 2*ms)
}

func TestQuietTry(t *testing.T) {
	seeds, _ := strconv.Atoi(os.Getenv("SEEDS"))
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	var total time.Duration
	cancels := 0
	start := time.Now()
	for seed := uint64(max(from, 1)); seed < uint64(max(from, 1)+seeds); seed++ {
		objective := objectiveOf(seed)
		a := newRandomApp(seed)
		a.calm(time.Minute)
		a.busy(time.Minute)
		a.cfg.Objective, a.cfg.From, a.cfg.End = objective, time.Second, time.Minute
		w, err := watch(culprit.Config{Objective: objective, Mode: culprit.Enforce})
		if err != nil {
			t.Fatal(err)
		}
		a.cfg.Controller = w
		r := hold.Play(a.cfg)
		total += r.TaskTime
		for _, b := range w.broken {
			fmt.Println("BROKEN", seed, b)
		}
		if len(r.Cancels) > 0 {
			cancels += len(r.Cancels)
			fmt.Println("seed", seed, "objective", objective, r.Cancels)
		}
	}
	fmt.Println("task-minutes", total.Minutes(), "cancels", cancels, "took", time.Since(start))
}
