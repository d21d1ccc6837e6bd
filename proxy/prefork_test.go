package proxy

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// preforked plays the policy keeping in virtual time, in front of a server with a process for each connection: for two
// seconds at half of its capacity, and then at twice that, with some slots.
//
//	arrivals ──▶ a slot ──▶ a kept connection, whose process serves it
//	                   └──▶ a new one ──▶ accept queue ──▶ the process of a connection that ended
type preforked struct {
	k     keeping
	now   mono.Time
	due   dues
	armed bool
	rng   *rand.Rand
	rare  float64 // the share of requests that take 100 ms

	slots, waiting, free int
	idle, accept         []*kept
	from, end            mono.Time // of the overload

	took        []time.Duration // of the requests in the overload, inside
	connections int
}

// kept is a connection.
type kept struct {
	line   link
	began  mono.Time // its request
	parts  bool      // it is closed after the answer
	served bool      // it has a process
}

const preforkService = 30 * time.Millisecond // and 3 ms in the mean

func playPrefork(processes, slots int, overload time.Duration, seed uint64) *preforked {
	s := newPreforked(processes, slots, seed)
	s.play(float64(processes)/(preforkService+3*time.Millisecond).Seconds(), overload)
	return s
}

func newPreforked(processes, slots int, seed uint64) *preforked {
	return &preforked{k: keeping{patience: 100 * time.Millisecond / 8}, now: mono.Time(time.Hour), rng: rand.New(rand.NewPCG(seed, 7)), slots: slots, free: processes}
}

// play plays it with that capacity in requests a second.
func (s *preforked) play(capacity float64, overload time.Duration) {
	s.from = s.now.Add(2 * time.Second)
	s.end = s.from.Add(overload)
	s.arrive(capacity)
	for len(s.due) > 0 {
		next := s.due.pop()
		if s.now = next.at; s.now >= s.end {
			break
		}
		next.what()
	}
	slices.Sort(s.took)
}

func (s *preforked) after(d time.Duration, what func()) { s.due.push(due{s.now.Add(d), what}) }

func (s *preforked) arrive(capacity float64) {
	rate := capacity / 2
	if s.now >= s.from {
		rate = 2 * capacity
	}
	switch {
	case s.slots > 0:
		s.begin()
	case s.waiting < 3: // else it is refused
		s.waiting++
	}
	s.after(time.Duration(s.rng.ExpFloat64()/rate*float64(time.Second)), func() { s.arrive(capacity) })
}

func (s *preforked) begin() {
	s.slots--
	parts, c := s.k.parts(s.now), &kept{}
	if n := len(s.idle) - 1; n >= 0 {
		c, s.idle = s.idle[n], s.idle[:n]
	} else {
		s.connections++
	}
	c.began, c.parts = s.now, parts
	s.k.ask(s.now, &c.line)
	if !s.armed && len(s.k.silent) > 0 {
		s.armed = true
		s.after(s.k.wait(), s.wake)
	}
	if c.served {
		s.after(s.service(), func() { s.answer(c) })
		return
	}
	s.accept = append(s.accept, c)
	s.serve()
}

func (s *preforked) service() time.Duration {
	if s.rare > 0 && s.rng.Float64() < s.rare {
		return 100 * time.Millisecond
	}
	return preforkService + time.Duration(s.rng.ExpFloat64()*float64(3*time.Millisecond))
}

// serve has free processes accept connections.
func (s *preforked) serve() {
	for s.free > 0 && len(s.accept) > 0 {
		c := s.accept[0]
		s.accept = s.accept[1:]
		s.free--
		c.served = true
		s.after(s.service(), func() { s.answer(c) })
	}
}

func (s *preforked) answer(c *kept) {
	s.k.answer(s.now, &c.line)
	if c.began >= s.from {
		s.took = append(s.took, s.now.Sub(c.began))
	}
	s.slots++
	if c.parts || s.k.parts(s.now) {
		s.close(c)
	} else {
		s.idle = append(s.idle, c)
	}
	if s.waiting > 0 {
		s.waiting--
		s.begin()
	}
}

func (s *preforked) close(c *kept) {
	s.k.end(&c.line)
	s.free++
	s.after(200*time.Microsecond, s.serve)
}

func (s *preforked) wake() {
	s.armed = false
	again, closeIdle := s.k.wake(s.now)
	if again > 0 {
		s.armed = true
		s.after(max(again.Sub(s.now), 0), s.wake)
	}
	if closeIdle {
		for _, c := range s.idle {
			s.close(c)
		}
		s.idle = nil
	}
}

// With half as many slots again as there are processes, requests take turns: none waits in the accept queue for longer than
// the processes of others take for two answers, but for those by which the processes are counted, twice: the first count
// holds for a second. With as many slots, no connection is made anew.
func TestKeepingInOverload(t *testing.T) {
	for _, tt := range []struct {
		processes, slots int
		late             float64 // the share of requests that take longer than 75 ms inside, in the worst of ten seeds
		longest          time.Duration
	}{{8, 12, 0.003, 100 * time.Millisecond}, {4, 6, 0.005, 100 * time.Millisecond}, {32, 40, 0.003, 130 * time.Millisecond}, {8, 8, 0, 75 * time.Millisecond}} {
		for seed := range uint64(10) {
			s := playPrefork(tt.processes, tt.slots, 8*time.Second, seed)
			n, _ := slices.BinarySearch(s.took, 75*time.Millisecond)
			late, longest := 1-float64(n)/float64(len(s.took)), s.took[len(s.took)-1]
			if late > tt.late || longest > tt.longest {
				t.Errorf("%d processes, %d slots, seed %d: %.2f %% of %d requests took longer than 75 ms, the longest %v", tt.processes, tt.slots, seed, 100*late, len(s.took), longest)
			}
			if tt.slots == tt.processes && s.connections > 2*tt.processes {
				t.Errorf("%d connections with as many slots as processes (%d)", s.connections, tt.processes)
			}
		}
	}
}

// In front of a server with a thread for each connection, slow answers look like processes that are missing. If one is taken
// for that twice, 32 requests at once are sent on new connections for some seconds, and not for a minute; mostly none is.
func TestKeepingWithAThreadForEach(t *testing.T) {
	for _, rare := range []float64{0, 0.01, 0.05} {
		made, all := 0, 0
		for seed := range uint64(4) {
			s := newPreforked(1000, 32, seed)
			s.rare = rare
			s.play(32/(preforkService+3*time.Millisecond).Seconds(), 70*time.Second)
			if made, all = made+s.connections, all+len(s.took); s.connections > len(s.took)/3 {
				t.Errorf("%.0f %% slow, seed %d: %d connections for %d requests", 100*rare, seed, s.connections, len(s.took))
			}
		}
		if t.Logf("%.0f %% slow: %d connections for %d requests", 100*rare, made, all); made > all/10 {
			t.Errorf("%.0f %% slow: %d connections for %d requests", 100*rare, made, all)
		}
	}
}

// due is what happens at an instant, dues all of it.
type due struct {
	at   mono.Time
	what func()
}

// dues is a heap, the earliest first. It does what container/heap does, in the same order, without
// an allocation for each of millions of events.
type dues []due

func (d *dues) push(x due) {
	h := append(*d, x)
	*d = h
	for i := len(h) - 1; i > 0; {
		above := (i - 1) / 2
		if h[i].at >= h[above].at {
			return
		}
		h[i], h[above] = h[above], h[i]
		i = above
	}
}

func (d *dues) pop() due {
	h := *d
	n := len(h) - 1
	first := h[0]
	h[0], h[n] = h[n], due{}
	h = h[:n]
	*d = h
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
