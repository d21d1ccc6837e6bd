package mesh

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// Who waits while a batch runs is in the next one, if there is room: a batch takes no more than its permits, and begins when the
// whole of the one before has ended.
func TestBatches(t *testing.T) {
	work := world.Step{Lock: "batch", Wait: constant(100 * msec)}
	w := alone(world.Service{Locks: []world.Lock{{Name: "batch", Permits: 3, Batch: true}}, Methods: []world.Method{{Name: "do", Steps: []world.Step{work}}}}, 1)
	w.Warmup, w.Length = 0, 2*time.Second
	// The first is alone, up to 100 ms; the next three end at 200 ms, and the last at 300.
	w.Clients[0].Load = world.Load{Arrivals: []time.Duration{0, 10 * msec, 20 * msec, 30 * msec, 40 * msec, 10 * time.Second}}
	m := mustDescribe(t, w, None(), 1)
	if _, err := m.Run(); err != nil {
		t.Fatal(err)
	}
	if got := m.Measured().Groups[0].Max.Truncate(msec); got != 260*msec {
		t.Errorf("the last answer took %v, want 260 ms", got)
	}
	if got := m.tally.latency[0].Mean().Round(msec); got != 180*msec {
		t.Errorf("the five take %v on average, want 180 ms", got)
	}
}
