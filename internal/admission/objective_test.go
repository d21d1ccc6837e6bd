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

// A request gives its slot back when it has run for its own objective, while others came and
// went: sooner than others where that is shorter, later where it is longer.
func TestSlotsComeBackAfterTheOwnObjective(t *testing.T) {
	g, err := New(Config{Objective: 100 * ms, NoCredit: true, Slots: slots.Config{Initial: 4}})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(time.Hour)
	enter := func(objective time.Duration) *Ticket {
		k := &Ticket{Objective: objective}
		k.Deadline = mono.Never
		if v := g.Arrive(now, k); v != Run {
			t.Fatalf("with a free slot: %v", v)
		}
		return k
	}
	export, usual, lookup := enter(300*ms), enter(0), enter(50*ms)
	begin := now
	for range 20 {
		k := enter(0)
		now = now.Add(ms)
		g.Leave(now, k, work.Done)
	}
	for _, want := range []struct {
		after time.Duration
		lent  []*Ticket
	}{
		{50 * ms, nil},
		{50*ms + 1, []*Ticket{lookup}},
		{100 * ms, []*Ticket{lookup}},
		{100*ms + 1, []*Ticket{lookup, usual}},
		{300 * ms, []*Ticket{lookup, usual}},
		{300*ms + 1, []*Ticket{lookup, usual, export}},
	} {
		now = begin.Add(want.after)
		due := g.NextWake() <= now
		g.OnWake(now)
		for _, k := range []*Ticket{export, usual, lookup} {
			if k.lent != slices.Contains(want.lent, k) {
				t.Errorf("after %v: a request with an objective of %v: gave its slot back: %v", want.after, k.objective(100*ms), k.lent)
			}
		}
		if fresh := want.after%ms == 1; due != fresh {
			t.Errorf("after %v: the gate is to be woken: %v", want.after, due)
		}
	}
	for _, k := range []*Ticket{export, usual, lookup} {
		g.Leave(now, k, work.Done)
	}
	if in, lent := g.Slots().InUse(), g.Slots().Lent(); in != 0 || lent != 0 {
		t.Errorf("%d with and %d without a slot in the end, want none", in, lent)
	}
}

// Behind a wait that the gate's objective allows, a request whose own is shorter is
// refused, and one whose own is longer waits.
func TestAWaitIsJudgedByTheOwnObjective(t *testing.T) {
	for _, tt := range []struct {
		objective time.Duration
		want      Verdict
	}{{0, Wait}, {20 * ms, Shed}, {10 * time.Second, Wait}} {
		g, err := New(Config{Objective: time.Second, NoCredit: true, Slots: slots.Config{Min: 1, Max: 1}})
		if err != nil {
			t.Fatal(err)
		}
		now := mono.Time(0)
		enter := func(objective time.Duration) (*Ticket, Verdict) {
			k := &Ticket{Objective: objective}
			k.Deadline = mono.Never
			return k, g.Arrive(now, k)
		}
		running, _ := enter(0)
		for range 32 { // it is known that a request takes 50 ms
			next, _ := enter(0)
			now = now.Add(50 * ms)
			g.Leave(now, running, work.Done)
			if k, v := g.Next(now); k != next || v != Run {
				t.Fatalf("next: %v", v)
			}
			running = next
		}
		k, v := enter(tt.objective)
		if v != tt.want || v == Shed && k.Reason() != work.Delay {
			t.Errorf("an objective of %v: %v for %v, expected %v", tt.objective, v, k.Reason(), tt.want)
		}
	}
}

// At its turn a request is refused if its own objective leaves no time for it while another waits, and runs if that does,
// whatever the gate's is.
func TestATurnIsJudgedByTheOwnObjective(t *testing.T) {
	for _, tt := range []struct {
		objective, after time.Duration
		want             Verdict
	}{{0, 400 * ms, Run}, {200 * ms, 400 * ms, Shed}, {0, 3 * time.Second, Shed}, {10 * time.Second, 3 * time.Second, Run}} {
		g, err := New(Config{Objective: time.Second, NoCredit: true, Slots: slots.Config{Min: 1, Max: 1}})
		if err != nil {
			t.Fatal(err)
		}
		now := mono.Time(0)
		enter := func(objective time.Duration) *Ticket {
			k := &Ticket{Objective: objective}
			k.Deadline = mono.Never
			g.Arrive(now, k)
			return k
		}
		running := enter(0)
		for range 32 { // it is known that a request takes 50 ms
			next := enter(0)
			now = now.Add(50 * ms)
			g.Leave(now, running, work.Done)
			g.Next(now)
			running = next
		}
		first := enter(tt.objective)
		enter(tt.objective)
		now = now.Add(tt.after)
		g.Leave(now, running, work.Done)
		if k, v := g.Next(now); k != first || v != tt.want || v == Shed && k.Reason() != work.Delay {
			t.Errorf("an objective of %v after %v: %v of %p for %v, expected %v of %p", tt.objective, tt.after, v, k, k.Reason(), tt.want, first)
		}
	}
}

// The list of what runs is in the order in which objectives end, whatever comes and goes.
func TestRunListIsInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var list runList
		var in []*Ticket
		for step := range mono.Time(40) {
			if len(in) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(in))
				list.remove(in[i])
				list.remove(in[i]) // again: nothing
				in = slices.Delete(in, i, i+1)
			} else {
				k := new(Ticket)
				list.push(k, step+mono.Time(r.IntN(10)))
				in = append(in, k)
			}
			slices.SortStableFunc(in, func(a, b *Ticket) int { return int(a.due - b.due) })
			var forth, back []*Ticket
			for k := list.head; k != nil; k = k.next {
				forth = append(forth, k)
			}
			for k := list.tail; k != nil; k = k.prev {
				back = append(back, k)
			}
			slices.Reverse(back)
			if !slices.Equal(forth, in) || !slices.Equal(back, in) {
				t.Fatalf("step %d: the list is not in order", step)
			}
		}
	}
}
