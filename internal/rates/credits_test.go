package rates

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// shortBelow returns an adapter with one workflow of 2000 requests/s, of which its own
// process can do all and the one that it calls only 100/s.
func shortBelow(t *testing.T, credits bool) (a *Adapter, w Workflow, up Peer, now mono.Time) {
	a, err := New(0, Config{Resources: []Resource{{"workers", 4}}})
	if err != nil {
		t.Fatal(err)
	}
	w, up = a.Workflow(0, "w"), a.Peer(0, "up", "0")
	down := a.Peer(0, "down", "0")
	for range 40 {
		for i := range 200 {
			r := Request{Workflow: w, Deadline: mono.Never}
			if i%2 == 0 {
				r.From, r.Demand = up, 1000
			}
			a.OnArrival(now, &r)
			a.OnCall(now, &r, down, 0)
			a.OnUse(w, 0, time.Millisecond)
			a.OnDone(now, &r, work.Done)
		}
		now = now.Add(100 * time.Millisecond)
		a.OnRate(now, w, down, 100)
		a.OnWake(now, Signals{Credits: credits, Resources: []Pressure{{Target: time.Second}}})
	}
	if r := a.Rate(w); math.Abs(r-100) > 1 {
		t.Fatalf("the rate is %v, want 100", r)
	}
	return a, w, up, now
}

// TestWithCreditsOnlyEntriesHoldBack: what comes from a peer that holds itself passes,
// and the others have their share of the rate, and a little more. Without credits all
// wait for the same tokens.
func TestWithCreditsOnlyEntriesHoldBack(t *testing.T) {
	passes := func(a *Adapter, now mono.Time, r Request) int {
		n := 0
		for range 100 {
			own := r
			own.Deadline = now.Add(time.Second)
			a.OnArrival(now, &own)
			v, _ := a.Enter(now, &own)
			if v == Pass {
				n++
			}
		}
		return n
	}
	for _, tt := range []struct {
		credits bool
		named   bool
		demand  float64
		want    int
	}{
		{credits: true, named: true, demand: 1000, want: 100},
		{credits: true, named: true, demand: 0, want: creditBurst},
		{credits: true, named: true, demand: math.NaN(), want: creditBurst},
		{credits: true, named: true, demand: math.Inf(1), want: creditBurst},
		{credits: true, named: true, demand: -1, want: creditBurst},
		{credits: true, demand: 1000, want: creditBurst},
		{named: true, demand: 1000, want: 1},
		{want: 1},
	} {
		a, w, up, now := shortBelow(t, tt.credits)
		now = now.Add(90 * time.Millisecond)
		r := Request{Workflow: w, Demand: tt.demand}
		if tt.named {
			r.From = up
		}
		if got := passes(a, now, r); got != tt.want {
			t.Errorf("%+v: %d of 100 pass, want %d", tt, got, tt.want)
		}
	}
	a, w, _, _ := shortBelow(t, true)
	if got, want := a.flow(w).limiter.rate, 50*(1+overdraft); math.Abs(got-want) > 1 {
		t.Errorf("those whom nobody holds back have %v/s, want %v: half of the rate, and a little more", got, want)
	}
	a, w, _, _ = shortBelow(t, false)
	if got := a.flow(w).limiter.rate; math.Abs(got-100) > 1 {
		t.Errorf("without credits the limit is %v/s, want 100", got)
	}
}

// TestNoOverdraftForWhatIsShortHere: an entry that is short itself refuses at once what
// it cannot do.
func TestNoOverdraftForWhatIsShortHere(t *testing.T) {
	a, err := New(0, Config{Resources: []Resource{{"workers", 1}}})
	if err != nil {
		t.Fatal(err)
	}
	w, now := a.Workflow(0, "w"), mono.Time(0)
	for range 10 {
		for range 100 {
			r := Request{Workflow: w, Deadline: mono.Never}
			a.OnArrival(now, &r)
			a.OnUse(w, 0, time.Millisecond)
			a.OnDone(now, &r, work.Done)
		}
		now = now.Add(100 * time.Millisecond)
		a.OnWake(now, Signals{Credits: true, Bound: 1})
	}
	if got := a.flow(w).limiter.rate; math.Abs(got-1000) > 20 {
		t.Errorf("the limit is %v/s, want the capacity, 1000/s", got)
	}
}

// TestDemandBeyondTheCapacityIsOverload: credits that bind for only a third of the time are
// an overload where the callers would send more than the process can do.
func TestDemandBeyondTheCapacityIsOverload(t *testing.T) {
	rate := func(demand float64) float64 {
		a, err := New(0, Config{Resources: []Resource{{"workers", 1}}})
		if err != nil {
			t.Fatal(err)
		}
		w, up, now := a.Workflow(0, "w"), a.Peer(0, "up", "0"), mono.Time(0)
		for range 20 {
			for range 95 {
				r := Request{Workflow: w, Deadline: mono.Never, From: up, Demand: demand}
				a.OnArrival(now, &r)
				a.OnUse(w, 0, time.Millisecond)
				a.OnDone(now, &r, work.Done)
			}
			now = now.Add(100 * time.Millisecond)
			a.OnWake(now, Signals{Credits: true, Bound: 0.3})
		}
		return a.Rate(w)
	}
	if got := rate(2000); got < 900 || got > 1100 {
		t.Errorf("of 2000/s that are wanted the rate is %v, want about the 1000 that the worker can do", got)
	}
	if got := rate(950); got < NoLimit {
		t.Errorf("of 950/s that are wanted the rate is %v, want no limit", got)
	}
}

// TestWhatIsShortFurtherDownIsNotClaimedHere: of 1000/s that a worker can do, a workflow that may
// send only 100/s on leaves the rest to the other one.
func TestWhatIsShortFurtherDownIsNotClaimedHere(t *testing.T) {
	a, err := New(0, Config{Resources: []Resource{{"workers", 1}}})
	if err != nil {
		t.Fatal(err)
	}
	near, far, now := a.Workflow(0, "near"), a.Workflow(0, "far"), mono.Time(0)
	up, down := a.Peer(0, "up", "0"), a.Peer(0, "down", "0")
	for range 20 {
		for i := range 100 {
			r := Request{Workflow: near, Deadline: mono.Never, From: up, Demand: 1500}
			if i%10 == 0 {
				r.Workflow, r.Demand = far, 1000
			}
			a.OnArrival(now, &r)
			if r.Workflow == far {
				a.OnCall(now, &r, down, 0)
			}
			a.OnUse(r.Workflow, 0, time.Millisecond)
			a.OnDone(now, &r, work.Done)
		}
		now = now.Add(100 * time.Millisecond)
		a.OnRate(now, far, down, 100)
		a.OnWake(now, Signals{Credits: true, Bound: 1})
	}
	if got := a.Rate(near); got < 850 || got > 950 {
		t.Errorf("the rate of the workflow that calls nobody is %v, want about the 900 that the other one leaves", got)
	}
}
