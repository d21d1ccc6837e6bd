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
