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

// Before all processes of a server were counted twice nothing is said of others: what its workers used before they were known is not
// theirs. Those that come later are the server's from their first instant on.
func TestLackOfProcesses(t *testing.T) {
	needs.Dir(t, "/proc/self/ns") // Linux
	var l Lack
	self, now := int64(os.Getpid()), time.Now()
	none := func() []int64 { return nil }
	all := func() []int64 { return []int64{self, 1 << 40} }
	step := func(processes func() []int64, known int) {
		t.Helper()
		now = now.Add(ownEvery)
		l.Begin(now, processes)
		if lack, ok := l.Of(self); !ok || lack < 0 || len(l.known) != known {
			t.Fatalf("lack %v, %v, %d processes known, expected %d", lack, ok, len(l.known), known)
		}
	}
	unknown := func() {
		t.Helper()
		if l.taken != 0 || l.share != 0 {
			t.Errorf("taken %v, share %v, expected nothing before the processes were counted twice", l.taken, l.share)
		}
	}
	step(none, 0)
	l.busy = 1 // as if all processors had been in use since
	step(none, 0)
	unknown()
	l.busy = 1
	step(all, 1)
	unknown()
	l.busy = 1
	step(all, 1)
	if l.taken != 1 || l.share < 0.5 {
		t.Errorf("taken %v, share %v, expected all and most", l.taken, l.share)
	}
	delete(l.known, self) // as if this process were new
	used, _ := CPU(self)
	l.busy = l.meter.busy - used
	l.count(now.Add(ownEvery), all()) // with what all had used at the last look, or others' work since would count
	if l.share > 0.5 {
		t.Errorf("share %v of others, expected that all was used by the new process", l.share)
	}
	if _, ok := l.Of(1 << 40); ok {
		t.Error("a process that is not there was read")
	}
}

// The processes of a server are the one that started them and its children.
func TestFamily(t *testing.T) {
	for text, want := range map[string][2]string{"12 (a) b) S 7 12 12": {"a) b", "7"}, "12 (a) S 0 12": {"a", "0"}, "12 (a) S x": {}, "12 (a) S": {}, "12 a S 7": {}, "": {}} {
		if name, parent, ok := parseLineage([]byte(text)); ok != (want != [2]string{}) || ok && (name != want[0] || parent != want[1]) {
			t.Errorf("%q: %q, %q, %v, expected %q", text, name, parent, ok, want)
		}
	}
	if family := Family(1 << 40); family != nil {
		t.Errorf("the family of nobody is %v", family)
	}
}
