package schedule

import (
	"testing"

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
		if got := q.Ahead(c.of.class, c.of.workflow, 0); got != c.want {
			t.Errorf("%s: %d ahead, want %d", c.what, got, c.want)
		}
	}
}

func TestNothingIsAheadInAnEmptyQueue(t *testing.T) {
	q, err := New(Config{Fair: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := q.Ahead(work.Default, 3, 0); got != 0 {
		t.Errorf("%d ahead, want 0", got)
	}
}
