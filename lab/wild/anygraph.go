package wild

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// The ranges of what a random call graph is drawn from, beside those of a single service.
const (
	leastServices, mostServices = 2, 7
	leastWay, mostWay           = 0.03, 0.4 // of a request alone through all services, of the objective
	leastRate, mostRate         = 50, 500   // requests/s that the scarcest service can work on
	mostSpare                   = 5         // times as many as the scarcest, at another service
	mostProcessors              = 4
	mostWorkflows               = 3
	mostGroup                   = 50 // clients of a workflow
)

// anyGraph returns the call graph of a seed: services that call each other, with workers of their own or
// on one machine, and workflows that ask for them.
func anyGraph(seed uint64) drawn {
	d := newDie(seed, 0x67726170)
	w := &world.World{Name: fmt.Sprintf("graph %d", seed), Warmup: anyWarmup, Objective: d.within(leastObjective, mostObjective)}
	g := graph{die: &d, world: w, rate: d.float(leastRate, mostRate), shares: d.one(3)}
	g.wire(leastServices + d.IntN(mostServices-leastServices+1))
	says := []string{w.Objective.String(), g.services(), g.workflows()}
	if fault := g.fault(); fault != "" {
		says = append(says, fault)
	}
	w.Network.Delay = min(d.within(50*time.Microsecond, ms), w.Objective/100).Round(time.Microsecond)
	w.Length = (anyWarmup + max(anyLength, time.Duration(anyAnswers/g.rate*float64(time.Second)))).Round(time.Second)
	return drawn{scene: scene{world: w}, text: strings.Join(says, ", ")}
}

// graph is a call graph that is drawn.
type graph struct {
	*die
	world  *world.World
	rate   float64 // requests/s that the scarcest service can work on
	shares bool    // one machine for all services
	nodes  []vertex
}

// vertex is a service of the graph. Times are relative to one another.
type vertex struct {
	own, way float64      // what it works on for a request itself, and with what it calls
	visits   float64      // for a request at the first service
	calls    []world.Step // of the services after it
}

func called(i int) string { return string(rune('a' + i)) }

// wire draws a tree: each service but the first is called by one before it, and perhaps by another one. A
// service calls the others at once or one after the other.
func (g *graph) wire(n int) {
	g.nodes = make([]vertex, n)
	callees := make([][]int, n)
	for i := 1; i < n; i++ {
		by := g.IntN(i)
		callees[by] = append(callees[by], i)
		if other := g.IntN(i); other != by && g.one(5) {
			callees[other] = append(callees[other], i)
		}
	}
	g.nodes[0].visits = 1
	for i, all := range callees {
		for _, c := range all {
			g.nodes[c].visits += g.nodes[i].visits
		}
	}
	for i := n - 1; i >= 0; i-- { // callees come after their callers
		v := &g.nodes[i]
		v.own = g.float(0.1, 1)
		together, longest, sum := g.one(2), 0.0, 0.0
		var all []string
		for _, c := range callees[i] {
			all = append(all, called(c))
			longest, sum = max(longest, g.nodes[c].way), sum+g.nodes[c].way
			if !together {
				v.calls = append(v.calls, calls(called(c)))
			}
		}
		if together && len(all) > 0 {
			v.calls, sum = []world.Step{calls(all...)}, longest
		}
		v.way = v.own + sum
	}
}

// services gives each service its times, and workers or processors that are enough for the rate, in one of
// them just so. A caller keeps its worker meanwhile or not.
func (g *graph) services() string {
	n := len(g.nodes)
	unit := g.float(leastWay, mostWay) * g.world.Objective.Seconds() / g.nodes[0].way // seconds
	place := "with workers"
	if g.shares {
		processors := 1 + g.IntN(mostProcessors)
		g.world.Hosts = []world.Host{{Name: "box", Processors: processors}}
		total := 0.0
		for i := range g.nodes {
			total += g.nodes[i].own * g.nodes[i].visits
		}
		unit = min(unit, float64(processors)/(leastRate*total))
		g.rate = min(g.rate, float64(processors)/(total*unit))
		place = fmt.Sprintf("on %d processors", processors)
	}
	scarce := g.IntN(n)
	for i := range g.nodes {
		g.world.Services = append(g.world.Services, g.service(i, unit, i == scarce))
	}
	return fmt.Sprintf("%d services %s", n, place)
}

func (g *graph) service(i int, unit float64, scarce bool) world.Service {
	v := &g.nodes[i]
	s := world.Service{Name: called(i), Deaf: g.one(2)}
	mean := max(time.Duration(v.own*unit*float64(time.Second)).Round(10*time.Microsecond), 10*time.Microsecond)
	draw, _ := g.shape(mean)
	step := world.Step{Wait: draw}
	if g.shares {
		s.Host, step = "box", world.Step{Compute: draw}
	} else {
		held, spare := v.way, 1.0
		if s.Async = g.one(3); s.Async {
			held = v.own
		}
		if !scarce {
			spare = g.float(1, mostSpare)
		}
		s.Workers = max(int(math.Ceil(g.rate*spare*v.visits*held*unit)), 1)
	}
	s.Methods = does(append([]world.Step{step}, v.calls...)...)
	return s
}

// workflows draws groups of clients, of which the first asks for the first service and the others for any.
// In a quarter of the graphs all of them ask for too much all the time.
func (g *graph) workflows() string {
	n := 1 + g.IntN(mostWorkflows)
	var says []string
	high := g.one(4)
	for i := range n {
		at := 0
		if i > 0 {
			at = g.IntN(len(g.nodes))
		}
		c := world.Group{Name: fmt.Sprintf("workflow %d", i+1), Clients: int(g.float(1, mostGroup)), Ask: asks(called(at))}
		kind := "credits"
		if g.one(2) {
			c.Kind, kind = world.Plain, "plain"
		}
		waits := g.patience(&c, g.world.Objective)
		usual, burst := g.float(0.4, 0.8)/float64(n), g.float(1.3, 6)
		shape := g.IntN(3)
		if high || shape == 0 {
			usual *= burst
		}
		c.Load.Steps = []world.Rate{{Times: usual}}
		much := fmt.Sprintf("%.2fx", usual)
		if !high && shape == 1 {
			c.Load.Steps = append(c.Load.Steps, world.Rate{At: 5 * time.Second, Times: burst, For: 2 * time.Second, Every: 5 * time.Second})
			much += fmt.Sprintf(" and %.2fx for 2 s of 5", burst)
		}
		g.world.Clients = append(g.world.Clients, c)
		says = append(says, fmt.Sprintf("%d clients (%s%s) ask %s for %s", c.Clients, kind, waits, called(at), much))
	}
	return strings.Join(says, ", ")
}

// fault draws what goes wrong, in half of the graphs nothing.
func (g *graph) fault() string {
	return g.trouble(g.world, called(g.IntN(len(g.nodes))))
}
