package wild

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// The ranges of what a random world is drawn from; most is drawn evenly in the
// logarithm. Capacities are bounded so that a world has enough answers to compare two
// policies by, and not so many that it takes minutes.
const (
	leastObjective, mostObjective = 20 * ms, time.Second
	leastService, mostService     = 0.01, 0.5 // mean, of the objective
	leastCapacity, mostCapacity   = 25, 1500  // requests/s
	mostWorkers                   = 64
	mostClients                   = 200
	anyWarmup                     = 3 * time.Second
	anyAnswers                    = 2000 // after the warm-up, at the capacity
	anyLength                     = 8 * time.Second
)

// drawn is a random world.
type drawn struct {
	scene
	// n is how many requests the scarce service works on at a time, mean how long one
	// takes.
	n    int
	mean time.Duration
	held int    // long polls beside them
	text string // what was drawn
}

// anyWorld returns the world of a seed, with all of its numbers drawn by chance.
func anyWorld(seed uint64) drawn {
	d := newDie(seed, 0x77696c64)
	w := &world.World{Name: fmt.Sprintf("world %d", seed), Warmup: anyWarmup, Objective: d.within(leastObjective, mostObjective)}
	out := drawn{scene: scene{world: w}}
	var says []string
	say := func(format string, args ...any) { says = append(says, fmt.Sprintf(format, args...)) }

	say("%v", w.Objective)
	out.service(&d, w, say)
	capacity := out.clients(&d, w, asks(w.Services[0].Name), say)
	out.load(&d, w, say)
	if fault := d.trouble(w, w.Services[len(w.Services)-1].Name); fault != "" {
		say("%s", fault)
	}
	out.end(&d, capacity, says)
	return out
}

// end draws the way to the service, and has the world go on until there are enough answers.
func (o *drawn) end(d *die, capacity float64, says []string) {
	w := o.world
	w.Network.Delay = min(d.within(50*time.Microsecond, 5*ms), w.Objective/20).Round(time.Microsecond)
	window := max(anyLength, time.Duration(anyAnswers/capacity*float64(time.Second)))
	w.Length = (anyWarmup + window).Round(time.Second)
	o.text = strings.Join(says, ", ")
}

// newDie returns the chance of a seed, another one for each kind of world.
func newDie(seed, kind uint64) die { return die{rand.New(rand.NewPCG(seed, kind))} }

// die is a source of chance.
type die struct{ *rand.Rand }

// one reports true once in n times.
func (d *die) one(n int) bool { return d.IntN(n) == 0 }

// float draws from a range, evenly in the logarithm.
func (d *die) float(least, most float64) float64 {
	return least * math.Pow(most/least, d.Float64())
}

func (d *die) within(least, most time.Duration) time.Duration {
	return time.Duration(d.float(float64(least), float64(most))).Round(10 * time.Microsecond)
}

// shape draws a distribution.
func (d *die) shape(mean time.Duration) (*world.Draw, string) {
	switch d.IntN(6) {
	case 0:
		return &world.Draw{Mean: mean}, "constant"
	case 1, 2:
		return &world.Draw{Shape: world.Exponential, Mean: mean}, "exponential"
	case 3:
		sigma := math.Round(10*d.float(0.3, 1.5)) / 10
		return &world.Draw{Shape: world.Lognormal, Mean: mean, Param: sigma}, fmt.Sprintf("lognormal %v", sigma)
	case 4:
		index := math.Round(10*d.float(1.5, 3)) / 10
		return &world.Draw{Shape: world.Pareto, Mean: mean, Param: index}, fmt.Sprintf("Pareto %v", index)
	}
	share, times := d.float(0.01, 0.2), d.float(5, 30)
	usual := float64(mean) / (1 + share*(times-1))
	return &world.Draw{Shape: world.Weighted, Spread: true, Points: []world.Point{{Value: time.Duration(usual), Weight: 1 - share},
		{Value: time.Duration(usual * times), Weight: share}}}, fmt.Sprintf("%.2g of them %.0f times as long", share, times)
}

// service draws the scarce service, and perhaps one in front of it that only calls it.
func (o *drawn) service(d *die, w *world.World, say func(string, ...any)) {
	s := world.Service{Name: "service", Deaf: d.one(2)}
	computes := d.one(3)
	o.n = int(d.float(1, mostWorkers+0.999))
	if computes {
		o.n = 1 + d.IntN(4)
	}
	mean := d.float(leastService, mostService) * w.Objective.Seconds()
	mean = min(max(mean, float64(o.n)/mostCapacity), float64(o.n)/leastCapacity, mostService*w.Objective.Seconds())
	o.n = min(o.n, max(int(mostCapacity*mean), 1))
	o.mean = time.Duration(mean * float64(time.Second)).Round(10 * time.Microsecond)
	draw, shape := d.shape(o.mean)
	step := world.Step{Wait: draw}
	place := "workers"
	if computes {
		w.Hosts = []world.Host{{Name: "box", Processors: o.n}}
		s.Host, step, place = "box", world.Step{Compute: draw}, "processors"
	} else {
		s.Workers = o.n
	}
	s.Methods = does(step)
	w.Services = []world.Service{s}
	say("%d %s of %v, %s", o.n, place, o.mean, shape)
	if s.Deaf {
		say("deaf")
	}
	if !computes && d.one(4) {
		entry := world.Service{Name: "entry", Methods: does(waits(o.mean/10), calls("service"))}
		w.Services = []world.Service{entry, s}
		say("called by another")
	}
}

// clients draws who asks, and returns the capacity for what they ask.
func (o *drawn) clients(d *die, w *world.World, ask []world.Ask, say func(string, ...any)) float64 {
	g := world.Group{Name: "clients", Clients: int(d.float(1, mostClients)), Ask: ask, Load: times(1)}
	kind := "credits"
	if d.one(2) {
		g.Kind, kind = world.Plain, "plain"
	}
	say("%d clients (%s)", g.Clients, kind)
	if waits := d.patience(&g, w.Objective); waits != "" {
		say("%s", strings.TrimPrefix(waits, ", "))
	}
	w.Clients = []world.Group{g}
	return w.WithDefaults().Capacity(0)
}

// load draws how much is asked for.
func (o *drawn) load(d *die, w *world.World, say func(string, ...any)) {
	round := func(x float64) float64 { return math.Round(20*x) / 20 }
	load := &w.Clients[0].Load
	switch usual := round(d.float(0.4, 0.8)); d.IntN(4) {
	case 0:
		load.Steps = []world.Rate{{Times: usual}}
		say("%vx", usual)
	case 1:
		high := round(d.float(1.1, 6))
		load.Steps = []world.Rate{{Times: high}}
		say("%vx", high)
	case 2:
		high := round(d.float(1.3, 6))
		load.Steps = []world.Rate{{Times: usual}, {At: 5 * time.Second, Times: high, For: 2 * time.Second, Every: 5 * time.Second}}
		say("%vx, 2 s of %vx every 5 s", usual, high)
	case 3:
		high := round(d.float(2, 8))
		load.Steps = []world.Rate{{Times: usual / 2}, {At: 100 * ms, Times: high, For: 100 * ms, Every: time.Second}}
		say("%vx, 100 ms of %vx each second", usual/2, high)
	}
}

// patience draws how long callers wait, and whether they try again.
func (d *die) patience(g *world.Group, objective time.Duration) string {
	says := ""
	if waits := []float64{1, 1, 2, 5, -1}[d.IntN(5)]; waits < 0 {
		g.Deadline = -1
		says = ", who wait for ever"
	} else if waits > 1 {
		g.Deadline = time.Duration(waits) * objective
		says = fmt.Sprintf(", who wait %v objectives", waits)
	}
	if d.one(4) {
		g.Retry = world.Retry{Attempts: 3, Backoff: objective / 10, Stubborn: d.one(2)}
		says += ", two retries"
	}
	return says
}

// trouble draws what goes wrong at a service, in half of the worlds nothing.
func (d *die) trouble(w *world.World, at string) string {
	switch d.IntN(6) {
	case 0, 1:
		f := world.Fault{At: 4 * time.Second, For: 3 * time.Second, Every: 7 * time.Second, Service: at, Slower: math.Round(10*d.float(1.5, 10)) / 10}
		w.Faults = []world.Fault{f}
		return fmt.Sprintf("%s is %v times slower for 3 s of 7", at, f.Slower)
	case 2:
		f := world.Fault{At: 4 * time.Second, For: d.within(50*ms, 500*ms), Every: 3 * time.Second, Service: at, Stop: true}
		w.Faults = []world.Fault{f}
		return fmt.Sprintf("%s stops for %v every 3 s", at, f.For)
	}
	return ""
}
