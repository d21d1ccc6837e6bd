package tracer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// does is what a request does, for the gate.
type does string

func (d does) Kind() string { return string(d) }

// shop is a service behind a gate with a tracer.
type shop struct {
	gate             *live.Gate
	victims, reports atomic.Int64 // cancelled
	ok, sent         atomic.Int64
	all              sync.WaitGroup
}

// serve has the gate let a request in and runs its handler.
func (s *shop) serve(ctx context.Context, kind does, handle func(context.Context) error) {
	ticket, err := s.gate.Enter(ctx, live.Request{Kind: kind})
	if err != nil {
		return
	}
	watched, _ := ticket.Watch(live.WithTicket(ctx, ticket))
	err = handle(watched)
	ticket.Unwatch()
	switch refusal := ticket.Cancelled(); {
	case refusal != nil && kind == "victim":
		s.victims.Add(1)
	case refusal != nil:
		s.reports.Add(1)
	case err == nil && kind == "victim":
		s.ok.Add(1)
	}
	if errors.Is(err, ErrCancelled) {
		ticket.Leave(work.Cancelled)
		return
	}
	ticket.Leave(work.Done)
}

// TestCulpritsOfAGoService: a handler that hogs what the tracer's helpers guard is cancelled,
// and no other; the scenes know nothing but the objective.
func TestCulpritsOfAGoService(t *testing.T) {
	forever := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	for _, scene := range []struct {
		name string
		make func(tr *Tracer) (victim, report func(context.Context) error)
	}{
		{"a pool is taken one by one", func(tr *Tracer) (victim, report func(context.Context) error) {
			pool := tr.NewPool("connections", 8)
			return func(ctx context.Context) error {
					if err := pool.Acquire(ctx, 1); err != nil {
						return err
					}
					defer pool.Release(ctx, 1)
					time.Sleep(5 * time.Millisecond)
					return nil
				}, func(ctx context.Context) error {
					for held := int64(0); ; held++ {
						if held == 8 {
							defer pool.Release(ctx, held)
							return forever(ctx)
						}
						if err := pool.Acquire(ctx, 1); err != nil {
							pool.Release(ctx, held)
							return err
						}
					}
				}
		}},
		{"readers keep writers out", func(tr *Tracer) (victim, report func(context.Context) error) {
			table := tr.NewRWMutex("table")
			return func(ctx context.Context) error {
					if err := table.Lock(ctx); err != nil {
						return err
					}
					defer table.Unlock(ctx)
					time.Sleep(time.Millisecond)
					return nil
				}, func(ctx context.Context) error {
					if err := table.RLock(ctx); err != nil {
						return err
					}
					defer table.RUnlock(ctx)
					return forever(ctx)
				}
		}},
		{"a transaction leaks", func(tr *Tracer) (victim, report func(context.Context) error) {
			row, pool := tr.NewMutex("row"), tr.NewPool("connections", 8)
			do := func(ctx context.Context, work func(context.Context) error) error {
				if err := pool.Acquire(ctx, 1); err != nil {
					return err
				}
				defer pool.Release(ctx, 1)
				if err := row.Lock(ctx); err != nil {
					return err
				}
				defer row.Unlock(ctx)
				return work(ctx)
			}
			return func(ctx context.Context) error {
					return do(ctx, func(context.Context) error { time.Sleep(time.Millisecond); return nil })
				}, func(ctx context.Context) error {
					return do(ctx, func(ctx context.Context) error { From(ctx).SetIdle(true); return forever(ctx) })
				}
		}},
	} {
		t.Run(scene.name, func(t *testing.T) { playShop(t, scene.make) })
	}
}

func playShop(t *testing.T, scene func(*Tracer) (victim, report func(context.Context) error)) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: 100 * time.Millisecond}, Culprit: live.CulpritConfig{Mode: culprit.Enforce}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	tr, err := Of(gate, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	victim, report := scene(tr)
	s := &shop{gate: gate}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan time.Duration, 1)
	for i, tick := 0, time.NewTicker(5*time.Millisecond); ctx.Err() == nil; i++ { // open loop
		<-tick.C
		if i == 100 {
			s.all.Go(func() {
				began := time.Now()
				s.serve(ctx, "report", report)
				ended <- time.Since(began)
			})
		}
		if i >= 300 && (s.reports.Load() > 0 || len(ended) > 0) {
			tick.Stop()
			break
		}
		s.sent.Add(1)
		s.all.Go(func() { s.serve(ctx, "victim", victim) })
	}
	s.all.Wait()
	if s.reports.Load() != 1 || s.victims.Load() != 0 {
		t.Errorf("%d reports and %d others were cancelled (%+v), expected one report", s.reports.Load(), s.victims.Load(), gate.Culprits())
	}
	t.Logf("the report ended after %v; %d of %d others were answered", <-ended, s.ok.Load(), s.sent.Load())
}
