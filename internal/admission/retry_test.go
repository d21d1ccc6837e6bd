package admission

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// storm is a gate with eight slots of 10 ms, exponential, before which requests arrive at
// 0.7 times the capacity, and for two seconds at four times. Who is refused comes again
// after a pause as gRPC's retry policy has it, up to a number of attempts.
type storm struct {
	gate     *Gate
	r        *rand.Rand
	now      mono.Time
	events   stormEvents
	attempts int  // of each request, 1: no retries
	told     bool // the gate is told which attempt it is
	since    bool // and for how long the request has been under way
	spike    [2]mono.Time

	offered, good, retried int // of those that were first sent in the spike
}

type stormRequest struct {
	Ticket
	first   mono.Time
	attempt int
}

type stormEvent struct {
	at   mono.Time
	what func()
}

type stormEvents []stormEvent

func (e stormEvents) Len() int           { return len(e) }
func (e stormEvents) Less(i, j int) bool { return e[i].at < e[j].at }
func (e stormEvents) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *stormEvents) Push(x any)        { *e = append(*e, x.(stormEvent)) }
func (e *stormEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

const (
	stormObjective = 200 * time.Millisecond
	stormService   = 10 * time.Millisecond
	stormSlots     = 8
)

func newStorm(t testing.TB, seed uint64, attempts int, told bool) *storm {
	g, err := New(Config{Objective: stormObjective, NoCredit: true, Slots: slots.Config{Min: stormSlots, Max: stormSlots}})
	if err != nil {
		t.Fatal(err)
	}
	return &storm{gate: g, r: rand.New(rand.NewPCG(seed, 1)), attempts: attempts, told: told, spike: [2]mono.Time{mono.Time(2 * time.Second), mono.Time(4 * time.Second)}}
}

func (s *storm) after(d time.Duration, what func()) {
	heap.Push(&s.events, stormEvent{s.now.Add(d), what})
}

func (s *storm) random(mean time.Duration) time.Duration {
	return time.Duration(s.r.ExpFloat64() * float64(mean))
}

// run plays seven seconds.
func (s *storm) run() {
	s.after(0, s.arrival)
	for len(s.events) > 0 && s.now < mono.Time(7*time.Second) {
		e := heap.Pop(&s.events).(stormEvent)
		for at := s.gate.NextWake(); at <= e.at; at = s.gate.NextWake() {
			s.now = max(at, s.now+1)
			s.gate.OnWake(s.now)
			s.pump()
		}
		s.now = max(e.at, s.now)
		e.what()
		s.pump()
	}
}

func (s *storm) inSpike(at mono.Time) bool { return at >= s.spike[0] && at < s.spike[1] }

func (s *storm) arrival() {
	load := 0.7
	if s.inSpike(s.now) {
		load = 4
		s.offered++
	}
	s.send(&stormRequest{first: s.now})
	s.after(s.random(time.Duration(float64(stormService)/stormSlots/load)), s.arrival)
}

func (s *storm) send(k *stormRequest) {
	k.Ticket = Ticket{Owner: k}
	k.Deadline = mono.Never
	if s.told {
		k.Attempt = k.attempt
	}
	if s.since {
		k.Waited = s.now.Sub(k.first)
	}
	s.became(k, s.gate.Arrive(s.now, &k.Ticket))
}

func (s *storm) pump() {
	for t, v := s.gate.Next(s.now); t != nil; t, v = s.gate.Next(s.now) {
		s.became(t.Owner.(*stormRequest), v)
	}
}

func (s *storm) became(k *stormRequest, v Verdict) {
	switch v {
	case Run:
		s.after(s.random(stormService), func() {
			s.gate.Leave(s.now, &k.Ticket, work.Done)
			if s.inSpike(k.first) && s.now.Sub(k.first) <= stormObjective {
				s.good++
			}
		})
	case Shed:
		pause := s.gate.Pushback(s.now, &k.Ticket)
		if k.attempt++; k.attempt < s.attempts && pause >= 0 {
			s.after(pause, func() { s.retried++; s.send(k) })
		}
	}
}

// TestARetryStormCostsNothing: with four attempts a request, at four times the capacity
// for two seconds, as many of those that come then are answered within the objective,
// counted from their first attempt, as without retries: whether the gate is told which
// attempt it is, as by gRPC's own retry policy, or for how long the request has been under
// way, or both. A gate that is told neither serves retries whose time is over: about half.
func TestARetryStormCostsNothing(t *testing.T) {
	for seed := range uint64(5) {
		play := func(attempts int, told, since bool) *storm {
			s := newStorm(t, seed, attempts, told)
			s.since = since
			s.run()
			return s
		}
		alone := play(1, false, false)
		for _, tt := range []struct{ told, since, same bool }{{true, false, true}, {false, true, true}, {true, true, true}, {false, false, false}} {
			s := play(4, tt.told, tt.since)
			if s.retried < 5000 {
				t.Fatalf("seed %d: %d retries are no storm", seed, s.retried)
			}
			ratio := float64(s.good) / float64(alone.good)
			if same := ratio > 0.99; same != tt.same {
				t.Errorf("seed %d: told the attempt %v and the time %v: %.2f of what is served in time without retries", seed, tt.told, tt.since, ratio)
			}
		}
	}
}
