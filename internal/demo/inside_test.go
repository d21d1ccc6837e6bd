package demo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/demo/stage"
)

// A child's output comes in pieces that know nothing of lines.
func TestLinesOfAChild(t *testing.T) {
	var got []string
	l := &lines{on: func(line stage.Line) { got = append(got, fmt.Sprint(line.Try.InFlight)) }}
	text := "listening on 127.0.0.1:1\n{\"try\":{\"in_flight\":1}}\n{broken\n\n{\"try\":{\"in_flight\":2}}\npanic: no\n{\"try\":{\"in_flight\":3}}\n{\"try\":"
	for size := 1; size < len(text); size++ {
		got, l.part = nil, nil
		for i := 0; i < len(text); i += size {
			if n, err := l.Write([]byte(text[i:min(i+size, len(text))])); err != nil || n != min(size, len(text)-i) {
				t.Fatalf("Write returned %d, %v", n, err)
			}
		}
		if strings.Join(got, " ") != "1 2 3" {
			t.Fatalf("in pieces of %d: %v, want 1 2 3", size, got)
		}
	}
}

// What was offered and not served took no 0 ms.
func TestTook(t *testing.T) {
	for _, tt := range []struct {
		want string
		p    stage.Point
	}{{"  12 ms", stage.Point{Offered: 9, P99MS: 12.4}}, {"   – ms", stage.Point{Offered: 9}}, {"   – ms", stage.Point{}}} {
		want, p := tt.want, tt.p
		if got := took(p, p.P99MS, 4); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}

// The load goes before everything else and collects no garbage: at nice -10 and with 400 % its p99 send lag was 5 to 12 ms in the
// overload, and 0.3 to 0.5 ms like this, on a machine that 25 other programs wanted. The services leave the rest of the machine a part.
func TestLoadGoesFirst(t *testing.T) {
	c := crew{loadCPUs: []int{0}, serviceCPUs: []int{1}}
	load, service := c.spec("load", true), c.spec("store", false)
	if !load.RealTime || load.GOGC != "off" || load.Nice >= service.Nice || load.CPUs[0] != 0 {
		t.Errorf("the load is started as %+v", load)
	}
	if service.RealTime || service.GOGC == "off" || service.CPUs[0] != 1 {
		t.Errorf("a service is started as %+v", service)
	}
}

func TestSheds(t *testing.T) {
	got := sheds(map[string]uint64{"wallet_expired": 7}, []stage.Report{
		{Name: "store", Shed: map[string]uint64{"delay": 1}},
		{Name: "entry", Shed: map[string]uint64{"delay": 2, "expired": 5, "infeasible": 2}},
	})
	want := "[{client wallet_expired 7} {entry expired 5} {entry infeasible 2} {entry delay 2} {store delay 1}]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Points are told four times a second: steps must end on them.
func TestPlans(t *testing.T) {
	for name, p := range map[string]Plan{"full": Full(), "quick": Quick()} {
		for _, s := range p.Steps {
			if s.For%(250*time.Millisecond) != 0 {
				t.Errorf("%s: step %s lasts %v", name, s.Name, s.For)
			}
		}
		for _, length := range []time.Duration{p.Before, p.During, p.After} {
			if length <= 0 || length%(250*time.Millisecond) != 0 {
				t.Errorf("%s: a step of the tenants lasts %v", name, length)
			}
		}
		calm := 0.0
		for _, tenant := range p.Tenants {
			if tenant.Burst <= tenant.Usual {
				calm += tenant.Usual
			}
		}
		if calm >= 1 {
			t.Errorf("%s: those who are to notice nothing want %v of the capacity", name, calm)
		}
		for _, length := range []time.Duration{p.Shop.CalmFor, p.Shop.FloodFor} {
			if length <= 0 || length%(250*time.Millisecond) != 0 {
				t.Errorf("%s: a step of the checkouts lasts %v", name, length)
			}
		}
		for _, length := range []time.Duration{p.Lock.Calm, p.Lock.Held, p.Lock.After} {
			if length <= 0 || length%(250*time.Millisecond) != 0 {
				t.Errorf("%s: a step of the culprit lasts %v", name, length)
			}
		}
		for _, length := range []time.Duration{p.Feed.Calm, p.Feed.Flooded, p.Feed.After} {
			if length <= 0 || length%(250*time.Millisecond) != 0 {
				t.Errorf("%s: a step of the broker lasts %v", name, length)
			}
		}
		if load := (p.Feed.Load() + p.Feed.Limit) * p.Feed.Work.Seconds(); load > 0.7 {
			t.Errorf("%s: all topics within their limits take %v of the consumer's time", name, load)
		}
		if load := p.Lock.Reads * p.Lock.Read.Seconds(); load > 0.5 {
			t.Errorf("%s: reads alone take %v of the lock's time", name, load)
		}
		if load := p.Shop.Checkouts + p.Shop.Flood; load >= 1 {
			t.Errorf("%s: the flood takes %v of a server: the order of a queue that only grows says nothing", name, load)
		}
		if p.Nominal() != 1000 {
			t.Errorf("%s: the store can do %v, want 1,000", name, p.Nominal())
		}
		state := newDirector(Config{Plan: p}).state
		if over := state.Steps[state.Overload()]; over.Factor != 2.5 {
			t.Errorf("%s: the overload is %v", name, over)
		}
	}
	if d := Full().estimate(); d < 60*time.Second || d > 105*time.Second {
		t.Errorf("the demo takes %v, want about 105 seconds at most", d)
	}
	if d := Quick().estimate(); d > 46*time.Second {
		t.Errorf("the quick demo takes %v, want less than half of that", d)
	}
}
