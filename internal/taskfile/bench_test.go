package taskfile

import (
	"sync"
	"testing"
	"time"
)

// BenchmarkEvent times one event, an acquire or a release, beside half of an
// uncontended lock and unlock.
func BenchmarkEvent(b *testing.B) {
	for _, mode := range []Mode{Off, Coarse, Precise} {
		b.Run(mode.String(), func(b *testing.B) {
			f := inMemory(Geometry{})
			f.at(1e12, mode)
			s := f.Begin(Task{})
			for b.Loop() {
				s.Acquire(3, 1)
				s.Release(3, 1)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/event")
		})
	}
	b.Run("mutex", func(b *testing.B) {
		var mu sync.Mutex
		for b.Loop() {
			mu.Lock()
			//lint:ignore SA2001 the pair is what is timed
			mu.Unlock()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/event")
	})
}

// BenchmarkTask times the beginning and end of a task.
func BenchmarkTask(b *testing.B) {
	f := inMemory(Geometry{})
	f.at(1e12, Coarse)
	for b.Loop() {
		s := f.Begin(Task{})
		s.Acquire(3, 1)
		s.End()
	}
}

// BenchmarkLook times a look at 1,000 tasks, each at 8 resources.
func BenchmarkLook(b *testing.B) {
	f := inMemory(Geometry{})
	e := attached(b, f)
	f.at(1e12, Coarse)
	for i := range 8 {
		f.Resource(string(rune('a'+i)), Lock)
	}
	for range 1000 {
		s := f.Begin(Task{})
		for r := range 8 {
			s.Acquire(r, 1)
		}
	}
	b.ReportAllocs()
	fastest := time.Hour // a busy machine only adds
	for b.Loop() {
		start := time.Now()
		if _, err := e.Look(time.Second); err != nil {
			b.Fatal(err)
		}
		fastest = min(fastest, time.Since(start))
	}
	b.ReportMetric(float64(fastest.Microseconds()), "µs-fastest")
}
