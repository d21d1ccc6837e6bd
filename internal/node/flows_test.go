package node

import (
	"fmt"
	"testing"

	"github.com/spillgate/spillgate/internal/mono"
)

// Names of workflows without end: the first keep their numbers, the others share
// one, and numbers of those that are silent are given away.
func TestFlowsAreBounded(t *testing.T) {
	f := NewFlows(3)
	one, _ := f.Of(0, "one")
	two, _ := f.Of(0, "two")
	two.Pinned = true
	for i := range 1000 {
		if w, fresh := f.Of(0, fmt.Sprint("flood", i)); w.Number != 0 || fresh {
			t.Fatalf("flood %d has number %d", i, w.Number)
		}
	}
	one.Inside = 1
	later := mono.Time(2 * flowKeep)
	if w, _ := f.Of(later, "late"); w.Number != 0 {
		t.Errorf("the number of a workflow in use was given away, %d", w.Number)
	}
	one.Inside = 0
	if w, fresh := f.Of(later, "late"); w.Number != 1 || !fresh {
		t.Errorf("number %d, fresh %v, want 1", w.Number, fresh)
	}
	if w, _ := f.Of(later, "one"); w.Number != 0 {
		t.Errorf("one has number %d, want 0", w.Number)
	}
	if w, _ := f.Of(later, "two"); w.Number != 2 || len(f.byName) != 3 {
		t.Errorf("two has number %d, %d names", w.Number, len(f.byName))
	}
}
