package live

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

func TestTurns(t *testing.T) {
	var s turns
	for _, c := range []struct {
		now  mono.Time
		long bool
		want bool
		why  string
	}{
		{10, false, false, "the lag is short"},
		{20, true, true, "it is long"},
		{119, false, true, "it was long a moment ago"},
		{120, false, false, "it was long a while ago"},
	} {
		if got := s.on(c.now, c.long, 100); got != c.want {
			t.Errorf("at %d turns are on: %v, want %v: %s", c.now, got, c.want, c.why)
		}
	}
	_, first := s.take()
	_, second := s.take()
	wait, _ := s.take()
	if !first || second {
		t.Errorf("the first is the first: %v, and the second: %v", first, second)
	}
	if !s.give(2) || s.give(2) || len(s.waiting) != 0 {
		t.Errorf("3 waited: %d are left after twice two turns", len(s.waiting))
	}
	<-wait
	last, _ := s.take()
	s.end()
	<-last
	if wait, _ := s.take(); wait != nil {
		t.Error("a turn is waited for that nobody gives any more")
	}
}

// Where handlers are short nobody takes a turn, and a long one among them is an
// exception.
func TestTurnsAreForLongHandlers(t *testing.T) {
	l := &lag{}
	l.gap.Store(int64(time.Millisecond))
	l.turns.over = true // what would wait goes on
	for range 200 {
		l.turns.ran(20 * time.Microsecond)
	}
	l.turns.ran(time.Second)
	if d := time.Duration(l.turns.handler); d < 15*time.Microsecond || d > 30*time.Microsecond {
		t.Errorf("handlers take 20µs but for one, and count as %v", d)
	}
	for range 100 {
		l.turns.ran(2 * time.Millisecond)
	}
	if d := time.Duration(l.turns.handler); d < 1900*time.Microsecond || d > 2*time.Millisecond {
		t.Errorf("handlers take 2ms, and count as %v", d)
	}
	l.turns.ran(-time.Second)
	for range 1000 {
		l.turns.ran(0)
	}
	if d := l.turns.handler; d < 0 || d > int64(time.Microsecond) {
		t.Errorf("handlers take no time, and count as %v", time.Duration(d))
	}
}

// useProcessor tells g that the process uses so much of busyGap, often enough that a few looks at
// what this test really uses change nothing.
func useProcessor(g *Gate, used time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range 50 {
		g.node.OnBusy(used, busyGap, 1, 0)
	}
}

// A process that leaves most of its processors to others takes no turns, however long messages wait for
// it; one that uses them does.
func TestTurnsAreForABusyProcess(t *testing.T) {
	g := newGate(t, 0, GateConfig{})
	g.WatchNetwork()
	l := g.lag.Load()
	for _, used := range []time.Duration{busyGap / 5, busyGap, busyGap / 5} {
		useProcessor(g, used)
		g.onLag(time.Second)
		l.turns.until.Store(int64(mono.Never))
		l.turns.long.Store(true)
		l.read.Store(0)
		if took, want := l.turn(Now()), used == busyGap; took != want {
			t.Errorf("the process uses %v of %v: a request waits for a turn: %v, want %v", used, busyGap, took, want)
		}
	}
}

// A request begins only after a goroutine that has something to read has read it,
// also where no processor is free to look at the network. The system may stop the reader
// between its read and its next step, so not every request is to find that, but most are; none
// does where requests take no turns.
func TestReadersComeFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	g := newGate(t, 0, GateConfig{})
	g.WatchNetwork()
	l := g.lag.Load()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const requests = 50
	saw := make(chan struct{}, 1)
	go func() {
		defer r.Close()
		var buf [1]byte
		for {
			if _, err := r.Read(buf[:]); err != nil {
				return
			}
			saw <- struct{}{}
		}
	}()
	first := 0
	for range requests {
		l.turns.until.Store(int64(mono.Never))
		l.turns.long.Store(true)
		useProcessor(g, busyGap)
		l.turns.busy.Store(true)
		if _, err := w.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		l.read.Store(0)
		enter(t, g, Request{}).Leave(work.Done)
		first += len(saw)
		<-saw
	}
	if first < requests/2 {
		t.Errorf("%d of %d requests began after the reader had read", first, requests)
	}
}

// Requests that wait for a turn when the gate closes go on.
func TestCloseGivesTurns(t *testing.T) {
	g := newGate(t, 0, GateConfig{})
	g.WatchNetwork()
	l := g.lag.Load()
	wait, _ := l.turns.take()
	g.Close()
	<-wait
	l.turn(Now())
}
