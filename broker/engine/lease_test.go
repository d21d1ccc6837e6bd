package engine

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// A share whose lease is over goes as its floor lets it from that instant on, though nobody has said so: as in a process that was
// stopped and goes on. What was due before goes.
func TestLease(t *testing.T) {
	h := testHub(t, Config{})
	var c client
	subscribe(t, h, "t", &Subscription{Who: &c})
	now := h.now()
	at := func(s float64) mono.Time { return now.Add(time.Duration(s * 3600e9)) } // hours, so that no timer rings meanwhile
	lease := NewLease(at(1))
	h.SetShare("t", &Share{Rate: 10. / 3600, Burst: 1, Lease: lease, FloorRate: 1. / 3600, FloorBurst: 1})
	to := topic(t, h, "t")
	b := h.NewBatch()
	for id := range uint16(8) { // one goes, the others are due a tenth of an hour after each other
		publish(b, to, "m", id)
	}
	if !lease.Extend(at(.35)) {
		t.Fatal("the lease is over too early")
	}
	l := h.lanes[laneKey{filter: "t", topic: "t", share: true}]
	goes := func(s float64, want int) {
		t.Helper()
		l.mu.Lock()
		b.Begin(at(s))
		l.release(b, at(s))
		l.mu.Unlock()
		b.End()
		if got := c.count(); got != want {
			t.Errorf("after %v hours %d messages have gone, want %d", s, got, want)
		}
	}
	goes(.25, 3)
	goes(1.34, 5) // the others were due .05, .15, .25 and .35 hours after the lease, and are .5, 1.5, 2.5 and 3.5 now
	if lease.Extend(at(2)) {
		t.Error("a lease that is over can be extended")
	}
	goes(2.86, 7)
	if s := h.Stats(); len(s) == 0 || s[0].Limit.Rate != 1./3600 {
		t.Errorf("the limit is %+v, want the floor", s)
	}
}

// A share that is given anew after its lease was over does not have what waits go as if it had lasted until then, though no message
// has found it to be over: the process was stopped, and goes on.
func TestShareAfterLease(t *testing.T) {
	h := testHub(t, Config{})
	var c client
	subscribe(t, h, "t", &Subscription{Who: &c})
	lease := NewLease(h.now().Add(time.Hour))
	h.SetShare("t", &Share{Rate: 1000. / 3600, Burst: 1, Lease: lease, FloorRate: 1. / 3600, FloorBurst: 1})
	to := topic(t, h, "t")
	b := h.NewBatch()
	for id := range uint16(8) { // one goes, the others are due 3.6 s after each other
		publish(b, to, "m", id)
	}
	l := h.lanes[laneKey{filter: "t", topic: "t", share: true}]
	l.mu.Lock()
	for i := range l.queue.len() { // an hour is over since
		l.queue.at(i).due -= mono.Time(time.Hour)
	}
	l.mu.Unlock()
	lease.Extend(h.now().Add(-time.Hour))
	h.SetShare("t", &Share{Rate: 1. / 3600, Burst: 1})
	l.ring()
	if n := c.count(); n > 2 {
		t.Errorf("%d messages have gone, want no more than one since the lease was over", n)
	}
}

// A lease that the hub has found to be over ends a share no earlier than when it ended: what waits then does not wait for longer than
// by the floor.
func TestLeaseThatIsOver(t *testing.T) {
	h := testHub(t, Config{})
	lease := NewLease(h.now().Add(time.Hour))
	h.SetShare("t", &Share{Rate: 10, Burst: 1, Lease: lease, FloorRate: .1, FloorBurst: 1})
	to := topic(t, h, "t")
	end := h.now()
	lease.Extend(end)
	b := h.NewBatch()
	for id := range uint16(3) {
		publish(b, to, "m", id)
	}
	h.SetShare("t", &Share{Rate: 10, Burst: 1, Lease: lease, FloorRate: .1, FloorBurst: 1})
	publish(b, to, "m", 3)
	l := h.lanes[laneKey{filter: "t", topic: "t", share: true}]
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.queue.at(l.queue.len() - 1).due.Sub(h.now()); last > 10*time.Hour {
		t.Errorf("the last waits for %v, want about 30 s", last)
	}
}

// Statistics may be read while leases end.
func TestLeaseEndsBesideStats(t *testing.T) {
	h := testHub(t, Config{})
	to := topic(t, h, "t")
	for range 100 {
		h.SetShare("t", &Share{Rate: 1e6, Burst: 1e3, Lease: NewLease(h.now()), FloorRate: 1e5, FloorBurst: 1e3})
		done := make(chan struct{})
		go func() {
			defer close(done)
			publish(h.NewBatch(), to, "m", 1)
		}()
		for range 5 {
			h.Stats()
		}
		<-done
	}
}

// A part of a lease ends with it for good, or by itself, whichever is earlier.
func TestPartOfALease(t *testing.T) {
	whole := NewLease(100)
	long, short := whole.Part(200), whole.Part(50)
	for name, c := range map[string]struct {
		lease *Lease
		now   mono.Time
		ended mono.Time
		over  bool
	}{"before": {long, 99, 0, false}, "the earlier": {short, 60, 50, true}} {
		if ended, over := c.lease.Over(c.now); ended != c.ended || over != c.over {
			t.Errorf("%s: over %v at %v", name, over, ended)
		}
	}
	if ended, over := long.Over(150); !over || ended != 100 {
		t.Errorf("after the whole it is over %v at %v", over, ended)
	}
	if ended, over := short.Over(150); !over || ended != 50 {
		t.Errorf("the part that ended before is over %v at %v", over, ended)
	}
	if whole.Extend(300) {
		t.Error("what a part has found to be over can be extended")
	}
}
