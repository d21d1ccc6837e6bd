package grpcgate

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
)

// A server whose handler takes three times the objective says so, once, with the time,
// and goes on serving; when the handler has become fast it says that as well.
func TestAnObjectiveOutOfReach(t *testing.T) {
	const objective = 20 * time.Millisecond
	var mu sync.Mutex
	var changes []live.Reach
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: objective}, Observe: func(e live.Event) {
		if e.Reach != nil {
			mu.Lock()
			changes = append(changes, *e.Reach)
			mu.Unlock()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	var slow atomic.Bool
	slow.Store(true)
	s := serve(t, gate, &echo{handle: func(_ context.Context, req string) (string, error) {
		if slow.Load() {
			time.Sleep(3 * objective)
		}
		return req, nil
	}}, nil)
	conn := dial(t, s.addr)
	said := func(n int) func() bool {
		return func() bool {
			call1(within(t), conn, "x")
			mu.Lock()
			defer mu.Unlock()
			return len(changes) >= n
		}
	}
	away := watchProcessor(t)
	served, refused := 0, 0
	for range 40 {
		if _, err := call1(within(t), conn, "x"); err != nil {
			refused++
		} else {
			served++
		}
	}
	if refused > served && away() < objective { // it could serve all, but for messages that lie about on a busy machine
		t.Errorf("%d of 40 requests were refused, one after the other", refused)
	}
	eventually(t, "said that it is out of reach", said(1))
	if st := gate.Stats(); !st.Unreachable || st.Objective != objective {
		t.Errorf("%+v", st)
	}
	slow.Store(false)
	eventually(t, "said that it is within reach", said(2))
	mu.Lock()
	defer mu.Unlock()
	if r := changes[0]; !r.Out || r.Service < 3*objective || r.Objective != objective {
		t.Errorf("said first %+v", r)
	}
	if r := changes[1]; r.Out || r.Service > objective {
		t.Errorf("said then %+v", r)
	}
}
