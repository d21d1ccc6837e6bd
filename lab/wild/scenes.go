package wild

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

const ms = time.Millisecond

// onHost and atWorkers are the semaphores that are tried where processors are scarce,
// and where workers are.
var (
	onHost    = []string{"semaphore:4:8", "semaphore:8:16", "semaphore:12:12", "semaphore:16:32", "semaphore:32", "semaphore:32:64", "semaphore:64"}
	atWorkers = []string{"semaphore:8", "semaphore:8:4", "semaphore:8:8", "semaphore:8:16", "semaphore:8:32"}
)

// scenes returns every described world; quick leaves out those between others.
func scenes(quick bool) []scene {
	var all []scene
	loads := []float64{0.3, 0.45, 0.7, 1.2, 2, 4}
	if quick {
		loads = []float64{0.45, 2}
	}
	for processors := 1; processors <= 2; processors++ {
		for _, load := range loads {
			all = append(all, shared(processors, load))
		}
		all = append(all, sharedLoop(processors))
	}
	all = append(all, handlers(1500*time.Microsecond, 8*ms, 0.7))
	for _, load := range []float64{1, 2} {
		all = append(all, handlers(1500*time.Microsecond, 8*ms, load), handlers(1500*time.Microsecond, 50*ms, load), handlers(10*ms, 50*ms, load))
	}
	all = append(all, contention(quick)...)
	return append(all, cheap(2), cheap(4), retries(), fanOut(), givenUp(world.Constant), givenUp(world.Exponential), weighted(world.Plain), weighted(world.Credits), ramp(),
		slowReplica(0.8), slowReplica(1.5), burstsOf(), oneGate(world.Plain), oneGate(world.Credits), store(world.Plain), store(world.Credits),
		neighbour(), stages(95), stages(800), lockFirst(350), lockFirst(1000), misses())
}

func target(service string) world.Target { return world.Target{Service: service, Method: "do"} }

func asks(service string) []world.Ask { return []world.Ask{{Target: target(service)}} }

func computes(mean time.Duration) world.Step {
	return world.Step{Compute: &world.Draw{Shape: world.Exponential, Mean: mean}}
}

func waits(mean time.Duration) world.Step {
	return world.Step{Wait: &world.Draw{Shape: world.Exponential, Mean: mean}}
}

func calls(services ...string) world.Step {
	var s world.Step
	for _, name := range services {
		s.Call = append(s.Call, target(name))
	}
	return s
}

func does(steps ...world.Step) []world.Method { return []world.Method{{Name: "do", Steps: steps}} }

func times(load float64) world.Load { return world.Load{Steps: []world.Rate{{Times: load}}} }

// plot is what the scenes have in common: twenty clients with wallets, some warm-up.
func plot(name string, objective time.Duration, services []world.Service, load world.Load) *world.World {
	return &world.World{
		Name: name, Objective: objective, Warmup: 3 * time.Second, Length: 10 * time.Second, Services: services,
		Network: world.Network{Delay: 100 * time.Microsecond},
		Clients: []world.Group{{Name: "clients", Clients: 20, Ask: asks(services[0].Name), Load: load}},
	}
}

// tree is five services on one machine, each of which computes for a fifth of a
// millisecond: an entry that calls two, one of which calls two more.
func tree(processors int, name string, load world.Load) *world.World {
	const each = 200 * time.Microsecond
	leaf := func(name string) world.Service {
		return world.Service{Name: name, Host: "box", Methods: does(computes(each))}
	}
	w := plot(name, 100*ms, []world.Service{
		{Name: "entry", Host: "box", Methods: does(computes(each/2), calls("left", "right"), computes(each/2))},
		{Name: "left", Host: "box", Methods: does(computes(each), calls("one", "two"))},
		leaf("right"), leaf("one"), leaf("two"),
	}, load)
	w.Hosts = []world.Host{{Name: "box", Processors: processors}}
	return w
}

func cores(n int) string {
	if n == 1 {
		return "one core"
	}
	return fmt.Sprintf("%d cores", n)
}

func shared(processors int, load float64) scene {
	w := tree(processors, fmt.Sprintf("five services on %s, %vx", cores(processors), load), times(load))
	return scene{world: w, semaphores: onHost, calm: load <= 0.7}
}

// sharedLoop has no overload, however busy the machine is: users wait for answers.
func sharedLoop(processors int) scene {
	w := tree(processors, fmt.Sprintf("five services on %s, 32 users", cores(processors)), world.Load{Users: 32})
	w.Clients[0].Clients = 32
	return scene{world: w, semaphores: onHost, calm: true}
}

// handlers compute a little and then wait for something on another machine, as most do, behind a gate in their own
// process on its only processor. At twice the load requests wait longest for what they wait for elsewhere, and at a
// third of them running the processor idles.
func handlers(compute, wait time.Duration, load float64) scene {
	w := plot(fmt.Sprintf("handlers that compute %v and wait %v, one core, %vx", compute, wait, load), 200*ms,
		[]world.Service{{Name: "service", Host: "box", Methods: does(computes(compute), waits(wait))}}, times(load))
	w.Hosts = []world.Host{{Name: "box", Processors: 1}}
	w.Clients[0].Kind, w.Clients[0].Deadline = world.Plain, 5*w.Objective
	return scene{world: w, semaphores: []string{"semaphore:8:8", "semaphore:8:60", "semaphore:16:16", "semaphore:16:51", "semaphore:32:32", "semaphore:64:32", "semaphore:64:64"}, calm: load <= 0.7}
}

// cheap handlers take no longer than a few messages do.
func cheap(load float64) scene {
	w := plot(fmt.Sprintf("handlers of 100 µs, plain clients, %vx", load), 100*ms,
		[]world.Service{{Name: "service", Host: "box", Methods: does(computes(100 * time.Microsecond))}}, times(load))
	// A refused call costs 17 µs with grpc-go.
	w.Hosts = []world.Host{{Name: "box", Processors: 1, Message: 8500 * time.Nanosecond}}
	w.Clients[0].Kind = world.Plain
	w.Warmup, w.Length = time.Second, 4*time.Second
	return scene{world: w, semaphores: onHost}
}

// retries are plain clients who send up to four times, whatever the server says.
func retries() scene {
	w := plot("plain clients try four times, 4x for 2 s", 200*ms, []world.Service{{Name: "service", Workers: workers, Methods: does(waits(10 * ms))}},
		world.Load{Steps: []world.Rate{{Times: 0.5}, {At: 5 * time.Second, Times: 4}, {At: 7 * time.Second, Times: 0.5}}})
	w.Clients[0].Kind = world.Plain
	w.Clients[0].Retry = world.Retry{Attempts: 4, Backoff: 20 * ms, Stubborn: true}
	return scene{world: w, semaphores: atWorkers, from: 5 * time.Second, to: 7 * time.Second}
}

// givenUp is a service that takes half of the objective, and stops the work on requests
// whose callers gave up.
func givenUp(shape world.Shape) scene {
	name := "constant"
	if shape == world.Exponential {
		name = "exponential"
	}
	w := plot(name+" service of 50 % of the objective that stops with its caller, 2x", 200*ms, []world.Service{{Name: "service", Workers: workers,
		Methods: does(world.Step{Wait: &world.Draw{Shape: shape, Mean: 100 * ms}})}}, times(2))
	return scene{world: w, semaphores: atWorkers}
}

// fanOut is a handler that calls three services, one of which has half the capacity of
// the others, at twice that.
func fanOut() scene {
	leaf := func(name string, n int) world.Service {
		return world.Service{Name: name, Workers: n, Methods: does(waits(10 * ms))}
	}
	w := plot("a handler calls three, one of which is at 2x", 200*ms, []world.Service{
		{Name: "entry", Methods: does(waits(ms), calls("wide", "broad", "narrow"))},
		leaf("wide", 16), leaf("broad", 16), leaf("narrow", 8),
	}, times(2))
	return scene{world: w, semaphores: []string{"semaphore:8", "semaphore:8:8", "semaphore:12", "semaphore:16", "semaphore:16:16", "semaphore:32", "semaphore:32:32"}}
}

// weighted are two workflows that send far too much, of which one is worth three times
// as much.
func weighted(kind world.Kind) scene {
	w := plot("weights 3:1, 16x, wallets", 200*ms, []world.Service{{Name: "service", Workers: workers, Methods: does(waits(10 * ms))}}, times(8))
	if kind == world.Plain {
		w.Name = "weights 3:1, 16x, plain clients"
	}
	w.Clients[0].Kind, w.Clients[0].Share = kind, 3
	other := w.Clients[0]
	other.Name, other.Share = "lighter", 1
	w.Clients = append(w.Clients, other)
	return scene{world: w, semaphores: atWorkers, weights: 3}
}

// ramp is a server that many find within seconds.
func ramp() scene {
	w := plot("1 to 2,000 connections in 5 s, 1.5x", 200*ms, []world.Service{{Name: "service", Workers: workers, Methods: does(waits(10 * ms))}}, times(1.5))
	w.Clients[0].Clients, w.Clients[0].Arrive, w.Warmup = 2000, 5*time.Second, time.Second
	return scene{world: w, semaphores: atWorkers, from: time.Second, to: 6 * time.Second}
}

// slowReplica is one of three servers that takes ten times as long.
func slowReplica(load float64) scene {
	w := plot(fmt.Sprintf("one of three servers is 10 times slower, %vx", load), 200*ms,
		[]world.Service{{Name: "service", Replicas: 3, Workers: workers, Methods: does(waits(10 * ms))}}, times(load))
	w.Faults = []world.Fault{{For: w.Length, Service: "service", Replica: 1, Slower: 10}}
	return scene{world: w, semaphores: atWorkers}
}

func burstsOf() scene {
	w := plot("0.3x with bursts of 5x for 100 ms each second", 100*ms, []world.Service{{Name: "service", Workers: workers, Methods: does(waits(10 * ms))}},
		world.Load{Steps: []world.Rate{{Times: 0.3}, {At: 900 * ms, Times: 5, For: 100 * ms, Every: time.Second}}})
	return scene{world: w, semaphores: atWorkers}
}

// oneGate is a service with a gate beside one without, on one processor. The one without
// leaves it half of the processor.
func oneGate(kind world.Kind) scene {
	w := plot("one of two services on a core has a gate, 2x of the rest, wallets", 100*ms, []world.Service{
		{Name: "gated", Host: "box", Methods: does(computes(ms))},
		{Name: "bare", Host: "box", Ungated: true, Methods: does(computes(ms))},
	}, times(1))
	if kind == world.Plain {
		w.Name = "one of two services on a core has a gate, 2x of the rest, plain clients"
	}
	w.Hosts = []world.Host{{Name: "box", Processors: 1}}
	w.Clients[0].Kind = kind
	w.Clients = append(w.Clients, world.Group{Name: "others", Kind: world.Plain, Clients: 20, Ask: asks("bare"), Load: times(0.5)})
	return scene{world: w, semaphores: onHost}
}

// store is a service with a gate that waits for a store without one, on a machine of its own: what is short are
// processors that the gate cannot see, and the requests inside share them.
func store(kind world.Kind) scene {
	name := "a store on another machine is what is short, 2x, wallets"
	if kind == world.Plain {
		name = "a store on another machine is what is short, 2x, plain clients"
	}
	w := plot(name, 100*ms, []world.Service{
		{Name: "front", Methods: does(waits(ms), calls("store"))},
		{Name: "store", Host: "box", Ungated: true, Methods: does(computes(12 * ms))},
	}, times(2))
	w.Hosts = []world.Host{{Name: "box", Processors: 4}}
	w.Clients[0].Kind = kind
	return scene{world: w, semaphores: []string{"semaphore:4", "semaphore:4:4", "semaphore:4:8", "semaphore:6:8", "semaphore:8", "semaphore:8:8", "semaphore:8:16"}}
}

// neighbour is long polls beside short requests, on processors that another process uses up without harm to
// either: nothing need be refused.
func neighbour() scene {
	w := plot("long polls, and a neighbour that uses the processors up", 100*ms, []world.Service{
		{Name: "api", Host: "box", Locks: []world.Lock{{Name: "pool", Permits: 8}}, Methods: []world.Method{
			{Name: "do", Steps: []world.Step{{Lock: "pool", Wait: &world.Draw{Shape: world.Exponential, Mean: 10 * ms}}}},
			{Name: "poll", Steps: []world.Step{waits(3 * time.Second)}},
		}},
		{Name: "batch", Host: "box", Ungated: true, Workers: 2, Methods: does(world.Step{Compute: &world.Draw{Mean: 50 * ms}})},
	}, perSecond(100))
	w.Hosts = []world.Host{{Name: "box", Processors: 2}}
	w.Clients[0].Kind, w.Clients[0].Deadline = world.Plain, -1
	poll := []world.Ask{{Target: world.Target{Service: "api", Method: "poll"}}}
	w.Clients = append(w.Clients, world.Group{Name: "polls", Kind: world.Plain, Clients: 20, Ask: poll, Load: perSecond(100), Deadline: -1},
		world.Group{Name: "jobs", Kind: world.Plain, Clients: 4, Ask: asks("batch"), Load: world.Load{Users: 4}, Deadline: -1})
	return scene{world: w, semaphores: []string{"semaphore:1000"}, calm: true, first: true}
}

// held is a step that holds a lock of the service.
func held(lock string, mean time.Duration, shape world.Shape) world.Step {
	return world.Step{Lock: lock, Wait: &world.Draw{Shape: shape, Mean: mean}}
}

// stages is a service that holds one of 4 connections for a while, and then is elsewhere for thrice as long. Requests
// end in the order in which they got a connection, whatever runs beside them.
func stages(rate float64) scene {
	w := plot(fmt.Sprintf("4 connections for 10 ms, then 30 ms elsewhere, %v/s of 400", rate), 150*ms, []world.Service{
		{Name: "api", Workers: 20, Locks: []world.Lock{{Name: "connections", Permits: 4}}, Methods: does(
			held("connections", 10*ms, world.Exponential), world.Step{Wait: &world.Draw{Mean: 30 * ms}})},
	}, perSecond(rate))
	w.Clients[0].Kind = world.Plain
	return scene{world: w, semaphores: []string{"semaphore:12:12", "semaphore:16:16", "semaphore:20:8", "semaphore:24:24", "semaphore:32:32"}, calm: rate < 0.7*400, first: true}
}

// lockFirst is a service whose requests hold a mutex for 2 ms and then call another for 60.
func lockFirst(rate float64) scene {
	w := plot(fmt.Sprintf("a mutex for 2 ms, then a call of 40 ms and more, %v/s of 500", rate), 200*ms, []world.Service{
		{Name: "api", Locks: []world.Lock{{Name: "mutex"}}, Methods: does(
			world.Step{Lock: "mutex", Wait: &world.Draw{Mean: 2 * ms}}, world.Step{Wait: &world.Draw{Mean: 40 * ms}}, waits(20*ms))},
	}, perSecond(rate))
	w.Clients[0].Kind = world.Plain
	return scene{world: w, semaphores: []string{"semaphore:32:32", "semaphore:48:16", "semaphore:64"}, calm: rate <= 0.7*500, first: true}
}

// misses is a cache in front of a pool of connections: eight in ten are answered at once, the others wait for one.
func misses() scene {
	w := plot("a cache, and a pool of 4 connections for one in five", 100*ms, []world.Service{
		{Name: "api", Locks: []world.Lock{{Name: "connections", Permits: 4}}, Methods: []world.Method{
			{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Mean: 200 * time.Microsecond}}}},
			{Name: "miss", Steps: []world.Step{held("connections", 10*ms, world.Exponential)}},
		}},
	}, perSecond(2000))
	w.Clients[0].Kind = world.Plain
	w.Clients[0].Ask = []world.Ask{{Target: target("api"), Weight: 4}, {Target: world.Target{Service: "api", Method: "miss"}, Weight: 1}}
	return scene{world: w, semaphores: []string{"semaphore:8:8", "semaphore:16:16", "semaphore:24:24", "semaphore:32"}, first: true}
}

func perSecond(rate float64) world.Load { return world.Load{Steps: []world.Rate{{PerSecond: rate}}} }
