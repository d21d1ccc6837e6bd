package procfs

import (
	"os"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/needs"
)

// What the server used of the processors others did not; their part of what was used is their part of the wait.
func TestLackDivides(t *testing.T) {
	const ms = time.Millisecond
	var l Lack
	for i, step := range []struct {
		own, busy    time.Duration
		taken, share float64
	}{{0, 9000 * ms, 0, 0}, {500 * ms, 10_000 * ms, 0.25, 0.5}, {0, 11_000 * ms, 0.5, 1}, {1000 * ms, 12_000 * ms, 0, 0}, {600 * ms, 12_500 * ms, 0, 0}, {0, 12_500 * ms, 0, 0}} {
		l.enter(time.Second, step.own, step.busy, 2)
		if l.taken != step.taken || l.share != step.share {
			t.Errorf("step %d: taken %v, share %v; expected %v and %v", i, l.taken, l.share, step.taken, step.share)
		}
	}
}

// A process that is read lacks nothing that it did not wait for, and one that is gone is forgotten.
func TestLackOfProcesses(t *testing.T) {
	needs.Dir(t, "/proc/self/ns") // Linux
	var l Lack
	now := time.Now()
	l.Begin(now)
	if _, ok := l.Of(int64(os.Getpid())); !ok {
		t.Fatal("this process cannot be read")
	}
	if _, ok := l.Of(1 << 40); ok {
		t.Error("a process that is not there was read")
	}
	l.known[1<<40] = time.Second
	l.Begin(now.Add(2 * ownEvery))
	if lack, ok := l.Of(int64(os.Getpid())); !ok || lack < 0 || l.Taken() < 0 || l.Taken() > 1 || len(l.known) != 1 {
		t.Errorf("lack %v, %v, taken %v, %d processes; expected one, and parts of 0 to 1", lack, ok, l.Taken(), len(l.known))
	}
}
