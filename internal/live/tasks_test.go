package live

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

type kindOf string

func (k kindOf) Kind() string { return string(k) }

// A request that runs beside the slots from its beginning has held none, and a look shows none of it.
func TestARequestBesideHoldsNoSlot(t *testing.T) {
	g, err := admission.New(admission.Config{Objective: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	arrive := func(now mono.Time, kind string) *admission.Ticket {
		one := &admission.Ticket{Kind: kindOf(kind), Request: work.Request{Deadline: mono.Never}}
		if v := g.Arrive(now, one); v != admission.Run {
			t.Fatalf("%s: %v, expected run", kind, v)
		}
		return one
	}
	now := mono.Time(time.Hour)
	for range 16 { // polls outlive the objective, beside short requests
		poll := arrive(now, "poll")
		for range 10 {
			short := arrive(now, "short")
			now = now.Add(11 * time.Millisecond)
			g.Leave(now, short, work.Done)
		}
		g.OnWake(now)
		g.Leave(now, poll, work.Done)
	}
	poll, short := arrive(now, "poll"), arrive(now, "short")
	now = now.Add(10 * time.Millisecond)
	if !poll.Lent() {
		t.Fatal("a poll does not run beside")
	}
	if h, ok := slotHold(now, poll); ok {
		t.Errorf("a poll that runs beside shows %+v, expected nothing", h)
	}
	if h, ok := slotHold(now, short); !ok || h.Used != 1 || h.HeldSince != now.Add(-10*time.Millisecond) {
		t.Errorf("a short request shows %+v, %v; expected a slot for 10 ms", h, ok)
	}
}
