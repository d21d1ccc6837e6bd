package postgres

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// A request that its session has not read waits for a processor from when it was seen first. One
// that came after an answer is another.
func TestUnreadRequests(t *testing.T) {
	b := unladen(10 * ms)
	clock := time.Unix(1000, 0)
	at := mono.Time(time.Second)
	look := func(changed time.Time, unread ...int) *culprit.Sample {
		clock, at = clock.Add(100*ms), at.Add(100*ms)
		return &b.build(&input{at: at, summary: summary{now: clock}, super: true, maySignal: true, unread: unread, unreadAt: at.Add(-20 * ms),
			rows: []activityRow{{pid: 2, backend: "client backend", begun: time.Unix(0, 2), state: "idle", statement: changed, changed: changed, port: 5000}}}).Sample
	}
	answered := clock
	first := look(answered, 5000, 5001)
	if len(first.Tasks) != 1 || len(first.Holds) != 1 || first.Holds[0].Resource != processor || at.Sub(first.Holds[0].WaitingSince) != 20*ms || first.Tasks[0].Steps != 0 {
		t.Fatalf("%+v", first)
	}
	id := first.Tasks[0].ID
	if l := look(answered, 5000); len(l.Tasks) != 1 || l.Tasks[0].ID != id || at.Sub(l.Tasks[0].Started) != 120*ms {
		t.Errorf("the same request: %+v", l)
	}
	if l := look(answered); len(l.Tasks) != 0 {
		t.Errorf("it was read: %+v", l)
	}
	answered = clock.Add(-10 * ms)
	if l := look(answered, 5000); len(l.Tasks) != 1 || l.Tasks[0].ID == id {
		t.Errorf("another request: %+v", l)
	}
	if l := look(clock.Add(90*ms), 5000); len(l.Tasks) != 0 {
		t.Errorf("it was answered since: %+v", l)
	}
}

// Statements whose sessions wait for a processor for a third of the objective in the mean take longer
// than it one time in e³.
func TestLateForLackOfAProcessor(t *testing.T) {
	b := unladen(30 * ms)
	b.use = use{known: true, part: 0.5, short: procfs.Usage{CPU: time.Second, Delay: 2 * time.Second}}
	if timed, late := b.late(100); timed != 100 || late != 4 {
		t.Errorf("%d of %d, expected 4 of 100", late, timed)
	}
	b.use.short.Delay = 20 * ms
	if timed, late := b.late(100); timed != 0 || late != 0 {
		t.Errorf("%d of %d, expected none, and to tell of none", late, timed)
	}
}
