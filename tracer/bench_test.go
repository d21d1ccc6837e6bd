package tracer

import (
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
				//lint:ignore SA2001 the pair is what is timed
				mu.Unlock()
			}
		})
	})
}

// slice is how many pairs of events are timed at once.
const slice = 10_000

// fastest reports half of what a pair takes in the fastest slice.
func fastest(b *testing.B, run func()) { fastestOf(b, slice*2, "ns/event", run) }

// fastestOf reports what one of n things takes in the fastest slice, because a busy machine
// only adds.
func fastestOf(b *testing.B, n int, unit string, run func()) {
	best := time.Hour
	for b.Loop() {
		start := time.Now()
		run()
		best = min(best, time.Since(start))
	}
	b.ReportMetric(0, "ns/op") // of a slice, which says nothing
	b.ReportMetric(float64(best.Nanoseconds())/float64(n), unit)
}

// BenchmarkMutex times the traced Mutex in a task, and BenchmarkBegin a task of a request whose
// own context can be cancelled, as in every server; in "heard" something listens for its end.
func BenchmarkMutex(b *testing.B) {
	engine, tr := bench(b)
	engine.SetMode(taskfile.Coarse)
	m := tr.NewMutex("m")
	ctx, task := tr.Begin(b.Context(), Info{})
	defer task.End()
	fastestOf(b, slice, "ns/lock", func() {
		for range slice {
			if err := m.Lock(ctx); err != nil {
				b.Fatal(err)
			}
			m.Unlock(ctx)
		}
	})
}

func BenchmarkBegin(b *testing.B) {
	engine, tr := bench(b)
	engine.SetMode(taskfile.Coarse)
	for _, name := range []string{"unheard", "heard"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			fastestOf(b, slice/10, "ns/task", func() {
				for range slice / 10 {
					ctx, task := tr.Begin(b.Context(), Info{})
					if name == "heard" {
						ctx.Done()
					}
					task.End()
				}
			})
		})
	}
}

// BenchmarkRequests times requests with three locks and a pool, and nothing else.
func BenchmarkRequests(b *testing.B) {
	engine, tr := bench(b)
	lock, errLock := tr.Resource("lock", Lock)
	pool, errPool := tr.Resource("pool", Queue)
	if errLock != nil || errPool != nil {
		b.Fatal(errLock, errPool)
	}
	for _, mode := range []taskfile.Mode{taskfile.Coarse, taskfile.Precise} {
		b.Run(mode.String(), func(b *testing.B) {
			engine.SetMode(mode)
			fastestOf(b, slice/10, "ns/task", func() {
				for range slice / 10 {
					_, task := tr.Begin(b.Context(), Info{})
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
		})
	}
}
