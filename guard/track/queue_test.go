package track

import (
	"fmt"
	"testing"
)

// request is one of the queue of a lock.
type request struct {
	lock              string
	granted, excludes bool
}

func TestQueuesKeepTheOrder(t *testing.T) {
	rows := []request{{lock: "b"}, {lock: "a"}, {lock: "b", granted: true}}
	queues := Queues(rows, func(r *request) string { return r.lock })
	if len(queues) != 2 || len(queues[0]) != 2 || queues[0][0] != &rows[0] || queues[0][1] != &rows[2] || queues[1][0] != &rows[1] {
		t.Errorf("%v, want b's two rows and then a's", queues)
	}
}

func TestBlockers(t *testing.T) {
	held, asked := request{granted: true, excludes: true}, request{excludes: true}
	shared, harmless := request{granted: true}, request{}
	for _, tt := range []struct {
		name  string
		front []*request
		want  int // how many of the front, from its first that excludes
	}{
		{"nobody", nil, 0},
		{"all holders of what conflicts", []*request{&held, &shared, &held}, 2},
		{"who asked waits for the holder too", []*request{&held, &asked}, 1},
		{"the first that asked, where nobody holds", []*request{&shared, &harmless, &asked, &asked}, 1},
		{"nobody who is compatible", []*request{&shared, &harmless}, 0},
	} {
		got := Blockers(tt.front, func(r *request) bool { return r.excludes }, func(r *request) bool { return r.granted })
		if len(got) != tt.want {
			t.Errorf("%s: %d blockers, want %d: %s", tt.name, len(got), tt.want, fmt.Sprint(got))
		}
		for _, b := range got {
			if !b.excludes {
				t.Errorf("%s: a blocker does not conflict", tt.name)
			}
		}
	}
}
