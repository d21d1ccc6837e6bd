package tracer

import (
	"sync"
	"testing"

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
	half := func(b *testing.B) { b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/event") }
	for _, mode := range []taskfile.Mode{taskfile.Off, taskfile.Coarse, taskfile.Precise} {
		b.Run(mode.String(), func(b *testing.B) {
			if err := engine.SetMode(mode); err != nil {
				b.Fatal(err)
			}
			_, task := tr.Begin(b.Context(), Info{})
			defer task.End()
			for b.Loop() {
				task.Acquire(r, 1)
				task.Release(r, 1)
			}
			half(b)
		})
	}
	b.Run("sync.Mutex", func(b *testing.B) {
		var mu sync.Mutex
		for b.Loop() {
			mu.Lock()
			mu.Unlock() //nolint:staticcheck // the pair is what is timed
		}
		half(b)
	})
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
