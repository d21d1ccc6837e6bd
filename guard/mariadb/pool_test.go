package mariadb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// A request that nobody has read waits since it was seen first, and goes on waiting when
// it comes into the queue. Only a queue tells that a further request of the same connection
// is another wait.
func TestAwaitThread(t *testing.T) {
	b := unladen(100 * time.Millisecond)
	for i, step := range []struct {
		queues []queued
		want   string // connection: milliseconds of waiting
	}{
		{nil, ""},
		{[]queued{{connection: 7, unread: true}}, "7:0"},
		{[]queued{{connection: 7, unread: true}, {connection: 8, waited: 50_000}}, "7:100 8:50"},
		{[]queued{{connection: 7, waited: 10_000}, {connection: 7, unread: true}, {connection: 8, waited: 150_000}}, "7:200 8:150"},
		{[]queued{{connection: 7, waited: 110_000}, {connection: 8, waited: 20_000}, {connection: 1, unread: true}}, "7:300 8:20"},
		{[]queued{{connection: 8, waited: 120_000}}, "8:120"},
		{[]queued{{connection: 7, unread: true}, {connection: 8, waited: 220_000}}, "7:0 8:220"},
	} {
		at := mono.Time(time.Second).Add(time.Duration(i) * 100 * time.Millisecond)
		l := b.build(&input{at: at, queues: step.queues, pooled: true, own: []int64{1}})
		var got []string
		for _, h := range l.Sample.Holds {
			if h.Resource == threads && h.WaitingSince != culprit.Unset {
				got = append(got, fmt.Sprintf("%d:%d", l.Sessions[h.Task].Process, l.Sample.At.Sub(h.WaitingSince).Milliseconds()))
			}
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("look %d: %q, expected %q", i, got, step.want)
		}
	}
}

// Without a thread pool each connection has a thread, and a request that is not read waits for a processor. Nobody
// holds a thread of a pool that is not there.
func TestUnreadRequestsWaitForAProcessor(t *testing.T) {
	b := unladen(tick)
	for i := range 2 {
		at := mono.Time(time.Second).Add(time.Duration(i) * tick)
		s := &b.build(&input{at: at, queues: []queued{{connection: 7, unread: true}}, sessions: []sessionRow{{id: 2, command: "Query", text: "SELECT 1", elapsed: 5000}}}).Sample
		waits := 0
		for _, h := range s.Holds {
			if h.Resource == threads {
				t.Errorf("look %d: %+v of the thread pool", i, h)
			}
			if h.Resource == processor && h.WaitingSince == mono.Time(time.Second) && b.targets[s.Tasks[h.Task].ID].session == 0 {
				waits++
			}
		}
		if waits != 1 {
			t.Errorf("look %d: %d requests wait for a processor since they were seen first, want 1", i, waits)
		}
	}
}
