package culprits

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
)

// TestGoServices: in each service the report is cancelled, and no other request.
func TestGoServices(t *testing.T) {
	for i, c := range goCases() {
		if c.nobody {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each of them mostly waits
			told := make(chan int64, 16)
			enforce := culprit.Enforce
			s, err := serveGo(c, i%2 == 1, &enforce, func(who int64, _ string) { told <- who })
			if err != nil {
				t.Fatal(err)
			}
			defer s.stop()
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			var all sync.WaitGroup
			defer all.Wait()
			defer stop()
			for k := range 16 {
				all.Go(func() {
					for n := k; ctx.Err() == nil; n += 16 {
						_ = s.call(ctx, "read", n)
						_ = pause(ctx, 30*ms)
					}
				})
			}
			for range max(c.reports, 1) {
				all.Go(func() {
					for pause(ctx, 2*time.Second) == nil { // it ends by itself, if it is found too late
						_ = s.call(ctx, "report", 0)
					}
				})
			}
			select {
			case who := <-told:
				if who != goReport {
					t.Error("another request than the report was cancelled")
				}
			case <-ctx.Done():
				t.Error("nothing was cancelled")
			}
		})
	}
}
