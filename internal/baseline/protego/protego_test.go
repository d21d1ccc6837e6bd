package protego

import (
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// The decision table of the law, slope 1/4, last span 100 in and 80 out.
func TestLawOracle(t *testing.T) {
	for _, c := range []struct {
		what    string
		in, out int
		used    bool
		want    bool
	}{
		{"nothing asked", 0, 0, true, true},
		{"more in, more out", 140, 120, true, true},
		{"more in, a quarter of it out", 140, 90, true, true},
		{"more in, less than a quarter out", 140, 89, true, false},
		{"more in, fewer out", 140, 70, true, false},
		{"same in, more out", 100, 81, true, true},
		{"same in, same out", 100, 80, true, false},
		{"paid, but credits are left", 140, 120, false, false},
		{"fewer in, many fewer out", 60, 60, true, true},
		{"fewer in, a quarter fewer out", 60, 70, true, false},
		{"fewer in, as many out", 60, 80, true, false},
	} {
		l := law{slope: 0.25, lastIn: 100, lastOut: 80}
		if got := l.gain(c.in, c.out, c.used); got != c.want {
			t.Errorf("%s: grow %v, want %v", c.what, got, c.want)
		}
	}
}

// The first half of an interval shows the effect of nothing new and is left out.
func TestOnlyTheSecondHalfIsMeasured(t *testing.T) {
	l := law{interval: 200, settle: 100, slope: 0.25}
	l.due(0, true)
	l.in, l.out = 50, 50
	if at := l.wake(); at != 100 {
		t.Errorf("wake at %v, want the end of the unmeasured half", at)
	}
	l.due(100, true)
	if l.in != 0 || l.out != 0 {
		t.Errorf("counts %d, %d at the start of the measured half, want 0", l.in, l.out)
	}
	if _, due := l.due(199, true); due {
		t.Error("due before the interval is over")
	}
	if _, due := l.due(200, true); !due {
		t.Error("not due when the interval is over")
	}
}

// A server of four slots at 100 µs, thirty clients that always have more to send:
// the pool grows while throughput does, and stays near where it stops, instead
// of at its bounds of 4 and 1,920.
func TestPoolSettlesWhereThroughputDoes(t *testing.T) {
	const slots, clients, service = 4, 30, 100 * time.Microsecond
	d, err := New(Config{Slots: slots, Budget: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(0)
	pairs := map[*credit.Client]int{}
	var list []*credit.Client
	for range clients {
		c := d.Connect(now)
		list = append(list, c)
		pairs[c] = 0 // outstanding
	}
	type running struct {
		t  *admission.Ticket
		at mono.Time
	}
	var busy []running
	finish := func(t *admission.Ticket) {
		pairs[t.Owner.(*credit.Client)]--
		d.Feedback(now, t)
	}
	low, high := 1<<30, 0
	for step := range 60_000 { // 10 µs each
		now = mono.Time(step) * 10_000
		for len(busy) > 0 && busy[0].at <= now {
			t := busy[0].t
			busy = busy[1:]
			d.Leave(now, t, work.Done)
			finish(t)
		}
		d.OnWake(now)
		for {
			if _, _, ok := d.NextGrant(); !ok {
				break
			}
		}
		for _, c := range list {
			if pairs[c] < c.Window() {
				pairs[c]++
				t := &admission.Ticket{Client: c, Owner: c}
				t.Deadline, t.Demand = mono.Never, 10
				switch d.Arrive(now, t) {
				case admission.Run:
					busy = append(busy, running{t, now.Add(service)})
				case admission.Shed:
					finish(t)
				}
			}
		}
		for {
			t, v := d.Next(now)
			if t == nil {
				break
			}
			if v == admission.Run {
				busy = append(busy, running{t, now.Add(service)})
			} else {
				finish(t)
			}
		}
		if err := d.Pool().Check(); err != nil {
			t.Fatalf("at %v: %v", now, err)
		}
		if d.Running() > slots {
			t.Fatalf("%d running, most is %d", d.Running(), slots)
		}
		if step > 30_000 {
			low, high = min(low, d.Pool().Total()), max(high, d.Pool().Total())
		}
	}
	if low < slots || high > 20*slots {
		t.Errorf("pool between %d and %d credits, want from %d to %d", low, high, slots, 20*slots)
	}
}

func TestRefusesAboveTheBudgetAndStillGrants(t *testing.T) {
	d, err := New(Config{Slots: 1, Budget: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	c := d.Connect(0)
	arrive := func(now mono.Time) (*admission.Ticket, admission.Verdict) {
		t := &admission.Ticket{Client: c}
		t.Deadline = mono.Never
		return t, d.Arrive(now, t)
	}
	_, run := arrive(0)
	_, wait := arrive(0)
	late, shed := arrive(mono.Time(time.Millisecond) + 1)
	if run != admission.Run || wait != admission.Wait || shed != admission.Shed || late.Reason() != work.Delay {
		t.Fatalf("%v, %v, %v for %v; want run, wait, shed for delay", run, wait, shed, late.Reason())
	}
	if f := d.Feedback(mono.Time(time.Millisecond)+1, late); !f.HasGrant || f.Reason != work.Delay {
		t.Errorf("feedback %+v of a refusal, want a grant and the reason", f)
	}
	if c.Pending() != 2 {
		t.Errorf("%d pending, want 2", c.Pending())
	}
	var _ baseline.Door = d
}

func TestConfigNamesEveryMistake(t *testing.T) {
	_, err := New(Config{Interval: 10, Settle: 10})
	for _, want := range []string{"Slots is 0", "Budget is 0s", "Settle is 10ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
