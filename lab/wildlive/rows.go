package wildlive

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// row is a world for real processes and what is asked of it.
type row struct {
	family string
	name   string
	world  *world.World
	// times, if above 0, is the load in multiples of what a closed loop of 32 reaches
	// without control just before: what messages cost, only the machine knows.
	times float64
	// over is the transport of all policies, "" or "/http", ours that of Spillgate if
	// another one.
	over, ours string
	// semaphores are the settings that are compared with.
	semaphores []string
	// light says that the load is below 0.7 of the capacity: a refusal is a mistake.
	light bool
	// change, if above 0, is when the world changes.
	change time.Duration
	// polite says that the first group is of clients below their share.
	polite bool
	// quick rows are played in the quick form.
	quick bool
}

const (
	ms     = time.Millisecond
	second = time.Second
)

// workers is how many requests most services work on at a time, which no gate is told.
const workers = 8

func waits(d *world.Draw) world.Step { return world.Step{Wait: d} }

func spins(mean time.Duration) world.Step {
	return world.Step{Compute: &world.Draw{Shape: world.Exponential, Mean: mean}}
}

func exponential(mean time.Duration) *world.Draw {
	return &world.Draw{Shape: world.Exponential, Mean: mean}
}

// service is a service of one method.
func service(name string, workers int, steps ...world.Step) world.Service {
	return world.Service{Name: name, Workers: workers, Methods: []world.Method{{Name: "do", Steps: steps}}}
}

func asks(service string) []world.Ask {
	return []world.Ask{{Target: world.Target{Service: service, Method: "do"}}}
}

func calls(services ...string) world.Step {
	var s world.Step
	for _, name := range services {
		s.Call = append(s.Call, world.Target{Service: name, Method: "do"})
	}
	return s
}

func steady(times float64) world.Load { return world.Load{Steps: []world.Rate{{Times: times}}} }

// eight is a world of one service of eight workers and twenty clients.
func eight(objective time.Duration, takes *world.Draw, load world.Load) *world.World {
	return &world.World{Objective: objective, Warmup: 2 * second, Length: 6 * second,
		Services: []world.Service{service("service", workers, waits(takes))},
		Clients:  []world.Group{{Name: "clients", Clients: 20, Ask: asks("service"), Load: load}}}
}

// The semaphores beside services of eight workers.
var eights = []string{"semaphore:8:16", "semaphore:8:8"}

// rows returns all rows.
func rows() []row {
	all := append(sharedRows(), pollRows()...)
	all = append(all, clientRows()...)
	all = append(all, serviceRows()...)
	return append(all, greedyRows()...)
}

// sharedRows: five services of a call tree on one processor, and cheap handlers.
func sharedRows() (all []row) {
	tree := func() *world.World {
		half, whole := spins(50*time.Microsecond), spins(100*time.Microsecond)
		w := &world.World{Objective: 100 * ms, Warmup: 2 * second, Length: 6 * second, Hosts: []world.Host{{Name: "box", Processors: 1}},
			Services: []world.Service{service("entry", 0, half, calls("a", "b"), half), service("a", 0, half, calls("c"), half),
				service("b", 0, half, calls("d"), half), service("c", 0, whole), service("d", 0, whole)},
			Clients: []world.Group{{Name: "clients", Clients: 20, Ask: asks("entry")}}}
		for i := range w.Services {
			w.Services[i].Host = "box"
		}
		return w
	}
	wide := []string{"semaphore:32:16", "semaphore:16:16"}
	for _, times := range []float64{0.3, 0.45, 0.7, 1.2, 2} {
		all = append(all, row{family: "shared", name: fmt.Sprintf("call tree of 5 on one core, %vx", times), world: tree(), times: times,
			semaphores: wide, light: times <= 0.7, quick: times == 2})
	}
	for _, times := range []float64{0.7, 2} {
		all = append(all, row{family: "shared", name: fmt.Sprintf("call tree of 5 on one core over HTTP, %vx", times), world: tree(), times: times,
			over: "/http", semaphores: wide, light: times <= 0.7})
	}
	loop := tree()
	loop.Clients[0].Load = world.Load{Users: 32}
	all = append(all, row{family: "shared", name: "call tree of 5 on one core, closed loop of 32", world: loop, semaphores: wide, light: true})
	// One process on one core sends some 10,000 requests/s over gRPC on time, no more.
	for _, c := range []struct {
		takes time.Duration
		times float64
	}{{100 * time.Microsecond, 1.2}, {400 * time.Microsecond, 2}, {400 * time.Microsecond, 4}} {
		w := &world.World{Objective: 20 * ms, Warmup: 2 * second, Length: 6 * second, Hosts: []world.Host{{Name: "box", Processors: 1}},
			Services: []world.Service{service("service", 0, spins(c.takes))},
			Clients:  []world.Group{{Name: "clients", Clients: 20, Kind: world.Plain, Ask: asks("service")}}}
		w.Services[0].Host = "box"
		all = append(all, row{family: "cheap", name: fmt.Sprintf("%v of the only core, plain clients, %vx", c.takes, c.times), world: w, times: c.times,
			semaphores: []string{"semaphore:2:8", "semaphore:4:16"}})
	}
	return all
}

// pollRows: long polls beside short requests, through the proxy.
func pollRows() (all []row) {
	for _, polls := range []int{8, 64} {
		w := &world.World{Objective: 100 * ms, Warmup: 2 * second, Length: 8 * second, Clients: []world.Group{
			{Name: "clients", Clients: 20, Kind: world.Plain, Ask: asks("service"), Load: world.Load{Steps: []world.Rate{{PerSecond: 200}}}},
			{Name: "polls", Clients: polls, Kind: world.Plain, Deadline: -1, Load: world.Load{Users: polls, Think: 100 * ms},
				Ask: []world.Ask{{Target: world.Target{Service: "service", Method: "poll"}}}}}}
		polled := service("service", 0, waits(exponential(10*ms)))
		polled.Methods = append(polled.Methods, world.Method{Name: "poll", Idle: true, Steps: []world.Step{waits(&world.Draw{Mean: 2 * second})}})
		w.Services = []world.Service{polled}
		all = append(all, row{family: "polls", name: fmt.Sprintf("%d long polls beside 200/s through the proxy", polls), world: w, over: "/http", ours: "/proxy",
			light: true, quick: polls == 64})
	}
	return all
}

// clientRows: callers with long deadlines, with retries, in great numbers.
func clientRows() (all []row) {
	for _, times := range []int{1, 5, -1} {
		w, name := eight(200*ms, exponential(10*ms), steady(3)), fmt.Sprintf("deadline %d objectives, 3x", times)
		if w.Clients[0].Deadline = time.Duration(times) * w.Objective; times < 0 {
			name = "no deadline, 3x"
		}
		all = append(all, row{family: "deadlines", name: name, world: w, semaphores: eights, quick: times < 0})
	}
	storm := eight(200*ms, exponential(10*ms), world.Load{Steps: []world.Rate{{Times: 0.7}, {At: 3 * second, Times: 4}, {At: 5 * second, Times: 0.7}}})
	storm.Warmup, storm.Length = 3*second, 6*second
	storm.Clients[0].Kind = world.Plain
	storm.Clients[0].Retry = world.Retry{Attempts: 4, Backoff: 20 * ms, Stubborn: true}
	all = append(all, row{family: "retries", name: "gRPC retries 4 times, 2 s at 4x", world: storm, semaphores: eights, change: 5 * second})
	ramp := eight(200*ms, exponential(10*ms), steady(1.5))
	ramp.Warmup, ramp.Length, ramp.Clients[0].Clients, ramp.Clients[0].Arrive = 0, 7*second, 2000, 5*second
	return append(all, row{family: "ramp", name: "2,000 connections come within 5 s, 1.5x", world: ramp, semaphores: eights})
}

// serviceRows: a callee that is short, a slowdown, rare long requests.
func serviceRows() (all []row) {
	fan := eight(200*ms, exponential(10*ms), steady(2))
	fan.Services = []world.Service{service("entry", 0, waits(exponential(ms)), calls("a", "b", "c")),
		service("a", 2*workers, waits(exponential(10*ms))), service("b", 2*workers, waits(exponential(10*ms))), service("c", workers, waits(exponential(10*ms)))}
	fan.Clients[0].Ask = asks("entry")
	all = append(all, row{family: "fanout", name: "calls three, one of them at 2x", world: fan, semaphores: []string{"semaphore:8:8", "semaphore:16:8"}})
	slow := eight(200*ms, exponential(10*ms), steady(0.7))
	slow.Warmup, slow.Length = 3*second, 11*second
	slow.Faults = []world.Fault{{At: 3 * second, For: 6 * second, Service: "service", Slower: 10}}
	all = append(all, row{family: "slowdown", name: "10 times slower for 6 s, 0.7x", world: slow, semaphores: eights, change: 9 * second})
	for _, times := range []float64{1, 2} {
		w := eight(100*ms, &world.Draw{Shape: world.Weighted, Points: []world.Point{{Value: 5 * ms, Weight: 99}, {Value: 500 * ms, Weight: 1}}}, steady(times))
		w.Clients[0].Deadline = second
		all = append(all, row{family: "rare", name: fmt.Sprintf("1 %% of requests take 100 times as long, %vx", times), world: w, semaphores: eights, quick: times == 2})
	}
	return all
}

// greedyRows: twenty polite clients beside one that sends ten times the capacity.
func greedyRows() (all []row) {
	for _, connections := range []int{1, 10, 50} {
		w := eight(200*ms, exponential(20*ms), steady(0.5*20.0/21))
		w.Warmup = 3 * second
		w.Clients[0].Name = "polite"
		w.Clients = append(w.Clients, world.Group{Name: "greedy", Connections: connections, Kind: world.Greedy, Ask: asks("service"), Load: steady(10)})
		all = append(all, row{family: "greedy", name: fmt.Sprintf("one client sends 10x by %d connections", connections), world: w,
			semaphores: eights[:1], polite: true, quick: connections == 10})
	}
	return all
}
