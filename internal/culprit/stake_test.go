package culprit

import (
	"reflect"
	"testing"
	"time"
)

func TestWhoHoldsAndWhoWaits(t *testing.T) {
	s := Sample{At: 1000, Tasks: make([]Task, 4), Resources: make([]Resource, 2),
		Holds: []Hold{
			{Task: 0, Resource: 0, HeldSince: 100, WaitingSince: Unset},
			{Task: 1, Resource: 0, HeldSince: Unset, WaitingSince: 700},
			{Task: 2, Resource: 0, HeldSince: Unset, WaitingSince: 300},
			{Task: 3, Resource: 1, HeldSince: 2000, WaitingSince: Unset}, // a clock that is ahead
		},
		Edges: []Edge{{Waiter: 2, Blocker: 0, Resource: 0}},
	}
	want := []Stake{{Task: 2, Blocker: 0, For: 700}, {Task: 1, Blocker: -1, For: 300}}
	if got := s.Waiting(5); !reflect.DeepEqual(got, want) {
		t.Errorf("waiting: %+v, expected %+v", got, want)
	}
	if got := s.Waiting(1); !reflect.DeepEqual(got, want[:1]) {
		t.Errorf("the first that waits: %+v, expected %+v", got, want[:1])
	}
	want = []Stake{{Task: 0, Blocker: -1, For: 900}, {Task: 3, Resource: 1, Blocker: -1, For: time.Duration(0)}}
	if got := s.Holding(5); !reflect.DeepEqual(got, want) {
		t.Errorf("holding: %+v, expected %+v", got, want)
	}
}
