package tracer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// TestTheModeOfAGateMayChange: a job that is no request keeps the requests waiting. While the gate
// monitors it is only named, whatever the mode was when the gate was made; when the gate enforces,
// it is cancelled.
func TestTheModeOfAGateMayChange(t *testing.T) {
	for _, first := range []live.Mode{live.Enforce, live.Monitor} {
		t.Run(first.String(), func(t *testing.T) { playModes(t, first) })
	}
}

func playModes(t *testing.T, first live.Mode) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: 50 * time.Millisecond}, Mode: first, Culprit: live.CulpritConfig{Mode: culprit.Enforce}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	tr, err := Of(gate, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	gate.SetMode(live.Monitor)
	lock := tr.NewMutex("table")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	job, task := tr.Begin(ctx, Info{Kind: tr.Kind("job"), Background: true})
	defer task.End()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { requests(ctx, gate, lock, &all) })
	time.Sleep(500 * time.Millisecond) // in which it learns what is usual
	if err := lock.Lock(job); err != nil {
		t.Fatal(err)
	}
	defer stop() // before the lock is free
	until(t, ctx, func() bool { return gate.Culprits().Would > 0 })
	if s := gate.Culprits(); job.Err() != nil || s.Cancels > 0 || s.Mode != culprit.Monitor {
		t.Errorf("a gate that monitors has cancelled a job: %+v, %v", s, context.Cause(job))
	}
	gate.SetMode(live.Enforce)
	until(t, ctx, func() bool { return job.Err() != nil })
	if cause := context.Cause(job); !errors.Is(cause, ErrCancelled) {
		t.Errorf("the job ended by %v in a gate that enforces, expected a cancel; %+v", cause, gate.Culprits())
	}
	lock.Unlock(job)
}

// requests come until ctx ends; each needs the lock for a moment.
func requests(ctx context.Context, gate *live.Gate, lock *Mutex, all *sync.WaitGroup) {
	for tick := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		all.Go(func() {
			ticket, err := gate.Enter(ctx, live.Request{Kind: does("victim")})
			if err != nil {
				return
			}
			defer ticket.Leave(work.Done)
			if in := live.WithTicket(ctx, ticket); lock.Lock(in) == nil {
				lock.Unlock(in)
			}
		})
	}
}

// until waits for something, as long as ctx lasts.
func until(t *testing.T, ctx context.Context, is func() bool) {
	t.Helper()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatal("it has not come about within a minute")
		case <-time.After(time.Millisecond):
		}
	}
}
