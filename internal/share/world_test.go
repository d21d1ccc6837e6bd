package share

import (
	"container/heap"
	"math/rand/v2"
	"slices"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// world is a chain of servers with exponential service. Interactive requests visit
// all of them in turn, default ones one. Each server has a queue for each class
// and serves either whole queue in FIFO order of arrival, or, with weights, one
// class drawn by lot.
type world struct {
	rng     *rand.Rand
	now     float64
	events  pending
	servers []*server
	rate    [work.NumClasses]float64 // arrivals per second, at each server
	service float64
	lottery bool
	// patience of default callers in the queue, mean seconds; 0: endless.
	patience float64
	taken    [work.NumClasses][]float64 // latencies since the last reset
	gaveUp   int
}

type server struct {
	weight     float64
	controller *Controller
	queue      [work.NumClasses][]*visitor
	busy       *visitor
	epoch      int // of the arrival process: a changed rate voids the old one
}

// visitor is a request at one server at a time.
type visitor struct {
	class  work.Class
	at     int
	began  float64
	came   float64
	until  float64 // gives up in the queue
	waited []float64
	served []float64
}

type occurrence struct {
	at     float64
	kind   int // 0: arrival, 1: end of service
	server int
	class  work.Class
	who    *visitor
	epoch  int
}

type pending []occurrence

func (p pending) Len() int           { return len(p) }
func (p pending) Less(i, j int) bool { return p[i].at < p[j].at }
func (p pending) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *pending) Push(x any)        { *p = append(*p, x.(occurrence)) }
func (p *pending) Pop() any          { o := *p; x := o[len(o)-1]; *p = o[:len(o)-1]; return x }

func newWorld(seed uint64, hops int, interactive, standard, service float64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 99)), service: service}
	for range hops {
		w.servers = append(w.servers, &server{weight: 0.5})
	}
	w.load(interactive, standard)
	return w
}

// weights makes every server draw, with this weight for the interactive class.
func (w *world) weights(x float64) {
	w.lottery = true
	for _, s := range w.servers {
		s.weight = x
	}
}

// control gives every server a controller of its own.
func (w *world) control(cfg Config) {
	w.weights(0.5)
	for _, s := range w.servers {
		c, err := New(cfg)
		if err != nil {
			panic(err)
		}
		s.controller = c
	}
}

// load sets the arrival rates from now on.
func (w *world) load(interactive, standard float64) {
	w.rate = [work.NumClasses]float64{work.Default: standard, work.Interactive: interactive}
	for i, s := range w.servers {
		s.epoch++
		w.next(i, work.Default)
		if i == 0 {
			w.next(0, work.Interactive)
		}
	}
}

func (w *world) next(server int, class work.Class) {
	if w.rate[class] > 0 {
		at := w.now + w.rng.ExpFloat64()/w.rate[class]
		heap.Push(&w.events, occurrence{at: at, server: server, class: class, epoch: w.servers[server].epoch})
	}
}

func (w *world) run(duration float64) {
	end := w.now + duration
	for len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(occurrence)
		w.now = e.at
		s := w.servers[e.server]
		if e.kind == 1 {
			s.busy = nil
			w.leave(e.who)
			w.start(e.server)
		} else if e.epoch == s.epoch {
			w.arrive(&visitor{class: e.class, at: e.server, began: w.now})
			w.next(e.server, e.class)
		}
	}
	w.now = end
}

func (w *world) arrive(v *visitor) {
	s := w.servers[v.at]
	v.came, v.until = w.now, -1
	if w.patience > 0 && v.class == work.Default {
		v.until = w.now + w.rng.ExpFloat64()*w.patience
	}
	s.queue[v.class] = append(s.queue[v.class], v)
	if s.controller != nil {
		s.controller.OnArrival(v.class)
	}
	w.start(v.at)
}

// start serves the next request if the server is free. Who gave up is found when
// its turn comes, which changes nothing for the others.
func (w *world) start(server int) {
	s := w.servers[server]
	if s.busy != nil {
		return
	}
	if w.patience > 0 {
		w.abandon(s)
	}
	d, r := s.queue[work.Default], s.queue[work.Interactive]
	var class work.Class
	switch {
	case len(d) == 0 && len(r) == 0:
		return
	case len(d) == 0:
		class = work.Interactive
	case len(r) == 0:
		class = work.Default
	case w.lottery:
		if w.rng.Float64() < s.weight {
			class = work.Interactive
		}
	case r[0].came < d[0].came:
		class = work.Interactive
	}
	v := s.queue[class][0]
	s.queue[class] = s.queue[class][1:]
	s.busy = v
	takes := w.rng.ExpFloat64() / w.service
	v.waited = append(v.waited, w.now-v.came)
	v.served = append(v.served, takes)
	heap.Push(&w.events, occurrence{at: w.now + takes, kind: 1, server: server, who: v})
}

func (w *world) abandon(s *server) {
	s.queue[work.Default] = slices.DeleteFunc(s.queue[work.Default], func(v *visitor) bool {
		gone := v.until < w.now
		if gone {
			w.gaveUp++
			if s.controller != nil {
				s.controller.OnCancel(v.class, seconds(v.until-v.came))
			}
		}
		return gone
	})
}

func (w *world) leave(v *visitor) {
	if v.class == work.Interactive && v.at+1 < len(w.servers) {
		v.at++
		w.arrive(v)
		return
	}
	latency := w.now - v.began
	w.taken[v.class] = append(w.taken[v.class], latency)
	first := v.at + 1 - len(v.waited)
	for i := range v.waited {
		if c := w.servers[first+i].controller; c != nil {
			c.OnDone(v.class, Sample{
				Latency: seconds(latency), Isolated: seconds(float64(len(v.waited)) / w.service),
				Waited: seconds(v.waited[i]), Service: seconds(v.served[i]),
			})
		}
	}
}

// wake runs for one second and lets the controllers decide; it returns the
// first one's decision.
func (w *world) wake() Decision {
	if w.now == 0 {
		for _, s := range w.servers {
			s.controller.OnWake(0)
		}
	}
	w.run(1)
	var first Decision
	for i, s := range w.servers {
		d := s.controller.OnWake(mono.Time(seconds(w.now)))
		s.weight = d.Weight
		if i == 0 {
			first = d
		}
	}
	return first
}

// reset forgets the latencies so far.
func (w *world) reset() {
	for i := range w.taken {
		w.taken[i] = w.taken[i][:0]
	}
	w.gaveUp = 0
}

// latency returns the means since the last reset.
func (w *world) latency() Latency {
	mean := func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		return sum / float64(max(len(x), 1))
	}
	return Latency{mean(w.taken[work.Interactive]), mean(w.taken[work.Default])}
}

// p95 returns the tails since the last reset.
func (w *world) p95() Latency {
	tail := func(x []float64) float64 {
		y := slices.Sorted(slices.Values(x))
		if len(y) == 0 {
			return 0
		}
		return y[len(y)*95/100]
	}
	return Latency{tail(w.taken[work.Interactive]), tail(w.taken[work.Default])}
}
