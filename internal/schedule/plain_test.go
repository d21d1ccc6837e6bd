package schedule

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// TestOneStructureDecidesAsTwo: a queue that may do with one structure lets out the same
// tasks, at the same instants, as one that always keeps both. Few tasks are out of the
// ordinary, so both ways of the first queue are taken, and the changes between them.
func TestOneStructureDecidesAsTwo(t *testing.T) {
	kept, ended := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Order: rapid.SampledFrom([]Order{FIFO, EDF, LSTF}).Draw(t, "order"), Fair: rapid.Bool().Draw(t, "fair"), Aging: 40 * ms,
			Senders: rapid.SampledFrom([]int{0, 8}).Draw(t, "senders")}
		remaining := rapid.SampledFrom([]time.Duration{0, ms}).Draw(t, "remaining")
		quick, full := made(t, cfg), made(t, cfg)
		var tasks [][2]*Task
		now := mono.Time(time.Second)
		odd := func() bool { return rapid.IntRange(0, 19).Draw(t, "odd") == 0 }
		pop := func(a *Task, runs bool, b *Task, also bool) {
			if (a == nil) != (b == nil) || runs != also || a != nil && a.Owner != b.Owner {
				t.Fatalf("out comes %v, %v, expected %v, %v", a, runs, b, also)
			}
		}
		for i := range rapid.IntRange(1, 120).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "pause")) * ms / 2)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			default:
				task := Task{Class: work.Class(rapid.IntRange(0, 1).Draw(t, "class")), Workflow: rapid.IntRange(0, 2).Draw(t, "workflow"),
					Arrived: now.Add(-time.Duration(rapid.IntRange(0, 2).Draw(t, "late")) * ms), Priority: 3, Remaining: remaining, Owner: i, Sender: uint64(rapid.IntRange(0, 40).Draw(t, "sender")),
					Deadline: now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "deadline")) * ms)}
				switch {
				case odd():
					task.Priority = work.Priority(rapid.IntRange(2, 4).Draw(t, "priority"))
				case odd():
					task.Deadline = mono.Never
				case odd():
					task.Remaining, task.Least = 3*ms, 2*ms
				}
				twin := task
				tasks = append(tasks, [2]*Task{&task, &twin})
				quick.Push(now, &task)
				full.Push(now, &twin)
			case 5, 6:
				a, runs := quick.Next(now)
				b, also := full.Next(now)
				pop(a, runs, b, also)
			case 7:
				pop(quick.Expired(now), false, full.Expired(now), false)
			case 8:
				if len(tasks) > 0 {
					pair := rapid.SampledFrom(tasks).Draw(t, "removed")
					if quick.Remove(pair[0]) != full.Remove(pair[1]) {
						t.Fatal("one had it, the other not")
					}
				}
			case 9:
				if len(tasks) > 1 && odd() {
					holder, waiter := rapid.SampledFrom(tasks).Draw(t, "holder"), rapid.SampledFrom(tasks).Draw(t, "waiter")
					if quick.Inherit(holder[0], waiter[0]) != full.Inherit(holder[1], waiter[1]) {
						t.Fatal("a loan helped in one, not in the other")
					}
				}
			}
			if full.plain.holds {
				full.spread()
			}
			a, runs := quick.Peek(now)
			b, also := full.Peek(now)
			pop(a, runs, b, also)
			pop(quick.Oldest(), false, full.Oldest(), false)
			if quick.NextWake() != full.NextWake() {
				t.Fatalf("the next is lost at %v, expected %v", quick.NextWake(), full.NextWake())
			}
			if quick.len > 1 && quick.plain.holds {
				kept++
			} else if quick.len > 1 {
				ended++
			}
		}
	})
	if kept == 0 || ended == 0 {
		t.Errorf("one structure %d times, two %d times: one way was not tested", kept, ended)
	}
}

func made(t *rapid.T, cfg Config) *Queue {
	q, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}
