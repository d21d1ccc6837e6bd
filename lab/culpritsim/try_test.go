package culpritsim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/sim/hold"
)

func TestTry(t *testing.T) {
	only := os.Getenv("CASE")
	seeds, _ := strconv.Atoi(os.Getenv("SEEDS"))
	every, _ := time.ParseDuration(os.Getenv("EVERY"))
	if every == 0 {
		every = 100 * ms
	}
	for _, s := range scenes() {
		if only != "" && only != s.name {
			continue
		}
		from, _ := strconv.Atoi(os.Getenv("FROM"))
		for seed := uint64(max(from, 1)); seed <= uint64(max(seeds, from, 1)); seed++ {
			free := hold.Play(s.config(seed, false, every))
			s.objective = time.Duration(1.25 * float64(free.P99))
			none := hold.Play(s.config(seed, true, every))
			cfg := s.config(seed, true, every)
			e, err := culprit.New(culprit.Config{Objective: s.objective, Mode: culprit.Enforce})
			if err != nil {
				t.Fatal(err)
			}
			o := &ours{engine: e}
			onset := draw(seed).onset
			if os.Getenv("DEBUG") != "" {
				n := 0
				o.debug = func(d *culprit.Decision) {
					after := d.At.Sub(0) - onset
					if after < -200*ms || n > 40 {
						return
					}
					n++
					var b strings.Builder
					for i, c := range d.Candidates {
						if i < 3 {
							fmt.Fprintf(&b, " [%d k%d %.2f v%.1f r%v n%.1f %s]", c.Task, c.Kind, c.Score, c.Victims, c.Remaining.Round(ms), c.Net, c.Why)
						}
					}
					var bl strings.Builder
					for _, x := range d.Blame {
						fmt.Fprintf(&bl, " %.2f/%.2f/%.2f", x.Lost, x.Level, x.Explains)
					}
					fmt.Printf("   +%v %v %v in=%d late=%d stuck=%d share=%.2f x=%.0f/%.0f±%.0f blame%s %s act=%v %v out=%v\n", after.Round(ms), d.State, d.Why, d.Evidence.InFlight, d.Evidence.Late, d.Evidence.Stuck, d.Evidence.LateShare, d.Evidence.Throughput, d.Evidence.Baseline, d.Evidence.Noise, bl.String(), b.String(), d.Action.Task, d.Action.Step, d.Outcome.Verdict)
				}
			}
			cfg.Controller = o
			our := hold.Play(cfg)
			line := fmt.Sprintf("%s seed %d: free %.0f/s %v; none %.2f %v; ours %.3f p99 %.2f dropped %d", s.name, seed, free.Rate, free.P99.Round(ms/10), none.Rate/free.Rate, none.P99.Round(ms), our.Rate/free.Rate, float64(our.P99)/float64(free.P99), our.Dropped)
			for _, c := range our.Cancels {
				line += fmt.Sprintf(" | +%v %v target=%v fg=%v", (c.At.Sub(0) - onset).Round(ms), c.Step, c.Target, c.Foreground)
			}
			fmt.Println(line)
		}
	}
}
