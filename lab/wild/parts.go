package wild

import (
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The ranges of what a service of several parts is drawn from.
const (
	mostParts, mostMethods, mostSteps = 3, 4, 3
	mostPermits                       = 32
	leastStep, mostStep               = 0.002, 0.2 // mean, of the objective
	mostAlone                         = 0.5        // how long a request takes if no other runs, of the objective
	mostPolls                         = 40
)

// anyParts returns the world of a seed in which requests of several methods need several things inside one service, each
// of them not all: a key that is locked, a pool of connections, a shard, the processors. Which of these is scarce depends on
// who asks for what, and no limit on all of the requests is right for each of them.
func anyParts(seed uint64) drawn {
	d := newDie(seed, 0x70617274)
	w := &world.World{Name: fmt.Sprintf("service %d", seed), Warmup: anyWarmup, Objective: d.within(leastObjective, mostObjective)}
	out := drawn{scene: scene{world: w}}
	var says []string
	say := func(format string, args ...any) { says = append(says, fmt.Sprintf(format, args...)) }

	s := d.parts(w, say)
	ask := d.methods(w, s, say)
	w.Services = []world.Service{*s}
	capacity := out.fit(out.clients(&d, w, ask, say))
	say("objective %v, %.0f/s", w.Objective, capacity)
	out.n = max(int(capacity*w.Objective.Seconds()), 1)
	out.mean = time.Duration(float64(out.n) / capacity * float64(time.Second))
	out.load(&d, w, say)
	if d.one(6) {
		out.polls(&d, w, say)
	}
	out.end(&d, capacity, says)
	return out
}

// parts draws what the requests of a service need: workers, processors and locks.
func (d *die) parts(w *world.World, say func(string, ...any)) *world.Service {
	s := &world.Service{Name: "service", Deaf: d.one(2)}
	if d.one(2) {
		s.Workers = int(d.float(4, 4*mostPermits))
		say("%d workers", s.Workers)
	}
	if d.one(2) {
		s.Host = "box"
		w.Hosts = []world.Host{{Name: s.Host, Processors: 1 + d.IntN(4)}}
		say("%d processors", w.Hosts[0].Processors)
	}
	for i := range 1 + d.IntN(mostParts) {
		l := world.Lock{Name: string(rune('a' + i)), Permits: 1}
		if !d.one(3) {
			l.Permits = int(d.float(2, mostPermits+0.999))
		}
		s.Locks = append(s.Locks, l)
		say("%s of %d", l.Name, l.Permits)
	}
	return s
}

// methods draws what is asked for, and how often.
func (d *die) methods(w *world.World, s *world.Service, say func(string, ...any)) (ask []world.Ask) {
	for i := range 1 + d.IntN(mostMethods) {
		m := world.Method{Name: fmt.Sprintf("m%d", i+1)}
		weight := 1 + d.IntN(20)
		room := mostAlone * w.Objective.Seconds()
		var does []string
		for range 1 + d.IntN(mostSteps) {
			mean := min(d.float(leastStep, mostStep)*w.Objective.Seconds(), room)
			if room -= mean; mean < leastStep*w.Objective.Seconds() {
				break
			}
			draw, shape := d.shape(time.Duration(mean * float64(time.Second)).Round(10 * time.Microsecond))
			step, what := world.Step{Wait: draw}, "waits"
			if s.Host != "" && d.one(2) {
				step, what = world.Step{Compute: draw}, "computes"
			}
			if i == 0 && len(m.Steps) == 0 || d.one(3) { // one of them needs a lock at least
				step.Lock = s.Locks[d.IntN(len(s.Locks))].Name
				what += " with " + step.Lock
			}
			m.Steps = append(m.Steps, step)
			does = append(does, fmt.Sprintf("%s %.2g %s", what, mean/w.Objective.Seconds(), shape))
		}
		s.Methods = append(s.Methods, m)
		ask = append(ask, world.Ask{Target: world.Target{Service: s.Name, Method: m.Name}, Weight: float64(weight)})
		say("%d: %s", weight, strings.Join(does, ", "))
	}
	return ask
}

// fit has all times of a world that can do capacity pass faster or slower, so that it can do as much as others, and returns
// what it can do then.
func (o *drawn) fit(capacity float64) float64 {
	w := o.world
	by := max(min(capacity, mostCapacity), leastCapacity) / capacity
	stretch := func(t *time.Duration) { *t = time.Duration(float64(*t) / by).Round(10 * time.Microsecond) }
	stretch(&w.Objective)
	stretch(&w.Clients[0].Retry.Backoff)
	if w.Clients[0].Deadline > 0 {
		stretch(&w.Clients[0].Deadline)
	}
	for _, m := range w.Services[0].Methods {
		for i := range m.Steps {
			for _, draw := range []*world.Draw{m.Steps[i].Wait, m.Steps[i].Compute} {
				if draw == nil {
					continue
				}
				stretch(&draw.Mean)
				for k := range draw.Points {
					stretch(&draw.Points[k].Value)
				}
			}
		}
	}
	return capacity * by
}

// polls draws long polls beside the requests, whose answers take longer than the objective by nature.
func (o *drawn) polls(d *die, w *world.World, say func(string, ...any)) {
	n, long := 1+d.IntN(mostPolls), time.Duration(d.float(3, 30)*float64(w.Objective)).Round(ms)
	s := &w.Services[0]
	s.Methods = append(s.Methods, world.Method{Name: "poll", Idle: true, Steps: []world.Step{waits(long)}})
	w.Clients = append(w.Clients, world.Group{Name: "polls", Clients: n, Kind: world.Plain, Deadline: -1, Load: world.Load{Users: n},
		Ask: []world.Ask{{Target: world.Target{Service: s.Name, Method: "poll"}}}})
	o.first, o.held = true, n
	say("%d polls of %v", n, long)
}

// ofParts are the semaphores of which the best is chosen for a service of several parts in hindsight: up to twice as
// many requests as are served within an objective, and the long polls, each with no queue, one of as many, and one of half
// of an objective.
func ofParts(d *drawn) (names []string) {
	for limit := 1; limit <= 2*d.n || limit == 1; limit *= 2 {
		for i, queue := range []int{0, limit, d.n / 2} {
			if i == 0 || queue > 0 && (i == 1 || queue != limit) {
				names = append(names, fmt.Sprintf("semaphore:%d:%d", limit+d.held, queue))
			}
		}
	}
	return names
}

// partsExperiment is wild/parts.
func partsExperiment() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wild/parts",
		Title: "services of several parts whose numbers nobody chose, with only the objective set",
		About: fmt.Sprintf(`Each service is drawn from a seed: workers or not, processors or not, and one to %d things of which so many requests hold one
at a time (a locked key, a pool of connections, a shard); up to %d methods, asked for unequally often, of up to %d steps that wait
or compute, with one of these things or without; clients, deadlines, retries and load over time as in wild/random, and in one of
six worlds long polls beside them, which do not count. Some requests wait inside for what others need not. Beside it: adaptive
limits that nobody tunes, and a semaphore with a bounded queue, the best of all powers of two up to twice what is served within an
objective, each with three queues, for each world in hindsight. The worst are listed with their seeds.`,
			mostParts, mostMethods, mostSteps),
		Run: (&kind{anyParts, untuned(adaptive...), ofParts}).play,
	}
}
