package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

func TestAhead(t *testing.T) {
	type at struct {
		class    work.Class
		workflow int
	}
	waiting := map[at]int{{work.Default, 0}: 10, {work.Default, 1}: 1, {work.Interactive, 0}: 4}
	for _, c := range []struct {
		what string
		fair bool
		of   at
		want int
	}{
		// Without workflows told apart: the 11 of its class, and all of the other,
		// which has a turn for each of its own.
		{"one order", false, at{work.Default, 1}, 11 + 4},
		{"one order, the smaller class", false, at{work.Interactive, 0}, 4 + 5},
		{"the long one", true, at{work.Default, 0}, 11 + 4},
		// Its second turn comes after two of its neighbour, four in all, in its class,
		// and as many of the other class as there are.
		{"the short one", true, at{work.Default, 1}, 1 + 2 + 4},
		{"nothing of it waits", true, at{work.Default, 2}, 1 + 1 + 3},
		{"a class that does not exist", true, at{9, 2}, 1 + 1 + 3},
	} {
		q, err := New(Config{Fair: c.fair})
		if err != nil {
			t.Fatal(err)
		}
		for k, n := range waiting {
			for range n {
				q.Push(1, &Task{Class: k.class, Workflow: k.workflow, Deadline: 1 << 60})
			}
		}
		if got := q.Ahead(c.of.class, c.of.workflow, 0, 0, Kind{}); got != c.want {
			t.Errorf("%s: %d ahead, want %d", c.what, got, c.want)
		}
	}
}

func TestNothingIsAheadInAnEmptyQueue(t *testing.T) {
	q, err := New(Config{Fair: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := q.Ahead(work.Default, 3, 0, 0, Kind{}); got != 0 {
		t.Errorf("%d ahead, want 0", got)
	}
}

// With one class, no senders and first come, first served, Ahead is exact: what Ahead says of a task that is pushed
// then is how many come out before it, whatever was lent, removed or served before.
func TestAheadKnowsPriorities(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		q, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		priority := func() work.Priority { return []work.Priority{0, 0, 5, 20, 127, 255}[rnd.IntN(1+rnd.IntN(6))] }
		var waiting []*Task
		for range 60 {
			switch other := rnd.IntN(5); {
			case other == 0 && len(waiting) > 0:
				q.Remove(waiting[rnd.IntN(len(waiting))])
			case other == 1:
				q.Next(1)
			case other == 2 && len(waiting) > 1 && seed%2 == 0:
				q.Inherit(waiting[rnd.IntN(len(waiting))], waiting[rnd.IntN(len(waiting))])
			case other == 3 && len(waiting) > 0 && seed%2 == 0:
				q.Release(waiting[rnd.IntN(len(waiting))])
			default:
				task := &Task{Priority: priority(), Arrived: 1, Deadline: mono.Never}
				q.Push(1, task)
				waiting = append(waiting, task)
			}
		}
		last := &Task{Priority: priority(), Arrived: 1, Deadline: mono.Never}
		want := q.Ahead(work.Default, 0, last.Priority, 0, Kind{})
		q.Push(1, last)
		served := 0
		for task, _ := q.Next(1); task != last; task, _ = q.Next(1) {
			served++
		}
		if served != want {
			t.Errorf("seed %d: %d of priority %d came out before, Ahead said %d", seed, served, last.Priority, want)
		}
	}
}

// Of a sender whose turn is late, those of its priority that wait for a later turn are behind it, and those of a better
// priority are not, whatever their turns.
func TestAheadOfTurnsAndPriorities(t *testing.T) {
	q, err := New(Config{Senders: 16})
	if err != nil {
		t.Fatal(err)
	}
	type asks struct {
		priority work.Priority
		sender   uint64
		want     int
	}
	check := func(all ...asks) {
		t.Helper()
		for _, c := range all {
			if got := q.Ahead(work.Default, 0, c.priority, c.sender, Kind{}); got != c.want {
				t.Errorf("of priority %d, sender %d: %d ahead, want %d", c.priority, c.sender, got, c.want)
			}
		}
	}
	for range 10 {
		q.Push(1, &Task{Priority: 20, Sender: 1, Deadline: mono.Never})
	}
	check(asks{3, 2, 0}, asks{20, 1, 10}, asks{20, 2, 1}, asks{127, 2, 10})
	for range 5 {
		q.Push(1, &Task{Priority: 3, Sender: 1, Deadline: mono.Never})
	}
	check(asks{0, 2, 0}, asks{3, 1, 5}, asks{20, 1, 15}, asks{20, 2, 6}, asks{127, 2, 15})
}
