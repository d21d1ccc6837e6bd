package slots

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// throng is a service whose requests hold each other up: n at once take 1 + each (n-1) + pair n (n-1) times as long as one
// alone, which takes an exponential time of a mean of 10 ms. Twice its most is offered, or load of it. What finds no slot is lost.
type throng struct {
	limit      *Limit
	each, pair float64
	faster     float64 // as fast as that
	rate       float64 // of arrivals, per second
	rng        *rand.Rand
	now        mono.Time
	next       mono.Time // arrival
	clock      float64   // ns, of all that are at work
	waits      throngs
	done       int
}

type waiting struct {
	due     float64
	started mono.Time
	place   Place
}

type throngs []waiting

func (h throngs) Len() int           { return len(h) }
func (h throngs) Less(i, j int) bool { return h[i].due < h[j].due }
func (h throngs) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *throngs) Push(x any)        { *h = append(*h, x.(waiting)) }
func (h *throngs) Pop() any          { o := *h; x := o[len(o)-1]; *h = o[:len(o)-1]; return x }

const throngMean = 10 * time.Millisecond

func newThrong(t *testing.T, each, pair, load float64, seed uint64) *throng {
	l, err := New(Config{Slack: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := &throng{limit: l, each: each, pair: pair, faster: 1, rng: rand.New(rand.NewPCG(seed, 2))}
	s.rate = load * s.most()
	return s
}

func (s *throng) factor(n int) float64 {
	x := float64(max(n, 1))
	return (1 + s.each*(x-1) + s.pair*x*(x-1)) / s.faster
}

// does is what n at once get done, per second; most what as many do that do the most.
func (s *throng) does(n int) float64 { return float64(n) / throngMean.Seconds() / s.factor(n) }

func (s *throng) most() (x float64) {
	for n := 1; n < 1000; n++ {
		x = max(x, s.does(n))
	}
	return x
}

// run lets time pass and returns what was done, per second.
func (s *throng) run(d time.Duration) float64 {
	end, before := s.now.Add(d), s.done
	for s.now < end {
		at, over := min(s.next, end), false
		slow := s.factor(len(s.waits))
		if len(s.waits) > 0 {
			if ends := s.now.Add(time.Duration(math.Ceil((s.waits[0].due - s.clock) * slow))); ends <= at {
				at, over = ends, true
			}
		}
		s.clock += float64(at.Sub(s.now)) / slow
		s.now = at
		switch {
		case over:
			w := heap.Pop(&s.waits).(waiting)
			s.done++
			s.limit.Release(s.now, w.started, w.place, true)
		case s.now == s.next:
			s.next = s.now.Add(time.Duration(s.rng.ExpFloat64() / s.rate * 1e9))
			if s.limit.Free() {
				heap.Push(&s.waits, waiting{s.clock + s.rng.ExpFloat64()*float64(throngMean), s.now, s.limit.Acquire(s.now)})
			}
		}
	}
	return float64(s.done-before) / d.Seconds()
}

// TestFewerDoMore: where requests hold each other up, as many run in the end as do nearly the most, from a calm
// start and from a cold one with far too many.
func TestFewerDoMore(t *testing.T) {
	for _, c := range []struct {
		name       string
		each, pair float64
	}{{"eight do the most", 0, 1.0 / 64}, {"31 do the most", 1.0 / 16, 1.0 / 1024}} {
		for _, cold := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				worst, mean := 1.0, 0.0
				const seeds = 16
				for seed := range uint64(seeds) {
					s := newThrong(t, c.each, c.pair, 0.7, seed)
					if !cold {
						s.run(3 * time.Second)
					}
					s.rate = 2 * s.most()
					s.run(12 * time.Second) // half of it the work on what a cold start lets in
					got := s.run(10*time.Second) / s.most()
					worst, mean = min(worst, got), mean+got/seeds
				}
				if worst < 0.7 || mean < 0.9 {
					t.Errorf("cold %v: %.2f of the most is done, with the worst seed %.2f, want 0.9 and 0.7", cold, mean, worst)
				}
			})
		}
	}
}

// TestNobodyInTheWay: where as much is done by more, no number of them is believed to do the most that is below
// the workers, whatever chance says of a step, and asking costs hardly anything.
func TestNobodyInTheWay(t *testing.T) {
	for _, k := range []int{1, 2, 8, 30} {
		for _, slack := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
			worst := 2.0
			for seed := range uint64(12) {
				s := newStation(Config{Slack: slack}, k, time.Millisecond, 2*float64(k)*1000, seed)
				s.run(2 * time.Second)
				worst = min(worst, s.run(4*time.Second)/float64(k)/1000)
			}
			if worst < 0.95 {
				t.Errorf("%d workers, slack %v: with the worst seed %.3f of the capacity, want 0.95", k, slack, worst)
			}
		}
	}
}

// TestTheWayIsFreeAgain: what held requests up is gone. More are tried at the bound, do more in proportion, and the
// bound goes. Each step upwards does a third more, which chance hides now and then.
func TestTheWayIsFreeAgain(t *testing.T) {
	const seeds = 40
	stuck := 0
	for seed := range uint64(seeds) {
		s := newThrong(t, 0, 1.0/64, 0.7, seed)
		s.run(3 * time.Second)
		s.rate = 2 * s.most()
		s.run(12 * time.Second)
		s.pair, s.each = 0, 1.0/16 // many do 1600/s
		s.rate = 2400
		s.run(20 * time.Second)
		got := s.run(5 * time.Second)
		if got < 1100 {
			stuck++
		}
		if got < 900 {
			t.Errorf("seed %d: %.0f/s are done, want 900, limit %d, bound %v", seed, got, s.limit.Limit(), s.limit.crowd.bound)
		}
	}
	if stuck > seeds/20 {
		t.Errorf("less than 1100/s are done with %d of %d seeds, want one in twenty at most", stuck, seeds)
	}
}

// TestFasterWorkIsNoCrowd: a third of the requests do at most three times as much because they are fewer. More than that
// is work that became faster, as at the end of a slowdown, and a step during which that happened tells nothing.
func TestFasterWorkIsNoCrowd(t *testing.T) {
	for _, c := range []struct {
		times        float64 // what 4 do, by what 12 do
		bound, limit float64
	}{{0.9, 0, 12}, {1.5, 4, 4}, {2.5, 4, 4}, {6.5, 0, 12}} {
		l, err := New(Config{Slack: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		from := point{concurrency: 12, limit: 12, throughput: 50e-9, residence: 240e6, took: 240e6, samples: 100, bound: true}
		l.limit, l.trial = 4, trial{kind: climbDown, from: from, before: from}
		p := from
		p.concurrency, p.limit, p.throughput = 4, 4, c.times*from.throughput
		p.residence = p.concurrency / p.throughput
		p.took = p.residence
		l.judgeClimb(p)
		if l.crowd.bound != c.bound || l.limit != c.limit {
			t.Errorf("4 do %v times as much as 12: bound %v, limit %v, want %v and %v", c.times, l.crowd.bound, l.limit, c.bound, c.limit)
		}
	}
}

// TestFewerDidMore: 24 run and do less than 11 did a moment ago, beyond chance, so fewer are tried, once. It is not asked
// where that hardly matters, or where others on the same processors may be the reason.
func TestFewerDidMore(t *testing.T) {
	const perSecond, ms = 1e-9, 1e6
	for _, c := range []struct {
		name  string
		does  float64
		took  float64
		short bool
		want  bool
	}{{"less", 250, 96 * ms, false, true}, {"nearly as much", 350, 90 * ms, false, false}, {"shared processors", 250, 96 * ms, true, false}, {"brief", 250, 30 * ms, false, false}} {
		l, err := New(Config{Slack: 20 * ms})
		if err != nil {
			t.Fatal(err)
		}
		l.times = times{mean: c.took, spread: 0.7 * c.took}
		l.knee.rate, l.knee.alone, l.limit = c.does*perSecond, 10*ms, 24
		l.SetShort(c.short)
		l.crowd.most = point{concurrency: 11, limit: 11, throughput: 400 * perSecond, samples: 32, bound: true}
		p := point{concurrency: 24, limit: 24, throughput: c.does * perSecond, residence: c.took, took: c.took, samples: 64, bound: true}
		if got := l.fewerDidMore(p, p); got != c.want || got != (l.trial.kind == climbDown && l.limit < 24) {
			t.Errorf("%s: fewer are tried: %v, with a limit of %v; expected %v", c.name, got, l.limit, c.want)
		}
		if l.trial = (trial{}); l.fewerDidMore(p, p) {
			t.Errorf("%s: it is asked again", c.name)
		}
	}
}
