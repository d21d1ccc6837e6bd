package wild

import (
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/worlds"
)

// workers is how many requests the server works on at a time.
const workers = 8

// row is one world of the table.
type row struct {
	name    string
	world   *world.World
	service time.Duration // of a request, on average
	// held is how many requests at once need no worker: a semaphore that is told of
	// the workers alone is then not the best.
	held int
	// judged are the parts of the run that are.
	judged []span
	// changes are when the world changes: the seconds after them are judged apart.
	changes []time.Duration
}

// span is a part of a run.
type span struct{ from, to time.Duration }

// A ratio of what two policies answered in time varies by chance with the square root of their number:
// of 20 seeds the one semaphore that is best over all of them is short of the best of six on its worst
// seed by 1.5/√n. So a steady world is judged over answered requests, at its capacity, or leastWindow;
// where a hundredth of the requests is half of the work, that many times as long; and what becomes
// slower does so again and again, until there are slowAnswers or maxRounds.
const (
	answered    = 5000
	leastWindow = 10 * time.Second
	spreadOut   = 3
	slowAnswers = 3500
	maxRounds   = 12
)

// base is a row of steady load, in multiples of the capacity.
func base(objective, service time.Duration, shape worlds.Shape, load float64) row {
	w := worlds.Single("", objective, workers, shape.Draw(service), 20, worlds.Times(load))
	// The handlers do not look at their contexts.
	w.Services[0].Deaf = true
	w.Network.Delay = 250 * time.Microsecond
	return row{world: w, service: service}
}

// capacity is that of the row's workers, in requests/s.
func (r *row) capacity() float64 { return workers / r.service.Seconds() }

// steady judges a world from its third second on, several times as long as others.
func steady(name string, r row, times int) row {
	const begin = 3 * time.Second
	window := max(leastWindow, time.Duration(math.Ceil(answered/r.capacity()))*time.Second) * time.Duration(times)
	r.name, r.world.Name, r.world.Length = name, name, begin+window
	r.judged = []span{{begin, begin + window}}
	return r
}

// rows returns every world; quick leaves out those between others.
func rows(quick bool) []row {
	var all []row
	shares := []int{10, 20, 33, 40, 50, 60, 67, 75}
	factors := []float64{2, 4, 6, 8, 10, 20}
	deadlines := []float64{1, 1.5, 2, 3, 5, -1}
	if quick {
		shares, factors, deadlines = []int{20, 50, 75}, []float64{4, 8}, []float64{1, 5, -1}
	}
	for _, shape := range []worlds.Shape{worlds.Constant, worlds.Exponential} {
		for _, percent := range shares {
			const objective = 200 * time.Millisecond
			all = append(all, steady(fmt.Sprintf("%v service of %d %% of the objective, 2x", shape, percent),
				base(objective, objective*time.Duration(percent)/100, shape, 2), 1))
		}
	}
	for _, d := range deadlines {
		w := base(200*time.Millisecond, 10*time.Millisecond, worlds.Exponential, 3)
		w.world.Clients[0].Deadline = time.Duration(d * float64(w.world.Objective))
		name := fmt.Sprintf("callers wait %v objectives, 3x", d)
		if d < 0 {
			name = "callers wait for ever, 3x"
		}
		all = append(all, steady(name, w, 1))
	}
	for _, load := range []float64{1, 2} {
		all = append(all, steady(fmt.Sprintf("1 %% of the requests take 100 times as long, %vx", load),
			base(100*time.Millisecond, 10*time.Millisecond, worlds.Rare, load), spreadOut))
	}
	for _, load := range []float64{1.5, 3} {
		all = append(all, steady(fmt.Sprintf("Pareto 1.5, %vx", load), base(200*time.Millisecond, 10*time.Millisecond, worlds.Pareto, load), spreadOut))
	}
	all = append(all, polls(8, 2*time.Second), polls(64, 10*time.Second))
	for _, f := range factors {
		all = append(all, slowdown(f))
	}
	all = append(all, bursts(), stalls(), calm())
	return all
}

// polls are requests that wait without a worker beside half the capacity of short
// ones.
func polls(n int, long time.Duration) row {
	r := base(100*time.Millisecond, 10*time.Millisecond, worlds.Exponential, 0.5)
	s := &r.world.Services[0]
	s.Methods = append(s.Methods, world.Method{Name: "poll", Idle: true, Steps: []world.Step{{Wait: &world.Draw{Mean: long}}}})
	r.world.Clients[0].Deadline = -1
	r.world.Clients = append(r.world.Clients, world.Group{Name: "pollers", Clients: n, Deadline: -1,
		Ask:  []world.Ask{{Target: world.Target{Service: s.Name, Method: "poll"}}},
		Load: world.Load{Steps: []world.Rate{{PerSecond: float64(n) / long.Seconds()}}}})
	r = steady(fmt.Sprintf("%d long polls of %v beside 0.5x", n, long), r, 1)
	r.held = n
	return r
}

func slowdown(factor float64) row {
	const at, lasts, every = 5 * time.Second, 6 * time.Second, 9 * time.Second
	r := base(200*time.Millisecond, 10*time.Millisecond, worlds.Exponential, 0.7)
	rounds := min(int(math.Ceil(slowAnswers*factor/(r.capacity()*lasts.Seconds()))), maxRounds)
	r.name = fmt.Sprintf("%v times slower for 6 s, 0.7x", factor)
	r.world.Name, r.world.Length = r.name, at+time.Duration(rounds)*every
	r.world.Faults = []world.Fault{{At: at, For: lasts, Every: every, Service: r.world.Services[0].Name, Slower: factor}}
	for i := range rounds {
		change := at + time.Duration(i)*every
		r.changes = append(r.changes, change)
		r.judged = append(r.judged, span{change, change + lasts})
	}
	return r
}

func bursts() row {
	r := base(100*time.Millisecond, 10*time.Millisecond, worlds.Exponential, 0.3)
	r.world.Clients[0].Load.Steps = append(r.world.Clients[0].Load.Steps,
		world.Rate{At: 900 * time.Millisecond, Times: 5, For: 100 * time.Millisecond, Every: time.Second})
	return steady("0.3x with 100 ms of 5x each second", r, 1)
}

func stalls() row {
	r := base(300*time.Millisecond, 10*time.Millisecond, worlds.Exponential, 0.8)
	r.world.Faults = []world.Fault{{At: 2 * time.Second, For: 150 * time.Millisecond, Every: 2 * time.Second, Service: r.world.Services[0].Name, Stop: true}}
	return steady("all stops for 150 ms every 2 s, 0.8x", r, 1)
}

// calm is no overload at all: a refusal is a mistake.
func calm() row {
	return steady("no overload, 0.7x", base(100*time.Millisecond, 10*time.Millisecond, worlds.Exponential, 0.7), 1)
}
