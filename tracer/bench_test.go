package tracer

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/taskfile"
)

// BenchmarkEvent times one event beside half of a lock and unlock of a
// sync.Mutex that nobody contends for.
func BenchmarkEvent(b *testing.B) {
	engine, tr := bench(b)
	r, err := tr.Resource("r", Lock)
	if err != nil {
		b.Fatal(err)
	}
	for _, mode := range []taskfile.Mode{taskfile.Off, taskfile.Coarse, taskfile.Precise} {
		b.Run(mode.String(), func(b *testing.B) {
			if err := engine.SetMode(mode); err != nil {
				b.Fatal(err)
			}
			_, task := tr.Begin(b.Context(), Info{})
			defer task.End()
			fastest(b, func() {
				for range slice {
					task.Acquire(r, 1)
					task.Release(r, 1)
				}
			})
		})
	}
	b.Run("sync.Mutex", func(b *testing.B) {
		var mu sync.Mutex
		fastest(b, func() {
			for range slice {
				mu.Lock()
				mu.Unlock() //nolint:staticcheck // the pair is what is timed
			}
		})
	})
}

// slice is how many pairs of events are timed at once.
const slice = 10_000

// fastest reports half of what a pair takes in the fastest slice, because a busy
// machine only adds.
func fastest(b *testing.B, run func()) {
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		run()
		best = min(best, time.Since(start))
	}
	b.ReportMetric(0, "ns/op") // of a slice, which says nothing
	b.ReportMetric(float64(best.Nanoseconds())/slice/2, "ns/event")
}

// BenchmarkMutex times the traced Mutex in a task, and BenchmarkBegin a task.
func BenchmarkMutex(b *testing.B) {
	engine, tr := bench(b)
	engine.SetMode(taskfile.Coarse)
	m := tr.NewMutex("m")
	ctx, task := tr.Begin(b.Context(), Info{})
	defer task.End()
	for b.Loop() {
		if err := m.Lock(ctx); err != nil {
			b.Fatal(err)
		}
		m.Unlock(ctx)
	}
}

func BenchmarkBegin(b *testing.B) {
	engine, tr := bench(b)
	engine.SetMode(taskfile.Coarse)
	b.ReportAllocs()
	for b.Loop() {
		_, task := tr.Begin(b.Context(), Info{})
		task.End()
	}
}

// BenchmarkRequests times tasks with three locks and a pool on all processors.
func BenchmarkRequests(b *testing.B) {
	engine, tr := bench(b)
	engine.SetMode(taskfile.Coarse)
	lock, errLock := tr.Resource("lock", Lock)
	pool, errPool := tr.Resource("pool", Queue)
	if errLock != nil || errPool != nil {
		b.Fatal(errLock, errPool)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, task := tr.Begin(context.Background(), Info{})
			task.Acquire(pool, 1)
			for range 3 {
				task.WaitBegin(lock)
				task.WaitEnd(lock)
				task.Acquire(lock, 1)
				task.Release(lock, 1)
			}
			task.Release(pool, 1)
			task.End()
		}
	})
}
