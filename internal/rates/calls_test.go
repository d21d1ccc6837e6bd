package rates

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// TestCallsPerRequestIncludeThoseThatWereRefused: a request makes two calls to a
// service of two processes, each to either by chance, and one of them refuses all. What
// completes has called the other one twice, and still half of the calls go to each.
func TestCallsPerRequestIncludeThoseThatWereRefused(t *testing.T) {
	a, err := New(0, Config{Resources: []Resource{{Name: "workers", Capacity: 8}}})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(0)
	w := a.Workflow(now, "w")
	good, bad := a.Peer(now, "e", "good"), a.Peer(now, "e", "bad")
	for range 100 {
		for _, calls := range [][2]Peer{{good, good}, {good, bad}, {bad, good}, {bad, bad}} {
			r := Request{Workflow: w, Deadline: mono.Never}
			a.OnArrival(now, &r)
			how := work.Done
			for _, to := range calls {
				if a.OnCall(now, &r, to, 0); to == bad {
					how = work.Dropped
				}
			}
			a.OnDone(now, &r, how)
		}
		now = now.Add(100 * time.Millisecond)
		a.OnWake(now, Signals{})
	}
	for _, l := range a.AppendLinks(now, w, nil) {
		if math.Abs(l.Alpha-1) > 1e-6 {
			t.Errorf("%v calls a request to %s, want 1", l.Alpha, l.Process)
		}
	}
}
