package tracer

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

func gated(t *testing.T, mode culprit.Mode) (*live.Gate, *Tracer) {
	t.Helper()
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: 10 * time.Second}, Culprit: live.CulpritConfig{Mode: mode, Every: 10 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	tr, err := Of(gate, Config{Slots: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return gate, tr
}

// TestARequestOfAGateIsATask: without Begin, for any number of its goroutines, until it
// leaves; what comes after that does nothing.
func TestARequestOfAGateIsATask(t *testing.T) {
	gate, tr := gated(t, culprit.Monitor)
	lock, pool := tr.NewMutex("lock"), tr.NewPool("pool", 2)
	if From(t.Context()) != nil {
		t.Error("a context without a request has a task")
	}
	for range 200 { // more than there are slots: each is given back
		ticket, err := gate.Enter(t.Context(), live.Request{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := live.WithTicket(t.Context(), ticket)
		var together sync.WaitGroup
		for range 3 {
			together.Go(func() {
				if err := lock.Lock(ctx); err != nil {
					t.Error(err)
					return
				}
				lock.Unlock(ctx)
				branch, task := Branch(ctx)
				if err := pool.Acquire(branch, 1); err != nil {
					t.Error(err)
				} else {
					pool.Release(branch, 1)
				}
				task.End()
			})
		}
		together.Wait()
		task := From(ctx)
		if task == nil || task != From(ctx) {
			t.Fatalf("the request has the task %p, expected one, and the same again", task)
		}
		ticket.Leave(work.Done)
		if From(ctx) != nil {
			t.Error("a request that has left has a task")
		}
		task.SetProgress(1, 2) // harmless
		if lock.Lock(ctx) == nil {
			lock.Unlock(ctx)
		}
	}
	if n := tr.file.Untraced(); n > 0 {
		t.Errorf("%d requests found no slot, expected that each gave its own back", n)
	}
}

// TestOneTracerForAGate: a second one is refused, and so is one of a gate that looks for
// no culprits; the nil Tracer that comes with it works.
func TestOneTracerForAGate(t *testing.T) {
	if tr, err := Of(nil, Config{}); tr != nil || err == nil {
		t.Errorf("without a gate: %v, %v", tr, err)
	}
	gate, _ := gated(t, culprit.Monitor)
	second, err := Of(gate, Config{})
	if err == nil || second != nil {
		t.Errorf("a second tracer: %v, expected an error", err)
	}
	off, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Second}, Culprit: live.CulpritConfig{Mode: culprit.Off}})
	if err != nil {
		t.Fatal(err)
	}
	defer off.Close()
	none, err := Of(off, Config{})
	if err == nil || none != nil {
		t.Errorf("a tracer of a gate that does not look: %v, expected an error", err)
	}
	lock := none.NewMutex("x")
	if err := lock.Lock(context.Background()); err != nil {
		t.Error(err)
	}
	lock.Unlock(context.Background())
}

// A gate knows how many units queues have: those of one name together.
func TestAGateKnowsUnits(t *testing.T) {
	_, tr := gated(t, culprit.Monitor)
	tr.NewPool("connections", 8)
	tr.NewPool("connections", 4)
	tr.NewWorkQueue("workers", 3, 100)
	tr.NewMutex("lock")
	tr.NewPool("not\na name", 8)
	for queue, want := range map[string]uint64{"connections": 12, "workers": 3, "lock": 0, "slots": 0, "not\na name": 0} {
		if got := tr.gate.of(queue); got != want {
			t.Errorf("%s has %d units, expected %d", queue, got, want)
		}
	}
}
