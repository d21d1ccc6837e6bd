package slots

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// turnTaking is a process that shares its processors with others: nothing ends until it is its turn, and
// then many requests end one soon after another, whichever of those inside. Arrivals are Poisson;
// what finds no slot waits in front, or is lost where frontMax wait.
type turnTaking struct {
	limit *Limit
	// every is the time between two turns, a quarter more or less of it by chance; perTurn requests
	// can end in one, between apart.
	every, between time.Duration
	perTurn        int
	rate           float64 // of arrivals, per second
	rng            *rand.Rand

	now, arrival mono.Time
	inside       []event
	front        int
}

// run advances by d and returns the throughput in it, per second, and the mean limit.
func (s *turnTaking) run(d time.Duration) (throughput, limit float64) {
	begin, served := s.now, 0.0
	for s.now < begin.Add(d) {
		last := s.now
		turn := last.Add(time.Duration(float64(s.every) * (0.75 + s.rng.Float64()/2)))
		for range s.perTurn {
			s.take(turn)
			if len(s.inside) == 0 {
				break
			}
			i, newest := s.rng.IntN(len(s.inside)), len(s.inside)-1
			e := s.inside[i]
			s.inside[i] = s.inside[newest]
			s.inside = s.inside[:newest]
			s.limit.Release(turn, e.started, e.place, true)
			served++
			turn = turn.Add(s.between)
		}
		limit += float64(s.limit.Limit()) * float64(turn.Sub(last))
		s.now = turn
	}
	took := float64(s.now.Sub(begin))
	return served / took * 1e9, limit / took
}

// take lets in what has come by an instant, as slots allow.
func (s *turnTaking) take(by mono.Time) {
	for {
		for s.front > 0 && s.limit.Free() {
			s.front--
			s.inside = append(s.inside, event{started: s.now, place: s.limit.Acquire(s.now)})
		}
		if s.arrival > by {
			break
		}
		s.now = s.arrival
		s.front = min(s.front+1, frontMax)
		s.arrival = s.arrival.Add(time.Duration(s.rng.ExpFloat64() / s.rate * 1e9))
	}
	s.now = by
}

// TestTurnTaking: where a process takes turns with others, requests end in clumps, so that their order and
// the throughput of a window are more random than those of independent ends. What chance says of a line or
// of a knee must not stay: the residence keeps well inside the objective, and none of the capacity is lost.
// While refuted lines left their knees, the three residences were 0.51, 0.57 and 0.72 of the objective.
func TestTurnTaking(t *testing.T) {
	const (
		objective = 100 * time.Millisecond
		between   = 150 * time.Microsecond
		seeds     = 60
		leastDone = 0.97
	)
	for _, tt := range []struct {
		every time.Duration
		most  float64 // residence, in objectives; what is steered to is 0.4
	}{{5 * time.Millisecond, 0.48}, {10 * time.Millisecond, 0.48}, {20 * time.Millisecond, 0.66}} {
		perTurn := int(tt.every / time.Millisecond)
		capacity := float64(perTurn) / (tt.every + time.Duration(perTurn)*between).Seconds()
		var throughput, residence float64
		for seed := range uint64(seeds) {
			l, err := New(Config{Slack: objective / 10})
			if err != nil {
				t.Fatal(err)
			}
			s := &turnTaking{limit: l, every: tt.every, between: between, perTurn: perTurn, rate: 2 * capacity, rng: rand.New(rand.NewPCG(seed, 3))}
			s.run(2 * time.Second)
			x, limit := s.run(8 * time.Second)
			throughput += x / capacity / seeds
			residence += limit / x / objective.Seconds() / seeds
		}
		if throughput < leastDone || residence > tt.most {
			t.Errorf("turns every %v: the throughput is %.3f of the capacity and the residence %.2f of the objective, want at least %v and at most %v",
				tt.every, throughput, residence, leastDone, tt.most)
		}
	}
}

// TestShort: where another process uses the processors up, the order of ends is no line, the first late answer
// counts, and the ranks stop no trial.
func TestShort(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.trial.from = point{limit: 66, order: order{count: 100, sum: 2000, top: 40}}
	late := 2 * float64(whole*l.cfg.Slack)
	if l.tooLate(late) {
		t.Error("without a word of the processors a late answer counts")
	}
	l.SetShort(true)
	if l.confirm(5); l.line.confirmed || !l.tooLate(late) || l.lower(point{concurrency: 66}) != 33 {
		t.Errorf("where processors are short: line %v, late counts %v, a trial goes to %v, want no line, true and 33", l.line.confirmed, l.tooLate(late), l.lower(point{concurrency: 66}))
	}
}

// TestCrowdAtTheStart: requests share processors that nobody sees, and come twice as fast as they can be done. The ranks
// reach as far as what runs, and the throughput stays where it is while two and a half times as many run: what is more
// waits. Where it rises with them nothing does; and of a few that is chance.
func TestCrowdAtTheStart(t *testing.T) {
	for _, tt := range []struct {
		name string
		ran  float64 // in the second window
		gain float64 // in throughput
		want int
	}{
		{"as much is done", 33, 1, 25},
		{"twice as much is done", 33, 2, 64},
		{"a few more, and as much", 10, 1, 64},
	} {
		l, err := New(Config{Slack: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.knee.alone, l.knee.service, l.knee.rate = 5e6, 5e6, 400e-9
		for _, p := range []point{
			{concurrency: tt.ran / 2.5, throughput: 400e-9, samples: 32},
			{concurrency: tt.ran, throughput: 400e-9 * tt.gain, samples: 16},
		} {
			for range 20 {
				l.reach.add(int(p.concurrency))
			}
			p.residence, p.took, p.limit = 80e6, 20e6, 64
			l.whileFree(p)
			l.seen.past = p
		}
		if l.Limit() > tt.want || tt.want == 64 && l.Limit() < 64 {
			t.Errorf("%s: the limit is %d, want %d", tt.name, l.Limit(), tt.want)
		}
	}
}

// store works on k requests at a time, and shares itself equally among more: each takes longer then. Nobody sees that, as it
// is another machine. What finds no slot waits in front, up to frontMax, and is lost beyond.
type store struct {
	limit   *Limit
	k, mean float64 // requests, ns of exponential work
	rate    float64 // of arrivals, per ns
	rng     *rand.Rand

	now, arrival, done float64 // ns; done is the work that each request inside has had since the beginning
	inside             events  // by the work that is done when they end
	front              int
	served, late       int
}

// run advances by d.
func (s *store) run(d time.Duration) {
	for end := s.now + float64(d); s.now < end; {
		speed, next, ends := min(s.k/max(float64(len(s.inside)), 1), 1), s.arrival, false
		if len(s.inside) > 0 {
			if at := s.now + (float64(s.inside[0].at)-s.done)/speed; at < next {
				next, ends = at, true
			}
		}
		s.done += (next - s.now) * speed
		s.now = next
		now := mono.Time(s.now)
		if ends {
			e := s.inside.pop()
			s.limit.Release(now, e.started, e.place, true)
			if s.served++; float64(now.Sub(e.started)) > whole*float64(s.limit.cfg.Slack) {
				s.late++
			}
		} else {
			s.arrival = s.now + s.rng.ExpFloat64()/s.rate
			s.front = min(s.front+1, frontMax)
		}
		for s.front > 0 && s.limit.Free() {
			s.front--
			s.inside.push(event{at: mono.Time(s.done + s.mean*s.rng.ExpFloat64()), started: now, place: s.limit.Acquire(now)})
		}
	}
}

// TestAStoreThatShrinks: twice as many requests come as a store that shares itself can do, and it loses two thirds of its
// processors. Its ranks always reach as far as what runs, so more are tried again and again. That must not put off the trial with
// fewer for good: where it did, 17 % of the answers were late.
func TestAStoreThatShrinks(t *testing.T) {
	const seeds, mean = 6, 15 * time.Millisecond
	late := 0.0
	for seed := range uint64(seeds) {
		l, err := New(Config{Slack: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		s := &store{limit: l, k: 30, mean: float64(mean), rate: 60 / float64(mean), rng: rand.New(rand.NewPCG(seed, 9))}
		s.run(10 * time.Second)
		s.k, s.rate = s.k/3, s.rate/3
		s.run(30 * time.Second)
		s.served, s.late = 0, 0
		s.run(10 * time.Second)
		late += float64(s.late) / float64(s.served) / seeds
	}
	if late > 0.1 {
		t.Errorf("%.1f %% of the answers are late, want at most 10 %%", 100*late)
	}
}
