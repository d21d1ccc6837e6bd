package culpritsim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
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
	states := map[string]int{}
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
		w.seen = states
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
	fmt.Println("task-minutes", total.Minutes(), "cancels", cancels, states, "took", time.Since(start))
}

func TestHogTry(t *testing.T) {
	seeds, _ := strconv.Atoi(os.Getenv("SEEDS"))
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	n, right, wrong, missed, harmless, late := 0, 0, 0, 0, 0, 0
	for seed := uint64(max(from, 1)); seed < uint64(max(from, 1)+seeds); seed++ {
		objective := objectiveOf(seed)
		build := func(hog bool) (*randomApp, bool) {
			a := newRandomApp(seed)
			a.calm(20 * time.Second)
			a.cfg.Objective, a.cfg.From, a.cfg.End = objective, 11*time.Second, 20*time.Second
			if hog {
				return a, a.hog(10 * time.Second)
			}
			return a, true
		}
		a, ok := build(true)
		if !ok {
			continue
		}
		n++
		free, _ := build(false)
		f := hold.Play(free.cfg)
		none := hold.Play(a.cfg)
		a, _ = build(true)
		w, err := watch(culprit.Config{Objective: objective, Mode: culprit.Enforce})
		if err != nil {
			t.Fatal(err)
		}
		a.cfg.Controller = w
		if from != 0 {
			w.debug2 = func(d *culprit.Decision) {
				if d.At > mono.Time(9900*ms) && d.At < mono.Time(12*time.Second) {
					line := fmt.Sprintf("%v %v %v ev=%+v", d.At, d.State, d.Why, d.Evidence)
					for r, x := range d.Blame {
						line += fmt.Sprintf(" | %v %.2f/%.2f/%.2f", a.cfg.Resources[r].Kind, x.Lost, x.Level, x.Explains)
					}
					for i, c := range d.Candidates {
						if i < 3 {
							line += fmt.Sprintf(" [%d k%d %.2f v%.1f r%v n%.1f %s]", c.Task, c.Kind, c.Score, c.Victims, c.Remaining.Round(ms), c.Net, c.Why)
						}
					}
					fmt.Println(line)
				}
			}
		}
		r := hold.Play(a.cfg)
		for _, b := range w.broken {
			fmt.Println("BROKEN", seed, b)
		}
		good, bad := 0, 0
		for _, c := range r.Cancels {
			if c.Target {
				good++
			} else {
				bad++
			}
		}
		harm := none.P99 > objective
		switch {
		case bad > 0:
			wrong++
			fmt.Println("seed", seed, "WRONG", a.cfg.Guests[len(a.cfg.Guests)-1].Program.Ops, r.Cancels)
		case good > 0:
			right++
			if t := w.firstAt.Sub(mono.Time(10 * time.Second)); t > 500*ms {
				late++
				fmt.Println("seed", seed, "late", t, "objective", objective)
			}
		case !harm:
			harmless++
		default:
			missed++
			fmt.Printf("seed %d MISSED objective %v free %.0f %v none %.0f %v ours %.0f %v hog %v on %v\n", seed, objective, f.Rate, f.P99, none.Rate, none.P99, r.Rate, r.P99, a.cfg.Guests[len(a.cfg.Guests)-1].Program.Ops, a.cfg.Resources[a.cfg.Guests[len(a.cfg.Guests)-1].Program.Ops[0].Resource])
		}
	}
	fmt.Println("n", n, "right", right, "of them late", late, "wrong", wrong, "missed", missed, "harmless", harmless)
}
