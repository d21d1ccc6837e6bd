package admission

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// TestSilence: departures that become three or more times rarer are noticed within some of their
// old gaps; those that are as often as before, or 0.9 times, never, and neither are batches or a stop.
func TestSilence(t *testing.T) {
	random := func(mean float64) func(*rand.Rand, int) float64 {
		return func(r *rand.Rand, _ int) float64 { return r.ExpFloat64() * mean }
	}
	const lanes = 8
	for _, c := range []struct {
		name string
		gap  func(*rand.Rand, int) float64 // of the n-th departure, in gaps known before
		want float64                       // gaps until it is noticed, at most; 0: never
	}{
		{"as before", random(1), 0},
		{"0.9 times as often", random(1 / 0.9), 0},
		{"eight at once", func(_ *rand.Rand, n int) float64 { return max(0, lanes*float64(1-min(n%lanes, 1))) }, 0},
		{"4 times slower", random(4), 120},
		{"20 times slower", random(20), 200},
		{"a stop now and then", func(r *rand.Rand, n int) float64 {
			if n%500 == 0 {
				return 200
			}
			return r.ExpFloat64()
		}, 0},
		{"nothing at all", func(_ *rand.Rand, n int) float64 { return 1e4 * float64(1-min(n, 1)) }, 0},
	} {
		for seed := range uint64(10) {
			r := rand.New(rand.NewPCG(seed, 7))
			known := mean{value: 1000, quick: 1000, count: meanMemory}
			s := silence{full: true}
			now, found := mono.Time(0), 0.0
			for n := 0; n < 3000 && found == 0; n++ {
				until := now.Add(time.Duration(c.gap(r, n) * known.value))
				for ; now < until && found == 0; now = min(now.Add(500), until) {
					if s.pass(now, &known); s.gap(known.value*lanes) > 0 {
						found = float64(now) / known.value
					}
				}
				s.pass(now, &known)
				s.leave()
			}
			if (found > 0) != (c.want > 0) || found > c.want {
				t.Errorf("%s, seed %d: noticed after %.0f gaps, want within %.0f (0: never)", c.name, seed, found, c.want)
			}
		}
	}
}

// TestSilenceWithoutWork: time in which a slot is free is no evidence, and neither is any where the
// gap is hardly known.
func TestSilenceWithoutWork(t *testing.T) {
	s := silence{}
	s.pass(mono.Time(time.Second), &mean{value: 1000, count: meanMemory})
	if s.full = true; s.gap(0) != 0 {
		t.Error("a second with a free slot says that departures are rare")
	}
	s.pass(mono.Time(2*time.Second), &mean{value: 1000, count: quickMemory})
	if s.gap(0) != 0 {
		t.Errorf("%d departures are enough to know the gap", quickMemory)
	}
}

// TestSlowServerIsNoticedSoon: four slots whose requests took 4 ms take 80. After three of them the residence
// is known.
func TestSlowServerIsNoticedSoon(t *testing.T) {
	g := fixed(t, 4)
	now := at(time.Second)
	arrive := func() (*Ticket, Verdict) {
		k := &Ticket{}
		k.Deadline = mono.Never
		return k, g.Arrive(now, k)
	}
	var running []*Ticket
	for i := range 200 { // one ends every millisecond, and the one that waits begins
		if i > 4 {
			g.Leave(now, running[0], work.Done)
			running = running[1:]
		}
		for next, v := g.Next(now); next != nil; next, v = g.Next(now) {
			if v == Run {
				running = append(running, next)
			}
		}
		if k, v := arrive(); v == Run {
			running = append(running, k)
		}
		now = now.Add(ms)
	}
	for i := range 60 { // now one ends every 20 ms
		now = now.Add(ms)
		if i%20 == 19 {
			g.Leave(now, running[0], work.Done)
			running = running[1:]
			if next, v := g.Next(now); v == Run {
				running = append(running, next)
			}
		}
		arrive()
	}
	if known := time.Duration(g.pace.residence()); known < 50*ms {
		t.Errorf("after three departures in 60 ms the residence is %v, want about 80ms", known)
	}
	if k, v := arrive(); v != Shed || k.Reason() != work.Delay {
		t.Errorf("%v %v after many that wait, want it shed for delay", v, k.Reason())
	}
}

// TestACreditOfAFasterServerIsWorthLess: a request that came with a credit may start later than one
// without, unless the server became slower a moment ago: more come then than it would ask for.
func TestACreditOfAFasterServerIsWorthLess(t *testing.T) {
	g := fixed(t, 1)
	now := at(time.Second)
	c := g.Pool().Register(now)
	var last *Ticket
	for range 3 {
		last = &Ticket{Client: c}
		last.Deadline = mono.Never
		g.Arrive(now, last)
	}
	g.worth.need, g.worth.credited = 60*ms, 30*ms
	for _, c := range []struct {
		slow  bool
		ago   time.Duration
		plain bool
		want  time.Duration
	}{
		{false, 0, false, 70 * ms}, {false, 0, true, 40 * ms},
		{true, changed * g.cfg.Objective, false, 40 * ms}, {true, changed*g.cfg.Objective + 1, false, 70 * ms},
	} {
		last.plain, g.pace.slow, g.pace.since, g.pace.last = c.plain, c.slow, now.Add(-c.ago), now
		if got := g.staleAt(last).Sub(now); got != c.want {
			t.Errorf("slower since %v (%v), plain %v: it may start for %v, want %v", c.ago, c.slow, c.plain, got, c.want)
		}
	}
}
