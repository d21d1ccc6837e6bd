package admission

import (
	"testing"

	"github.com/spillgate/spillgate/internal/work"
)

// A sender that has had much makes room for one that has had little, but not with a request of a better priority: that
// goes before the other anyway.
func TestNoBetterPriorityMakesRoom(t *testing.T) {
	for _, tt := range []struct {
		waiting, comes uint8
		in             bool
	}{{20, 20, true}, {20, 0, true}, {0, 20, false}} {
		o, n := &Ticket{}, &Ticket{}
		o.Priority, n.Priority = work.Priority(tt.waiting), work.Priority(tt.comes)
		if got := new(Gate).inLine(o, n); got != tt.in {
			t.Errorf("one of priority %d may make room for one of %d: %v, want %v", tt.waiting, tt.comes, got, tt.in)
		}
	}
}
