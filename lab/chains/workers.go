package chains

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/harness/service"
	"github.com/spillgate/spillgate/internal/work"
)

// turns hands out a number of turns at a time, one for each worker. A turn that was
// acquired is given back by the function.
type turns interface {
	acquire(ctx context.Context, class work.Class) (release func(), err error)
	close()
}

// passage is a request's way through the workers of a server.
type passage struct{ arrived, started, ended time.Time }

func (p passage) waited() time.Duration  { return p.started.Sub(p.arrived) }
func (p passage) service() time.Duration { return p.ended.Sub(p.started) }

// workers are the workers of one Go service.
//
// Service times are drawn when a worker takes a request up, so that how many
// requests are here at any instant does not depend on their order, if no worker is
// ever idle while somebody waits: then what all wait together is what they would
// have waited first come, first served, and the ledger knows that. A worker that is
// woken late starts its next request at the instant at which it should have been
// woken, so that late timers take nothing from the capacity.
type workers struct {
	lines []turns   // one for all, or one for each class
	parts []float64 // of a worker's speed, for each line
	sleep *service.Station
	steer *steering // nil but for Share

	mu     sync.Mutex
	random *rand.Rand
	mean   float64       // nanoseconds
	free   [][]time.Time // by line: since when each idle worker is
	ledger ledger
	counts Counts
}

func newWorkers(s Setting, d Discipline) (*workers, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	// Without a limit, a station is a precise sleep.
	sleep, err := service.New(service.Config{Mean: s.Mean})
	if err != nil {
		return nil, err
	}
	w := &workers{
		parts: []float64{1}, sleep: sleep, mean: float64(s.Mean),
		random: rand.New(rand.NewPCG(s.Seed, 0x6a09e667f3bcc908)), ledger: newLedger(s.Workers),
	}
	switch d.Kind {
	case FIFO:
		w.lines = []turns{newLine(s.Workers, -1, 0)}
	case Lottery:
		w.lines = []turns{newLine(s.Workers, d.Weight, s.Seed)}
	case Static:
		w.lines = []turns{newLine(s.Workers, -1, 0), newLine(s.Workers, -1, 0)}
		w.parts = []float64{work.Default: 1 - d.Weight, work.Interactive: d.Weight}
	case Weighted, Share:
		weight := d.Weight
		if d.Kind == Share {
			weight = 0.5
		}
		r, err := newResource(s.Workers, weight)
		if err == nil && d.Kind == Share {
			w.steer, err = newSteering(s, r)
		}
		if err != nil {
			sleep.Close()
			return nil, err
		}
		w.lines = []turns{r}
	}
	began := time.Now()
	for range w.lines {
		idle := make([]time.Time, s.Workers)
		for i := range idle {
			idle[i] = began
		}
		w.free = append(w.free, idle)
	}
	return w, nil
}

// serve waits for a worker and is served. The end of ctx ends the wait, not the
// service: no server stops what it has begun.
func (w *workers) serve(ctx context.Context, class work.Class) (passage, error) {
	line := 0
	if len(w.lines) > 1 {
		line = int(class)
	}
	p := passage{arrived: time.Now()}
	w.mu.Lock()
	w.counts.Arrived++
	w.ledger.arrive(p.arrived, class)
	w.mu.Unlock()
	release, err := w.lines[line].acquire(ctx, class)
	if err != nil {
		w.mu.Lock()
		w.counts.Abandoned++
		w.mu.Unlock()
		return p, err
	}
	w.start(line, class, &p)
	err = w.sleep.DoFor(context.WithoutCancel(ctx), time.Until(p.ended))
	w.mu.Lock()
	w.free[line] = append(w.free[line], p.ended)
	w.counts.Finished++
	w.mu.Unlock()
	release()
	return p, err
}

// start takes the worker that has been idle for longest.
func (w *workers) start(line int, class work.Class, p *passage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle, first := w.free[line], 0
	for i := range idle {
		if idle[i].Before(idle[first]) {
			first = i
		}
	}
	p.started = p.arrived
	if since := idle[first]; since.After(p.arrived) {
		p.started = since
	}
	w.free[line] = append(idle[:first], idle[first+1:]...)
	drawn := time.Duration(w.random.ExpFloat64() * w.mean)
	w.ledger.start(drawn)
	p.ended = p.started.Add(time.Duration(float64(drawn) / w.parts[line]))
	w.counts.add(class, p.waited(), drawn)
}

// read returns what was counted so far.
func (w *workers) read() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts.with(&w.ledger)
}

func (w *workers) close() {
	if w.steer != nil {
		w.steer.close()
	}
	for _, l := range w.lines {
		l.close()
	}
	w.sleep.Close()
}

// Counts are what a server did since it was started.
type Counts struct {
	Arrived  uint64 `json:"arrived"`
	Finished uint64 `json:"finished"`
	// Abandoned counts requests whose callers left before a worker took them up. A
	// Tomcat learns nothing of that and serves them.
	Abandoned uint64 `json:"abandoned"`
	// Worked is the sum of service times, Waited that of the times until a worker
	// took a request up.
	Worked time.Duration `json:"worked_ns"`
	Waited time.Duration `json:"waited_ns"`
	// FIFO is what Waited would have been in one queue in order of arrival, of the
	// same arrivals and service times. A Tomcat, which is one, says 0.
	FIFO time.Duration `json:"fifo_waited_ns"`
	// Class is what each class has of Waited and FIFO.
	Class [work.NumClasses]Waits `json:"class"`
}

// Waits are what requests waited, and what they would have in one queue in order of
// arrival.
type Waits struct {
	Waited time.Duration `json:"waited_ns"`
	FIFO   time.Duration `json:"fifo_waited_ns"`
}

// LawDistance is by how much all waited longer than in one queue in order of
// arrival, as a share of that: 0 if no worker was idle while somebody waited. It
// reports false if callers gave up, for then the two are not comparable, if there
// is nothing to compare, or if requests are still under way.
func (c Counts) LawDistance() (float64, bool) {
	if c.FIFO <= 0 || c.Abandoned > 0 || c.Finished != c.Arrived {
		return 0, false
	}
	return float64(c.Waited)/float64(c.FIFO) - 1, true
}

// add counts a request that a worker took up.
func (c *Counts) add(class work.Class, waited, worked time.Duration) {
	c.Waited += waited
	c.Class[class].Waited += waited
	c.Worked += worked
}

// with adds what a ledger found.
func (c Counts) with(l *ledger) Counts {
	for class, waited := range l.waited {
		c.Class[class].FIFO = waited
		c.FIFO += waited
	}
	return c
}

// perVisit is the mean service time in seconds.
func (c Counts) perVisit() float64 { return c.Worked.Seconds() / float64(max(c.Finished, 1)) }

// plus returns the sum of two servers' counts.
func (c Counts) plus(d Counts) Counts {
	for class, w := range d.Class {
		c.Class[class].Waited += w.Waited
		c.Class[class].FIFO += w.FIFO
	}
	return Counts{
		Arrived: c.Arrived + d.Arrived, Finished: c.Finished + d.Finished, Abandoned: c.Abandoned + d.Abandoned,
		Worked: c.Worked + d.Worked, Waited: c.Waited + d.Waited, FIFO: c.FIFO + d.FIFO, Class: c.Class,
	}
}

// ledger replays arrivals and service times in one queue in order of arrival. The
// service times may come later than the arrivals, and come in the order in which
// requests were taken up.
type ledger struct {
	free    []time.Time // when each worker is, in the replay
	pending []arrival   // whose service times have not come yet
	waited  [work.NumClasses]time.Duration
}

type arrival struct {
	at    time.Time
	class work.Class
}

func newLedger(workers int) ledger { return ledger{free: make([]time.Time, workers)} }

func (l *ledger) arrive(at time.Time, class work.Class) {
	l.pending = append(l.pending, arrival{at, class})
}

func (l *ledger) start(work time.Duration) {
	next := l.pending[0]
	l.pending = l.pending[1:]
	first := 0
	for i := range l.free {
		if l.free[i].Before(l.free[first]) {
			first = i
		}
	}
	start := next.at
	if l.free[first].After(next.at) {
		start = l.free[first]
	}
	l.waited[next.class] += start.Sub(next.at)
	l.free[first] = start.Add(work)
}
