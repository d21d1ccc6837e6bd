package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

// stall has nothing end for a time. A culprit, if one is found, is to blame.
func (b *bench) stall(length time.Duration, found bool) {
	serves := b.serves
	b.serves = time.Hour
	b.run(length, nil)
	if found {
		b.gate.OnCulprit(b.now, true)
	}
	b.serves = serves
	for _, v := range b.inside {
		v.ends = b.now.Add(time.Duration(b.rng.ExpFloat64() * float64(serves)))
	}
}

// Victims that are late when the culprit lets go are answered, after those that can be in time: what comes from then on is.
func TestLateVictimsAreServedLast(t *testing.T) {
	for seed := range uint64(8) {
		b := newBench(t, seed)
		b.run(2*time.Second, nil)
		b.shed = 0
		b.stall(2*benchObjective, true)
		let := b.now
		b.late = func(v *benched) bool { return v.ticket.Arrived > let && b.gate.Late(b.now, &v.ticket) }
		b.run(9*benchObjective, nil)
		if b.shed > 0 || b.tardy > 0 || b.gate.Waiting() > 20 {
			t.Errorf("seed %d: %d shed, %d of those that came later late, %d wait; expected none but a few that wait", seed, b.shed, b.tardy, b.gate.Waiting())
		}
	}
}

// Where far fewer requests end than usual and no culprit is found, those that wait aside are refused.
func TestPatienceEnds(t *testing.T) {
	for seed := range uint64(4) {
		b := newBench(t, seed)
		b.run(2*time.Second, nil)
		b.shed, b.serves = 0, 20*b.serves
		b.run(2*time.Second, nil)
		if w := b.gate.Waiting(); w > 0 && b.gate.Oldest().since < b.now.Add(-3*b.gate.cfg.Hold) {
			t.Fatalf("seed %d: %d wait, one since %v; expected none for longer than %v", seed, w, b.now.Sub(b.gate.Oldest().since), 3*b.gate.cfg.Hold)
		}
		if b.shed == 0 {
			t.Errorf("seed %d: none was refused", seed)
		}
	}
}

// In an overload as many requests end as usual: nearly all that are refused are refused on arrival.
func TestOverloadIsRefusedOnArrival(t *testing.T) {
	aside, shed := 0, 0
	for seed := range uint64(4) {
		b := newBench(t, seed)
		b.run(2*time.Second, nil)
		b.shed, b.rate = 0, 30*b.rate
		b.setAside = 0
		b.run(time.Second/2, func() { b.gate.OnCulprit(b.now, false) })
		aside, shed = aside+b.setAside, shed+b.shed
	}
	if shed == 0 || aside > shed/20 {
		t.Errorf("%d refused, %d set aside before; expected one in twenty at most", shed, aside)
	}
}

// A caller's deadline ends the wait aside, and so does the caller.
func TestAsideIsLeft(t *testing.T) {
	b := newBench(t, 1)
	b.run(2*time.Second, nil)
	b.serves = time.Hour
	b.run(3*benchObjective, nil)
	b.gate.OnCulprit(b.now, true)
	var tickets [2]Ticket
	for i := range tickets {
		k := &tickets[i]
		k.Arrived, k.Deadline, k.Owner = b.now, b.now.Add(benchObjective), &benched{}
		if v := b.gate.Arrive(b.now, k); v != Wait {
			t.Fatalf("ticket %d: %v, expected %v", i, v, Wait)
		}
		b.gate.queue.Remove(&k.task)
		b.gate.waiters.remove(k)
		b.gate.setAside(b.now, k)
	}
	if !b.gate.Cancel(b.now, &tickets[0]) || b.gate.Cancel(b.now, &tickets[0]) {
		t.Error("a ticket that waits aside was not cancelled once")
	}
	end := tickets[1].Deadline
	if at := b.gate.NextWake(); at > end {
		t.Errorf("the next wake is at %v, expected by %v", at, end)
	}
	for b.now < end {
		b.now = min(b.gate.NextWake(), end)
		b.gate.OnWake(b.now)
		for k, v := b.gate.Next(b.now); k != nil; k, v = b.gate.Next(b.now) {
			b.verdict(k.Owner.(*benched), v)
		}
	}
	if r := tickets[1].Reason(); r != work.Expired {
		t.Errorf("refused for %v, expected %v", r, work.Expired)
	}
}
