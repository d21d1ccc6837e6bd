package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// Behind a queue of half a second, a request with less than that left is refused where
// it would have to wait for all of it, and runs next where the order is by deadline.
func TestAShortBudgetWaitsWhereItGoesFirst(t *testing.T) {
	for _, tt := range []struct {
		order schedule.Order
		want  work.Reason
	}{{schedule.FIFO, work.Infeasible}, {schedule.SJF, work.Infeasible}, {schedule.EDF, work.None}, {schedule.LSTF, work.None}} {
		g, err := New(Config{Objective: 2 * time.Second, NoCredit: true, Slots: slots.Config{Min: 1, Initial: 1, Max: 1}, Schedule: schedule.Config{Order: tt.order}})
		if err != nil {
			t.Fatal(err)
		}
		now := mono.Time(time.Hour)
		arrive := func(budget time.Duration) (*Ticket, Verdict) {
			k := &Ticket{}
			k.Deadline = now.Add(budget)
			return k, g.Arrive(now, k)
		}
		running, _ := arrive(time.Hour)
		for range 5 {
			arrive(time.Hour)
		}
		for range 40 { // each takes 100 ms
			now = now.Add(100 * ms)
			g.Leave(now, running, work.Done)
			running, _ = g.Next(now)
			arrive(time.Hour)
		}
		hurried, v := arrive(400 * ms)
		if hurried.Reason() != tt.want || (v == Shed) != (tt.want != work.None) {
			t.Errorf("%v: %v for %v, want the reason %v", tt.order, v, hurried.Reason(), tt.want)
		}
		if v == Shed {
			continue
		}
		now = now.Add(100 * ms)
		g.Leave(now, running, work.Done)
		if next, v := g.Next(now); next != hurried || v != Run {
			t.Errorf("%v: %v for %v next, the hurried one: %v", tt.order, v, next.Reason(), next == hurried)
		}
	}
}
