package hold

import (
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim"
)

// app is the application while it runs.
type app struct {
	cfg    Config
	engine sim.Engine[event]
	tasks  []task
	free   []int32
	alive  []int32
	nextID uint64

	locks  []lock   // by resource, where it is a lock or a queue
	shares []share  // by resource, where it is a system
	pools  []pool   // by resource, where it is memory
	chance []source // by load
	dice   *rand.Rand
	limits map[uint64]mono.Time // by kind: until then none begins

	sample   culprit.Sample
	finished culprit.Finished
	latency  sim.Histogram
	report   Report
}

// source is the chance of one load: when it sends, and what that takes.
type source struct {
	arrivals, work *rand.Rand
}

// what an event is about.
type what uint8

const (
	arrive   what = iota // of a load
	begin                // of a guest
	timeUp               // of a task's present operation
	shareEnd             // of a system's next task
	look                 // at the application
	obey                 // a cancel takes effect
	undone               // a cancelled task has undone its work
)

type event struct {
	what what
	n    int32  // load, guest, task or resource
	gen  uint32 // of the task or the resource, to tell a stale event
	step culprit.Step
}

// task is one request or guest.
type task struct {
	id      uint64
	gen     uint32
	place   int32 // in alive
	load    int32 // -1 for a guest
	guest   int32 // -1 for a request
	program *Program
	chance  *rand.Rand
	started mono.Time
	op      int
	round   int
	left    int           // pages of the present Touch
	done    time.Duration // work done, without the present operation
	opStart mono.Time
	opTime  time.Duration
	state   state
	cells   []cell
}

type state uint8

const (
	running state = iota
	waiting
	resting
	undoing
)

// cell is what a task has to do with one resource.
type cell struct {
	gets, frees, waits uint64
	waitTime, holdTime time.Duration
	waitingSince       mono.Time
	heldSince          mono.Time
	used               int
	shared             bool
}

const (
	arrivalStream sim.Stream = iota + 1
	workStream
	guestStream
	pageStream
)

// Play runs cfg and reports.
func Play(cfg Config) *Report {
	a := &app{cfg: cfg, limits: map[uint64]mono.Time{}, dice: sim.Chance(cfg.Seed, pageStream, 0)}
	n := len(cfg.Resources)
	a.locks, a.shares, a.pools = make([]lock, n), make([]share, n), make([]pool, n)
	for r := range cfg.Resources {
		a.pools[r].hot = float64(cfg.Resources[r].Hot)
		a.pools[r].resident = a.pools[r].hot // it has run for a while
		a.pools[r].size = float64(cfg.Resources[r].Pages)
		a.sample.Resources = append(a.sample.Resources, culprit.Resource{Name: cfg.Resources[r].Name, Kind: cfg.Resources[r].Kind})
	}
	for i := range cfg.Loads {
		a.chance = append(a.chance, source{sim.Chance(cfg.Seed, arrivalStream, i), sim.Chance(cfg.Seed, workStream, i)})
		for range max(cfg.Loads[i].Clients, 1) {
			a.arriveNext(int32(i), 0)
		}
	}
	for i := range cfg.Guests {
		a.engine.At(mono.Time(cfg.Guests[i].At), event{what: begin, n: int32(i)})
	}
	a.engine.At(mono.Time(cfg.Every), event{what: look})
	for {
		e, ok := a.engine.Next(mono.Time(cfg.End))
		if !ok {
			break
		}
		a.handle(e)
	}
	return a.end()
}

func (a *app) handle(e event) {
	now := a.engine.Now()
	switch e.what {
	case arrive:
		load := &a.cfg.Loads[e.n]
		if load.Clients == 0 {
			a.arriveNext(e.n, now)
		}
		a.report.Started++
		if now < a.limits[load.Program.Kind] {
			a.report.Dropped++
			if load.Clients > 0 {
				a.engine.At(a.limits[load.Program.Kind], e)
			}
			return
		}
		a.start(&load.Program, e.n, -1)
	case begin:
		g := &a.cfg.Guests[e.n]
		if until := a.limits[g.Program.Kind]; now < until {
			a.engine.At(until, e)
			return
		}
		if g.Until == 0 || now < mono.Time(g.Until) {
			a.start(&g.Program, -1, e.n)
		}
	case timeUp:
		if t := &a.tasks[e.n]; t.gen == e.gen {
			a.opDone(e.n)
		}
	case shareEnd:
		if s := &a.shares[e.n]; s.gen == e.gen {
			a.shareDone(int(e.n))
		}
	case look:
		a.engine.At(now.Add(a.look()), e)
	case obey:
		if t := &a.tasks[e.n]; t.gen == e.gen {
			a.cancel(e.n, e.step)
		}
	case undone:
		if t := &a.tasks[e.n]; t.gen == e.gen {
			a.finish(e.n, false)
		}
	}
}

// arriveNext schedules the next request of a load, or of one of its clients.
func (a *app) arriveNext(i int32, now mono.Time) {
	load, chance := &a.cfg.Loads[i], a.chance[i].arrivals
	if load.Clients > 0 {
		a.engine.At(now.Add(time.Duration(chance.ExpFloat64()*float64(load.Think))), event{what: arrive, n: i})
		return
	}
	rate := 0.0
	next := mono.Never
	for _, s := range load.Rate {
		if now >= mono.Time(s.From) {
			rate = s.Rate
		} else if mono.Time(s.From) < next {
			next = mono.Time(s.From)
		}
	}
	at := mono.Never
	if rate > 0 {
		at = now.Add(time.Duration(chance.ExpFloat64() / rate * float64(time.Second)))
	}
	if at > next { // a stream without memory starts anew where its rate changes
		a.arriveNext(i, next)
		return
	}
	a.engine.At(at, event{what: arrive, n: i})
}

// start begins a task.
func (a *app) start(p *Program, load, guest int32) {
	var n int32
	if last := len(a.free) - 1; last >= 0 {
		n, a.free = a.free[last], a.free[:last]
	} else {
		n = int32(len(a.tasks))
		a.tasks = append(a.tasks, task{cells: make([]cell, len(a.cfg.Resources))})
	}
	t := &a.tasks[n]
	a.nextID++
	cells := t.cells
	*t = task{id: a.nextID, gen: t.gen + 1, place: int32(len(a.alive)), load: load, guest: guest, program: p, started: a.engine.Now(), cells: cells, opStart: a.engine.Now()}
	for r := range cells {
		cells[r] = cell{waitingSince: culprit.Unset, heldSince: culprit.Unset}
	}
	if load >= 0 {
		t.chance = a.chance[load].work
	} else {
		t.chance = sim.Chance(a.cfg.Seed, guestStream, int(guest))
	}
	a.alive = append(a.alive, n)
	a.opStart(n)
}

// opStart begins the present operation, and those after it that take no time.
func (a *app) opStart(n int32) {
	for {
		t := &a.tasks[n]
		if t.op == len(t.program.Ops) {
			t.op = 0
			if t.round++; t.round >= max(t.program.Times, 1) {
				a.finish(n, true)
				return
			}
		}
		o := &t.program.Ops[t.op]
		t.opStart, t.opTime, t.state = a.engine.Now(), 0, running
		switch o.Do {
		case Run, Rest:
			if o.Do == Rest {
				t.state = resting
			}
			a.takeTime(n, o.draw(t.chance))
			return
		case Work:
			a.work(n, o.Resource, o.draw(t.chance))
			return
		case Touch:
			t.left = o.Units
			a.touch(n)
			return
		case Acquire:
			if !a.acquire(n, o.Resource, o.Shared) {
				return
			}
		case Release:
			a.release(n, o.Resource)
		}
		a.tasks[n].op++
	}
}

// takeTime ends the present operation after d.
func (a *app) takeTime(n int32, d time.Duration) {
	t := &a.tasks[n]
	t.opTime = d
	a.engine.At(a.engine.Now().Add(d), event{what: timeUp, n: n, gen: t.gen})
}

// opDone ends the present operation and begins the next.
func (a *app) opDone(n int32) {
	t := &a.tasks[n]
	o := &t.program.Ops[t.op]
	t.done += o.Time
	if o.Do == Touch && t.left > 0 {
		a.touch(n)
		return
	}
	t.op++
	a.opStart(n)
}

// finish ends a task; ok tells that it did all of its work.
func (a *app) finish(n int32, ok bool) {
	now := a.engine.Now()
	for r := range a.cfg.Resources {
		a.leave(n, r)
	}
	t := &a.tasks[n]
	last := a.alive[len(a.alive)-1]
	a.alive[t.place] = last
	a.tasks[last].place = t.place
	a.alive = a.alive[:len(a.alive)-1]
	a.free = append(a.free, n)
	t.gen++
	a.report.TaskTime += now.Sub(t.started)
	if t.guest >= 0 {
		if g := &a.cfg.Guests[t.guest]; g.Again > 0 {
			a.engine.At(now.Add(g.Again), event{what: begin, n: t.guest})
		}
		return
	}
	if ok {
		a.finished.Count++
		a.finished.Timed++
		if now.Sub(t.started) > a.cfg.Objective {
			a.finished.Late++
		}
		if now >= mono.Time(a.cfg.From) {
			a.report.Done++
		}
		a.measure(t, now)
	}
	if a.cfg.Loads[t.load].Clients > 0 {
		a.arriveNext(t.load, now)
	}
}

// measure counts the latency of a request that started in the measured time.
func (a *app) measure(t *task, now mono.Time) {
	took := now.Sub(t.started)
	if t.load >= 0 && t.started >= mono.Time(a.cfg.From) {
		a.latency.Add(took)
	}
	if t.load >= 0 && a.cfg.Trace {
		a.report.Requests = append(a.report.Requests, Request{t.started, took})
	}
}

func (a *app) end() *Report {
	for _, n := range a.alive {
		t := &a.tasks[n]
		a.report.TaskTime += mono.Time(a.cfg.End).Sub(t.started)
		if t.load >= 0 && mono.Time(a.cfg.End).Sub(t.started) > a.cfg.Objective {
			a.measure(t, mono.Time(a.cfg.End))
		}
	}
	a.report.Rate = float64(a.report.Done) / (a.cfg.End - a.cfg.From).Seconds()
	a.report.P99 = a.latency.Quantile(0.99)
	return &a.report
}
