package admission

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// A long poll holds the only slot until it has run for the objective; then what waits
// runs, and both leave as usual.
func TestLongRequestGivesItsSlotBack(t *testing.T) {
	g, err := New(Config{Objective: 100 * ms, NoCredit: true, Slots: slots.Config{Initial: 1}})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(-time.Hour) // time may begin anywhere
	enter := func() (*Ticket, Verdict) {
		k := &Ticket{}
		k.Deadline = mono.Never
		return k, g.Arrive(now, k)
	}
	poll, v := enter()
	if v != Run {
		t.Fatalf("the poll: %v, want run", v)
	}
	now = now.Add(60 * ms)
	short, v := enter()
	if v != Wait {
		t.Fatalf("the short request: %v, want wait", v)
	}
	now = now.Add(40 * ms)
	if at := g.NextWake(); at > now+1 {
		t.Fatalf("the gate wants to be woken %v after the objective", at.Sub(now))
	}
	now++
	g.OnWake(now)
	if k, v := g.Next(now); k != short || v != Run {
		t.Fatalf("after the objective: %v, want the short request to run", v)
	}
	if in, lent := g.Slots().InUse(), g.Slots().Lent(); in != 1 || lent != 1 {
		t.Errorf("%d with and %d without a slot, want 1 and 1", in, lent)
	}
	g.Leave(now.Add(5*ms), short, work.Done)
	g.Leave(now.Add(time.Second), poll, work.Done)
	g.Leave(now.Add(time.Second), poll, work.Done)
	if in, lent := g.Slots().InUse(), g.Slots().Lent(); in != 0 || lent != 0 {
		t.Errorf("%d with and %d without a slot in the end, want none", in, lent)
	}
}

// The list counts the tickets that run beyond their objectives, whatever these are and in which order
// they end.
func TestOverdueAreCounted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var l runList
	var all []*Ticket
	now := mono.Time(time.Second)
	for range 20_000 {
		now = now.Add(time.Duration(random.IntN(20)) * ms)
		l.pass(now)
		if random.IntN(2) == 0 || len(all) == 0 {
			k := &Ticket{}
			l.push(k, now.Add(time.Duration(random.IntN(300))*ms))
			all = append(all, k)
		} else {
			i := random.IntN(len(all))
			l.remove(all[i])
			l.remove(all[i])
			all = slices.Delete(all, i, i+1)
		}
		l.pass(now)
		overdue := 0
		for _, k := range all {
			if now > k.due {
				overdue++
			}
		}
		if l.overdue != overdue {
			t.Fatalf("%d of %d are counted as overdue, want %d", l.overdue, len(all), overdue)
		}
	}
}
