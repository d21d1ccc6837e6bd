package culprit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// crowd returns a sample of n tasks and r resources at an instant: task 0 holds a
// lock and most of the rest, the others wait in chains and use a bit of everything.
func crowd(n, r int, at mono.Time) *Sample {
	s := &Sample{At: at, Finished: Finished{Count: 10, Timed: 10}}
	for k := range r {
		s.Resources = append(s.Resources, Resource{Name: string(rune('a' + k)), Kind: Kind(k) % kinds})
	}
	for i := range n {
		s.Tasks = append(s.Tasks, Task{ID: uint64(i + 1), Kind: uint64(i%7 + 1), Started: mono.Time(i), Steps: StepsOf(Statement, Session)})
		for k := range r {
			h := Hold{Task: int32(i), Resource: int32(k), Gets: uint64(i*k + int(at)/1e6), Waits: uint64(i), WaitTime: time.Duration(i), Used: uint64(i % 3), WaitingSince: Unset, HeldSince: Unset}
			if k == i%r && i > 0 {
				h.WaitingSince = s.Tasks[i].Started
			} else if k == (i+1)%r || i == 0 {
				h.HeldSince = s.Tasks[i].Started
			}
			s.Holds = append(s.Holds, h)
		}
		if i > 0 {
			s.Edges = append(s.Edges, Edge{Waiter: int32(i), Blocker: int32(i / 2), Resource: int32(i % r / 4 * 4)})
		}
	}
	return s
}

// crowded returns an engine and the samples that it is to observe in turn, all of
// them suspect.
func crowded(tb testing.TB, n, r int) (*Engine, func() *Decision) {
	e, err := New(Config{Objective: 100 * time.Millisecond, Mode: Enforce})
	if err != nil {
		tb.Fatal(err)
	}
	s := crowd(n, r, mono.Time(time.Second))
	if err := s.Check(); err != nil {
		tb.Fatal(err)
	}
	e.Observe(s) // the first look proves nothing
	return e, func() *Decision {
		s.At = s.At.Add(100 * time.Millisecond)
		return e.Observe(s)
	}
}

// A window of 1,000 tasks × 8 resources must take at most 1 ms. A busy machine only adds, so
// the fastest window stands beside the mean.
func BenchmarkObserve(b *testing.B) {
	_, observe := crowded(b, 1000, 8)
	b.ReportAllocs()
	fastest := time.Hour
	for b.Loop() {
		start := time.Now()
		observe()
		fastest = min(fastest, time.Since(start))
	}
	b.ReportMetric(float64(fastest.Microseconds()), "µs-fastest")
}

func TestObserveDoesNotAllocate(t *testing.T) {
	_, observe := crowded(t, 1000, 8)
	for range 5 {
		if d := observe(); len(d.Candidates) == 0 {
			t.Fatalf("no candidates in %+v: the sample was to be suspect", d)
		}
	}
	if n := testing.AllocsPerRun(50, func() { observe() }); n > 0 {
		t.Errorf("a window allocates %v times, want 0", n)
	}
}
