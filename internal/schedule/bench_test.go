package schedule

import (
	stdheap "container/heap"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// mixture returns tasks of many workflows in both classes, with deadlines an hour
// from now if so wished.
func mixture(n int, deadlines bool) []Task {
	rng := rand.New(rand.NewPCG(5, 6))
	tasks := make([]Task, n)
	for i := range tasks {
		tasks[i] = Task{Workflow: rng.IntN(16), Sender: uint64(rng.IntN(100)), Class: work.Class(rng.IntN(2)), Deadline: mono.Never, Cost: time.Duration(rng.IntN(int(ms)))}
		if deadlines {
			tasks[i].Deadline = at(time.Hour + time.Duration(rng.IntN(int(time.Second))))
		}
	}
	return tasks
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	for _, cfg := range []Config{{Order: LSTF}, {Order: LSTF, Fair: true}, {Order: LSTF, Fair: true, Senders: 64}, {Senders: 64}} {
		q := mustNew(t, cfg)
		tasks := mixture(500, true)
		now := mono.Time(1)
		cycle := func() {
			for i := range tasks {
				tasks[i].Arrived = 0
				q.Push(now, &tasks[i])
			}
			q.Inherit(&tasks[1], &tasks[2])
			q.Release(&tasks[1])
			q.Remove(&tasks[3])
			for q.Len() > 0 {
				now++
				q.Peek(now)
				task, _ := q.Next(now)
				q.Charge(task, ms)
				q.Settle(task, 2*ms)
			}
		}
		cycle()
		if n := testing.AllocsPerRun(5, cycle); n != 0 {
			t.Errorf("%+v: %v allocations for 500 tasks, want 0", cfg, n)
		}
	}
}

// reference is the heap of the standard library over pointers, by deadline.
type reference []*Task

func (r reference) Len() int           { return len(r) }
func (r reference) Less(i, j int) bool { return r[i].Deadline < r[j].Deadline }
func (r reference) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *reference) Push(x any)        { *r = append(*r, x.(*Task)) }
func (r *reference) Pop() any {
	last := len(*r) - 1
	t := (*r)[last]
	*r = (*r)[:last]
	return t
}

// BenchmarkNextPush takes one task out and puts it back, with a thousand waiting.
// Deadlines are drawn anew, as a heap that is left the same orders itself.
func BenchmarkNextPush(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 8))
	moves := make([]time.Duration, 1<<12)
	for i := range moves {
		moves[i] = time.Duration(rng.IntN(int(time.Second)))
	}
	b.Run("container-heap", func(b *testing.B) {
		var h reference
		tasks := mixture(1000, true)
		for i := range tasks {
			stdheap.Push(&h, &tasks[i])
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			t := stdheap.Pop(&h).(*Task)
			t.Deadline = t.Deadline.Add(moves[i%len(moves)])
			stdheap.Push(&h, t)
		}
	})
	b.Run("heap", func(b *testing.B) {
		var h heap
		tasks := mixture(1000, true)
		for i := range tasks {
			h.push(entry{key: int64(tasks[i].Deadline), task: &tasks[i]})
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			t := h.first()
			h.remove(t)
			t.Deadline = t.Deadline.Add(moves[i%len(moves)])
			h.push(entry{key: int64(t.Deadline), task: t})
		}
	})
	for _, c := range []struct {
		name            string
		cfg             Config
		deadlines, fair bool
	}{
		{name: "fifo", cfg: Config{Order: FIFO}},
		{name: "edf", cfg: Config{Order: EDF}, deadlines: true},
		{name: "edf-fair", cfg: Config{Order: EDF, Fair: true}, deadlines: true},
		{name: "fifo-turns", cfg: Config{Order: FIFO, Senders: 1024}},
		{name: "edf-turns", cfg: Config{Order: EDF, Senders: 1024}, deadlines: true},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := mustNew(b, c.cfg)
			now := mono.Time(1)
			tasks := mixture(1000, c.deadlines)
			for i := range tasks {
				q.Push(now, &tasks[i])
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now++
				t, _ := q.Next(now)
				q.Settle(t, ms)
				t.Arrived = 0
				if c.deadlines {
					t.Deadline = t.Deadline.Add(moves[i%len(moves)])
				}
				q.Push(now, t)
			}
		})
	}
}

// BenchmarkFair takes one task out and puts it back, with so many workflows waiting.
func BenchmarkFair(b *testing.B) {
	for _, workflows := range []int{10, 100, 10_000} {
		b.Run(strconv.Itoa(workflows), func(b *testing.B) {
			q := mustNew(b, Config{Fair: true, Workflows: workflows + 1})
			tasks := make([]Task, 2*workflows)
			for i := range tasks {
				tasks[i] = Task{Workflow: i%workflows + 1, Deadline: mono.Never, Cost: time.Duration(1+i%7) * ms}
				q.Push(1, &tasks[i])
			}
			b.ReportAllocs()
			for b.Loop() {
				t, _ := q.Next(1)
				q.Settle(t, t.Cost)
				q.Push(1, t)
			}
		})
	}
}
