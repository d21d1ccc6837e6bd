package culpritsim

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/sim/hold"
)

func TestZZForeign(t *testing.T) {
	for _, s := range foreign() {
		hits, wrong := 0, 0
		for seed := uint64(1); seed <= 300; seed++ {
			y, err := playGeneral(s, seed)
			if err != nil {
				t.Fatal(err)
			}
			hits += y.cancelled
			wrong += y.wrong
			if y.wrong > 0 {
				fmt.Println(s.name, seed, y)
			}
		}
		fmt.Println(s.name, "hits", hits, "wrong", wrong)
	}
}

func TestZZOne(t *testing.T) {
	var seed uint64
	fmt.Sscan(os.Getenv("SEED"), &seed)
	s := foreign()[len(os.Getenv("CULP"))]
	calm := s.config(seed, false, 100*ms)
	calm.Guests = nil; _ = 0
	free := hold.Play(calm)
	s.objective = time.Duration(slack * float64(free.P99))
	fmt.Println("objective", s.objective, draw(seed))
	e, _ := culprit.New(culprit.Config{Objective: s.objective, Mode: culprit.Enforce})
	cfg := s.config(seed, true, 100*ms)
	var bb *beside
	o := &ours{engine: e}
	n := 0
	o.debug = func(d *culprit.Decision) {
		if d.Action.Task != 0 || d.Action.Limit.Kind != 0 {
			sm := &bb.seen
			fmt.Printf("%v %v %v taken %.2f %+v\n", d.At, d.State, d.Why, sm.Taken, d.Evidence)
			for r, x := range d.Blame {
				fmt.Printf("    %s %+v\n", sm.Resources[r].Name, x)
			}
			for _, c := range d.Candidates[:min(4, len(d.Candidates))] {
				for i := range sm.Tasks {
					if tt := &sm.Tasks[i]; tt.ID == c.Task {
						fmt.Printf("    %d kind %d score %.2f net %.2f victims %.1f on %s why %v age %v starved %v\n", c.Task, c.Kind, c.Score, c.Net, c.Victims, sm.Resources[c.Resource].Name, c.Why, sm.At.Sub(tt.Started), tt.Starved)
					}
				}
			}
			n++
			if n > 12 {
				o.debug = nil
			}
		}
	}
	bb = &beside{Controller: o, processors: 1}
	cfg.Controller = bb
	hold.Play(cfg)
}

type off struct{ hold.Controller }

func (o off) Observe(s *culprit.Sample) ([]culprit.Action, time.Duration) {
	s.Taken = 0
	for i := range s.Tasks {
		s.Tasks[i].Starved = 0
	}
	return o.Controller.Observe(s)
}

func TestZZOff(t *testing.T) {
	for _, s := range foreign() {
		wrong, hit, seeds := 0, 0, 0
		for seed := uint64(1); seed <= 300; seed++ {
			calm := s.config(seed, false, 100*ms)
			calm.Guests = nil
			s.objective = time.Duration(slack * float64(hold.Play(calm).P99))
			e, _ := engine(culprit.Weighed)(s.objective)
			cfg := s.config(seed, true, 100*ms)
			cfg.Controller = &beside{Controller: off{e}, processors: 1}
			r := hold.Play(cfg)
			w := r.WrongLimits
			for _, c := range r.Cancels {
				if !c.Culprit {
					w++
				} else {
					hit++
				}
			}
			wrong += w
			if w > 0 {
				seeds++
			}
		}
		fmt.Println("off", s.name, "wrong", wrong, "on seeds", seeds, "hit", hit)
	}
}
