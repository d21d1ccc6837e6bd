package live

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// TestPlainOverloadCancelsNobody: where many want more than there is, and some requests
// take ten times as long as others, nobody is the culprit. Time is that of a bubble: a machine
// that stalls would hold requests as a culprit does.
func TestPlainOverloadCancelsNobody(t *testing.T) { synctest.Test(t, plainOverload) }

func plainOverload(t *testing.T) {
	time.Sleep(max(-time.Duration(Now()), 0)) // the clock of a bubble begins long before the process
	g, err := NewGate(GateConfig{
		Config:  admission.Config{Objective: 100 * time.Millisecond, Slots: slots.Config{Min: 2, Max: 2, Initial: 2}},
		Culprit: CulpritConfig{Mode: culprit.Enforce},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			for ctx.Err() == nil {
				what, takes := kind("read"), 2*time.Millisecond
				if i%8 == 0 {
					what, takes = kind("list"), 20*time.Millisecond
				}
				if ticket, err := g.Enter(ctx, Request{Kind: what}); err == nil {
					ticket.Watch(ctx)
					time.Sleep(takes)
					ticket.Leave(work.Done)
					ticket.Unwatch()
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	callers.Wait()
	if c := g.Culprits(); c.Cancels+c.Would > 0 {
		t.Errorf("%+v, expected that nobody is cancelled", c)
	}
	t.Logf("%+v, shed %v", g.Culprits(), g.Stats().Shed)
}
