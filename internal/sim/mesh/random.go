package mesh

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/sim"
)

// Graph says what call graphs Random draws. Zero fields take the default named
// in their comment.
type Graph struct {
	// Services and Workflows are how many. Defaults 20 and 5.
	Services, Workflows int
	// Processes is the most processes of a service. Default 4.
	Processes int
	// FanOut is the most kinds of call that one stage makes. Default 3.
	FanOut int
	// Depth is the most stages from the entry to a leaf. Default 4.
	Depth int
	// Stages bounds the stages of one workflow. Default 32.
	Stages int
	// Shared is the probability that a call goes to one of the few services that
	// all use, as a store. Default 0.3; negative: 0.
	Shared float64
	// Cache is the probability that a call to them is skipped. Default 0.2;
	// negative: 0.
	Cache float64
	// Mean is the mean of the services' mean times. Default 2 ms.
	Mean time.Duration
	// Load is the utilisation of the busiest resource that the offered load
	// amounts to. Default 0.5.
	Load float64
}

func (g *Graph) withDefaults() {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&g.Services, 20)
	set(&g.Workflows, 5)
	set(&g.Processes, 4)
	set(&g.FanOut, 3)
	set(&g.Depth, 4)
	set(&g.Stages, 32)
	if g.Shared == 0 {
		g.Shared = 0.3
	}
	if g.Cache == 0 {
		g.Cache = 0.2
	}
	if g.Mean <= 0 {
		g.Mean = 2 * time.Millisecond
	}
	if !(g.Load > 0) {
		g.Load = 0.5
	}
}

// headroom of services at random: calls come to them in batches, a quarter of them have
// a single worker in each process, and at half of its capacity such a process keeps 99 %
// of its answers within ten service times only if calls come one by one.
const headroom = 20

// Random returns the services, the workflows and the clients of a seed. There are
// no cycles: a service calls services of higher numbers only, and the shared ones
// have the highest. The caller adds the Length, and a Control.
func Random(seed uint64, g Graph) Config {
	g.withDefaults()
	d := drawer{g: g, rng: sim.Chance(seed, 0, 0)}
	cfg := Config{Seed: seed, Headroom: headroom}
	for i := range g.Services {
		cfg.Services = append(cfg.Services, Service{
			Name:      fmt.Sprint("s", i),
			Processes: 1 + d.rng.IntN(g.Processes),
			Resources: []Resource{{"workers", 1 + d.rng.IntN(4)}},
			Pick:      Pick(d.rng.IntN(int(LeastOutstanding) + 1)),
		})
		d.mean = append(d.mean, time.Duration(float64(g.Mean)*(0.5+d.rng.Float64())))
	}
	d.load = make([]float64, g.Services)
	// Entries are in the first third, so that there is something to call.
	entries := max(g.Services/3, 1)
	mix := []Part{}
	for i := range g.Workflows {
		name := fmt.Sprint("w", i)
		weight := 0.2 + d.rng.Float64()
		d.left = g.Stages - 1
		f := Workflow{Name: name, Root: d.stage(d.rng.IntN(entries), g.Depth, weight)}
		f.Deadline.Multiple = 2 + 8*d.rng.Float64()
		cfg.Workflows = append(cfg.Workflows, f)
		mix = append(mix, Part{name, weight})
	}
	busiest, weights := 0.0, 0.0
	for i, load := range d.load {
		s := &cfg.Services[i]
		busiest = math.Max(busiest, load/float64(s.Processes*s.Resources[0].Capacity))
	}
	for _, p := range mix {
		weights += p.Weight
	}
	rate := weights * g.Load / math.Max(busiest, 1e-9)
	cfg.Groups = []Group{{Name: "all", Mix: mix, Load: Constant(rate), Clients: 1 + d.rng.IntN(8)}}
	return cfg
}

// drawer draws one call graph.
type drawer struct {
	g    Graph
	rng  *rand.Rand
	mean []time.Duration
	load []float64 // work per service, in seconds, summed over weights
	left int       // stages of the present workflow
}

// stage draws a stage at a service that is reached weight times.
func (d *drawer) stage(service, depth int, weight float64) Stage {
	mean := d.mean[service]
	d.load[service] += weight * mean.Seconds()
	steps := []Step{Work(Exp(mean))}
	shared := max(d.g.Services-max(d.g.Services/10, 1), 0) // the first shared one
	kinds := 0
	if depth > 1 && service < shared {
		kinds = d.rng.IntN(d.g.FanOut + 1)
	}
	var calls []Call
	for range kinds {
		if d.left == 0 {
			break
		}
		d.left--
		c := Call{Min: 1, Max: 1}
		callee := service + 1 + d.rng.IntN(d.g.Services-service-1)
		if d.rng.Float64() < d.g.Shared {
			callee = shared + d.rng.IntN(d.g.Services-shared)
			c.Skip = math.Max(d.g.Cache, 0)
		}
		if d.rng.Float64() < 0.2 {
			c.Max = 1 + d.rng.IntN(4)
		}
		often := weight * float64(c.Min+c.Max) / 2 * (1 - c.Skip)
		c.Stage = d.stage(callee, depth-1, often)
		calls = append(calls, c)
	}
	if len(calls) > 0 {
		steps = append(steps, Step{Calls: calls, Parallel: d.rng.IntN(2) == 0})
	}
	return Stage{Service: fmt.Sprint("s", service), Steps: steps}
}
