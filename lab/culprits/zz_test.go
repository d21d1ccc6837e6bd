package culprits

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/culprit"
)

func TestZZ(t *testing.T) {
	name := os.Getenv("ZZ")
	for _, s := range apacheScenes() {
		if s.name != name {
			continue
		}
		b, err := s.start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer b.stop()
		c := contender{name: "x", run: func(ctx context.Context, s *scene, b *bench, cancelled func(int64, string)) (func(), error) {
			f, _ := os.Create("/tmp/w/scratch-h-apache/audit.jsonl")
			log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))
			g, err := guard.New(guard.Config{URL: b.url, Objective: s.watched(), Mode: culprit.Enforce}, log, guard.NewAudit(f, log))
			if err != nil {
				return nil, err
			}
			g.OnCancel = func(c guard.Cancel) { cancelled(c.Process, c.Step) }
			var running sync.WaitGroup
			running.Go(func() { _ = g.Run(ctx) })
			running.Go(func() {
				for ctx.Err() == nil {
					st := g.Status()
					fmt.Println(time.Now().Format("05.000"), st.State, st.Why, "inflight", st.InFlight, "late", st.Late, "stuck", st.Stuck, "thr", st.Throughput, st.Baseline, "lost", st.Lost, "hold", len(st.Holding), "wait", len(st.Waiting), "look", st.LookTime)
					for _, c := range st.Candidates {
						fmt.Printf("     %s %.2f victims %.1f %s\n", c.Task.Application, c.Score, c.Victims, c.Why)
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
			return running.Wait, nil
		}}
		p := s.draw(1, true)
		out, err := play(t.Context(), &s, b, p, c)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%+v\n", out.figures(s.objective))
		r, w, a := out.right()
		fmt.Println("onset", out.onsetAt.Format("05.000"), r, w, a, out.others)
	}
}
