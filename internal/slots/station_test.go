package slots

import (
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// station is what a Limit must find out about: k workers behind a queue of their
// own, unseen, fed by Poisson arrivals through the limit. What finds no slot
// waits in front, up to frontMax, and is lost beyond.
type station struct {
	limit   *Limit
	k       int
	mean    time.Duration
	fixed   bool // constant service times
	bimodal bool // one in five takes four times the mean, the others a quarter
	rate    float64
	rng     *rand.Rand
	now     mono.Time
	events  events
	hidden  []event // the requests that wait inside
	busy    int
	front   int
	served  int
	refused int
	offered int
	maxHid  int
	late    int // of those that were served, longer inside than the objective
}

const frontMax = 64

type event struct {
	at      mono.Time
	started mono.Time // of the request that finishes; -1: an arrival
	place   Place
}

// events is a heap, the earliest first. It does what container/heap does, in the same order, without an allocation for each of
// the millions of events.
type events []event

func (e *events) push(x event) {
	h := append(*e, x)
	*e = h
	for i := len(h) - 1; i > 0; {
		above := (i - 1) / 2
		if h[i].at >= h[above].at {
			break
		}
		h[i], h[above] = h[above], h[i]
		i = above
	}
}

func (e *events) pop() event {
	h := *e
	n := len(h) - 1
	first := h[0]
	h[0], h = h[n], h[:n]
	*e = h
	for i := 0; ; {
		least := 2*i + 1
		if least >= n {
			return first
		}
		if right := least + 1; right < n && h[right].at < h[least].at {
			least = right
		}
		if h[least].at >= h[i].at {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func newStation(cfg Config, k int, mean time.Duration, rate float64, seed uint64) *station {
	l, err := New(cfg)
	if err != nil {
		panic(err)
	}
	s := &station{limit: l, k: k, mean: mean, rate: rate, rng: rand.New(rand.NewPCG(seed, 1))}
	s.arrive()
	return s
}

func (s *station) arrive() {
	gap := s.rng.ExpFloat64() / s.rate * 1e9
	s.events.push(event{at: s.now.Add(time.Duration(gap)), started: -1})
}

// run advances by d and returns the throughput in it, per second.
func (s *station) run(d time.Duration) float64 {
	end := s.now.Add(d)
	before := s.served
	for s.events[0].at <= end {
		e := s.events.pop()
		s.now = e.at
		if e.started < 0 {
			s.offered++
			s.arrive()
			if s.front >= frontMax {
				s.refused++
				continue
			}
			s.front++
		} else {
			s.served++
			s.busy--
			s.limit.Release(s.now, e.started, e.place, true)
			if s.now.Sub(e.started) > whole*s.limit.cfg.Slack {
				s.late++
			}
			if len(s.hidden) > 0 && s.busy < s.k {
				s.serve(s.hidden[0])
				s.hidden = s.hidden[1:]
			}
		}
		for s.front > 0 && s.limit.Free() {
			s.front--
			e := event{started: s.now, place: s.limit.Acquire(s.now)}
			if s.busy < s.k {
				s.serve(e)
			} else {
				s.hidden = append(s.hidden, e)
				s.maxHid = max(s.maxHid, len(s.hidden))
			}
		}
	}
	s.now = end
	return float64(s.served-before) / d.Seconds()
}

func (s *station) serve(e event) {
	s.busy++
	t := float64(s.mean)
	switch {
	case s.bimodal && s.rng.IntN(5) == 0:
		t *= 4
	case s.bimodal:
		t /= 4
	case !s.fixed:
		t *= s.rng.ExpFloat64()
	}
	e.at = s.now.Add(time.Duration(t))
	s.events.push(e)
}
