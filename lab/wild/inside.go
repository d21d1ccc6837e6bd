package wild

import (
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The ranges of handlers: how long they compute and wait, in parts of the objective, and how many processors and how
// many connections to what they wait for they have.
const (
	leastCompute, mostCompute  = 0.0005, 0.05
	leastWait, mostWait        = 0.01, 0.4
	mostCores, mostConnections = 4, 16
	mostHandled                = mostCapacity
)

// insideWorld returns the world of a seed in which the gate is in the process of the service, as in most Go services:
// handlers compute a little, and most then wait for something on another machine, some of them for one of a few
// connections to it.
func insideWorld(seed uint64) drawn {
	d := newDie(seed, 0x696e7369)
	w := &world.World{Name: fmt.Sprintf("service %d", seed), Warmup: anyWarmup, Objective: d.within(leastObjective, mostObjective)}
	out := drawn{scene: scene{world: w}}
	var says []string
	say := func(format string, args ...any) { says = append(says, fmt.Sprintf(format, args...)) }

	say("%v", w.Objective)
	alone := out.handler(&d, w, say)
	capacity := out.clients(&d, w, asks(w.Services[0].Name), say)
	out.n = max(int(math.Ceil(capacity*alone.Seconds())), w.Hosts[0].Processors)
	out.mean = time.Duration(float64(out.n) / capacity * float64(time.Second))
	out.load(&d, w, say)
	out.end(&d, capacity, says)
	return out
}

// handler draws the service, and returns how long a request takes if no other runs.
func (o *drawn) handler(d *die, w *world.World, say func(string, ...any)) time.Duration {
	processors := 1 + d.IntN(mostCores)
	w.Hosts = []world.Host{{Name: "box", Processors: processors}}
	computes := max(time.Duration(d.float(leastCompute, mostCompute)*float64(w.Objective)), time.Duration(processors)*time.Second/mostHandled).Round(10 * time.Microsecond)
	draw, shape := d.shape(computes)
	say("%d processors, computes %v, %s", processors, computes, shape)
	s := world.Service{Name: "service", Host: "box"}
	steps := []world.Step{{Compute: draw}}
	alone := computes
	if !d.one(5) {
		waits := time.Duration(d.float(leastWait, mostWait) * float64(w.Objective)).Round(10 * time.Microsecond)
		draw, shape := d.shape(waits)
		step := world.Step{Wait: draw}
		say("waits %v, %s", waits, shape)
		if d.one(2) {
			pool := int(d.float(2, mostConnections+0.999))
			s.Locks = []world.Lock{{Name: "pool", Permits: pool}}
			step.Lock = "pool"
			say("for one of %d connections", pool)
		}
		steps = append(steps, step)
		alone += waits
	}
	s.Methods = does(steps...)
	w.Services = []world.Service{s}
	return alone
}

// insideExperiment is wild/inside.
func insideExperiment() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wild/inside",
		Title: "gates in the processes of services whose numbers nobody chose, with only the objective set",
		About: fmt.Sprintf(`Each service is drawn from a seed, and its gate is in its process: handlers compute for %v to %v of the objective on one to
%d processors, and most then wait for %v to %v of it, some for one of up to %d connections; clients, deadlines, retries and load
over time are drawn as in wild/random. What the gate lets in keeps the processors busy that tell it what it may let in. Beside
it: adaptive limits that nobody tunes, and a semaphore with a bounded queue that is told how many requests keep the service busy,
the best of up to eighteen for each in hindsight. The worst are listed with their seeds.`,
			leastCompute, mostCompute, mostCores, leastWait, mostWait, mostConnections),
		Run: (&kind{insideWorld, untuned(adaptive...), byHand}).play,
	}
}
