package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// lone is a client with so many requests under way, of which the server sees two at a time: it waits
// for a credit where it has fewer.
type lone struct {
	p       *Pool
	c       *Client
	now     mono.Time
	flight  int
	waiting int // intervals in which requests waited for credits
}

// run lets some intervals pass, in each of which sixteen requests come and go.
func (l *lone) run(intervals int) {
	l.waiting = 0
	for range intervals {
		waited := false
		for range 16 {
			demand := max(l.flight-l.c.Window(), 0)
			waited = waited || demand > 0
			l.p.OnRequest(l.now, l.c, demand)
			if l.c.Pending() > 1 {
				l.p.OnReply(l.now, l.c)
			}
		}
		if waited {
			l.waiting++
		}
		l.now = l.now.Add(l.p.Interval())
		l.p.Fill(l.now, 2) // as the gate of a server does that has so many slots free
		l.p.OnWake(l.now, 0)
	}
}

// TestCreditsOnTheWay: a lone client gets as many credits as it uses, although the server sees few of its
// requests at a time, and hardly ever waits for one to show that. When it uses fewer, the credits go.
func TestCreditsOnTheWay(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: 8 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l := &lone{p: p, c: p.Register(0), flight: 64}
	l.run(200)
	if l.waiting > 25 {
		t.Errorf("requests waited for credits in %d of the first 200 intervals, want 25 at most", l.waiting)
	}
	if got := l.c.Window(); got < l.flight {
		t.Errorf("a client with %d requests under way has %d credits", l.flight, got)
	}
	l.run(1000)
	if l.waiting > 50 {
		t.Errorf("requests waited for credits in %d of 1000 intervals, want 50 at most", l.waiting)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	l.flight = 1
	l.run(4 * usedFor)
	if got, most := p.Total(), headroom*(1+2); got > most {
		t.Errorf("%d credits long after there was use for them, want %d at most", got, most)
	}
}

// TestCreditsOnTheWayBesideOthers: a client has as many credits as it uses also where others have some that
// they do not use, and does not take more than that. The clients have requests in turn, as with batches.
func TestCreditsOnTheWayBesideOthers(t *testing.T) {
	for _, flights := range [][]int{{64, 8}, {64, 64}, {64, 1, 1, 1, 1, 1, 1, 1, 1, 1}} {
		p, err := NewPool(Config{TargetDelay: 8 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		var all []*lone
		for _, flight := range flights {
			all = append(all, &lone{p: p, c: p.Register(0), flight: flight})
		}
		now, waiting := mono.Time(0), 0
		for round := range 200 {
			for _, l := range all {
				l.now = now
				l.run(2)
				now = l.now
				if round >= 100 && l.waiting == 2 {
					waiting++
				}
			}
		}
		if most := 100 * len(flights) / 10; waiting > most {
			t.Errorf("%v under way: requests waited all the time in %d of %d batches, want %d at most", flights, waiting, 100*len(flights), most)
		}
		if got := all[0].c.Window(); got < 60 || got > 96 {
			t.Errorf("%v under way: the first client has %d credits", flights, got)
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
}
