package world

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// shop is a world that uses nearly every field.
func shop() *World {
	return &World{
		Name: "shop", Objective: 100 * ms, Warmup: 5 * time.Second, Length: 20 * time.Second,
		Hosts: []Host{{Name: "box", Processors: 2}, {Name: "fast", Processors: 1, Message: -1}},
		Services: []Service{
			{Name: "api", Host: "box", Methods: []Method{
				{Name: "get", Steps: []Step{{Compute: &Draw{Mean: ms}}, {Call: []Target{{"store", "read"}, {"store", "write"}}}}},
				{Name: "poll", Idle: true, Steps: []Step{{Wait: &Draw{Shape: Exponential, Mean: time.Second}}}},
			}},
			{Name: "store", Replicas: 3, Workers: 8, Objective: 50 * ms, Methods: []Method{
				{Name: "read", Steps: []Step{{Wait: &Draw{Shape: Weighted, Points: []Point{{5 * ms, 99}, {500 * ms, 1}}}}}},
				{Name: "write", Steps: []Step{{Wait: &Draw{Shape: Pareto, Mean: 10 * ms, Param: 1.5}}}},
			}},
		},
		Clients: []Group{
			{Name: "web", Ask: []Ask{{Target: Target{"api", "get"}}}, Load: Load{Steps: []Rate{{Times: 0.7}, {At: 10 * time.Second, Times: 2}, {At: 15 * time.Second, Times: 5, For: 100 * ms, Every: time.Second}}}},
			{Name: "polls", Clients: 10, Deadline: -1, Ask: []Ask{{Target{"api", "poll"}, 3}}, Load: Load{Users: 10, Think: ms}},
			{Name: "trace", Kind: Greedy, Ask: []Ask{{Target: Target{"store", "read"}}}, Load: Load{Arrivals: []time.Duration{0, ms, ms, 5 * ms}}, Retry: Retry{Attempts: 4, Backoff: ms}},
		},
		Faults: []Fault{{At: time.Second, For: time.Second, Every: 5 * time.Second, Service: "store", Replica: 3, Slower: 10}},
	}
}

func TestARightWorldHasNoMistake(t *testing.T) {
	if got := shop().Check(); got != nil {
		t.Errorf("mistakes: %v", got)
	}
}

// spoiled are worlds with mistakes, and what Check says of them.
var spoiled = []struct {
	what  string
	spoil func(w *World)
	want  string // lines
}{
	{"nothing at all", func(w *World) { *w = World{} }, `objective: missing, expected the latency that clients should see, for example 100ms
length: missing, expected the time that the run takes, for example 30s
services: missing, expected one service or more
clients: missing, expected one group or more`},
	{"times", func(w *World) {
		w.Objective, w.Warmup, w.Network.Delay, w.Network.Jitter = -1, 20*time.Second, -ms, 25*time.Hour
	},
		`objective: -1ns, expected 1µs to 24h0m0s
warmup: 20s, expected less than the length, 20s
network.delay: -1ms, expected 0s to 24h0m0s
network.jitter: 25h0m0s, expected 0s to 24h0m0s`},
	{"hosts", func(w *World) { w.Hosts[0].Processors, w.Hosts[1].Name = 0, "box" }, `hosts[0].processors: 0, expected 1 to 1024
hosts[1].name: "box", expected another name: hosts[0].name has it`},
	{"services", func(w *World) {
		s := &w.Services[0]
		s.Host, s.Workers, s.Objective, s.Name = "bix", -1, -1, ""
		w.Clients = w.Clients[2:]
	}, `services[0].name: missing, expected a name
services[0].host: "bix", expected a host: box, fast
services[0].workers: -1, expected 0 to 1000000
services[0].objective: -1ns, expected 1µs to 24h0m0s`},
	{"processes", func(w *World) { w.Services[0].Replicas, w.Services[1].Replicas = 1000, 1 }, `services: 1001 processes, expected at most 1000
faults[0].replica: 3, expected 0 to 1`},
	{"methods", func(w *World) {
		w.Services[1].Methods[1].Name = "read"
		w.Services[0].Methods[1].Steps = nil
		w.Services[0].Methods[0].Steps[1].Call = w.Services[0].Methods[0].Steps[1].Call[:1]
	}, `services[0].methods[1].steps: missing, expected one step or more
services[1].methods[1].name: "read", expected another name: services[1].methods[0].name has it`},
	{"a dot in a name", func(w *World) { w.Services[0].Methods[1].Name = "a.b"; w.Clients[1].Ask[0].Method = "a.b" },
		`services[0].methods[1].name: "a.b", expected a name without a dot, which separates service and method`},
	{"steps", func(w *World) {
		m := &w.Services[0].Methods[1]
		m.Steps = []Step{{}, {Wait: &Draw{Mean: ms}, Compute: &Draw{Mean: ms}}}
	}, `services[0].methods[1].steps[0]: 0 of wait, compute and call, expected one of them
services[0].methods[1].steps[1]: 2 of wait, compute and call, expected one of them`},
	{"draws", func(w *World) {
		w.Services[0].Methods[1].Steps = []Step{{Wait: &Draw{}}, {Wait: &Draw{Mean: ms, Param: 1}}, {Wait: &Draw{Shape: Pareto, Mean: ms, Param: 1}}, {Compute: &Draw{Shape: Lognormal, Mean: ms}},
			{Wait: &Draw{Shape: Weighted}}, {Wait: &Draw{Shape: Weighted, Points: []Point{{0, 1}, {ms, 0}}}}, {Wait: &Draw{Shape: Weighted, Points: []Point{{-1, 1}, {ms, -1}}}}, {Wait: &Draw{Mean: ms, Spread: true}}, {Wait: &Draw{Shape: 77}}}
	}, `services[0].methods[1].steps[0].wait: 0s, expected 1ns to 24h0m0s
services[0].methods[1].steps[1].wait: parameter 1, expected none for this shape
services[0].methods[1].steps[2].wait: pareto with a tail index of 1, expected above 1, at most 100
services[0].methods[1].steps[3].compute: lognormal with a standard deviation of 0, expected above 0, at most 5
services[0].methods[1].steps[4].wait.points: missing, expected one point or more
services[0].methods[1].steps[5].wait.points: no time above 0 with a weight above 0, expected one or more
services[0].methods[1].steps[6].wait.points[0]: -1ns, expected 0s to 24h0m0s
services[0].methods[1].steps[6].wait.points[1]: -1, expected 0 to 1e+15
services[0].methods[1].steps[7].wait: points beside a shape of another kind, expected one of them
services[0].methods[1].steps[8].wait: shape 77, expected constant, exponential, pareto, lognormal or points`},
	{"what is inside", func(w *World) {
		w.Services[0].Async = true
		w.Services[1].Locks = []Lock{{Name: "door", Permits: -1}, {Name: "door", Permits: 1}, {Name: "workers", Permits: 1}}
		w.Services[1].Methods[0].Steps[0].Lock = "dor"
		w.Services[1].Methods[1].Answer = Size{2, 1}
		w.Services[0].Methods[0].Steps[1].Lock = "door"
		w.Clients[0].GiveUp, w.Clients[0].Cycle = -1, -1
	}, `services[0].async: true, expected workers beside it: they are what is given back
services[0].methods[0].steps[1].lock: "door", expected none: a lock is held for a wait or compute
services[1].locks[0].permits: -1, expected 0 to 1000000
services[1].locks[1].name: "door", expected another name: services[1].locks[0].name has it
services[1].locks[2].name: "workers", expected another name, for it is that of the workers
services[1].methods[0].steps[0].lock: "dor", expected a lock of the service: door, workers
services[1].methods[1].answer: 2 to 1 bytes, expected 0 to 16777216, the least first
clients[0].give_up: -1ns, expected 0s to 24h0m0s
clients[0].cycle: -1, expected 0 to 1000000`},
	{"calls", func(w *World) {
		w.Services[0].Methods[0].Steps[1].Call = []Target{{"store", "sweep"}, {"shelf", "read"}, {"api", "poll"}, {"", ""}}
	}, `services[0].methods[0].steps[1].call[0]: "store.sweep", expected a method of the service: store.read, store.write
services[0].methods[0].steps[1].call[1]: "shelf.read", expected a method of one of the services: api, store
services[0].methods[0].steps[1].call[2]: api.poll, expected a method of another service
services[0].methods[0].steps[1].call[3]: missing, expected a method of one of the services: api, store`},
	{"a call that leads back", func(w *World) {
		w.Services[1].Methods[0].Steps = append(w.Services[1].Methods[0].Steps, Step{Call: []Target{{"api", "get"}}})
	}, `services[1].methods[0].steps[1].call[0]: api.get, expected calls that do not lead back: api.get → store.read → api.get`},
	{"groups", func(w *World) {
		g := &w.Clients[0]
		g.Clients, g.Connections, g.Kind, g.Ask, g.Arrive, g.Class, g.Priority, g.Share = -1, -1, 9, nil, -1, 9, 128, -1
		w.Clients[1].Name = "trace"
	}, `clients[0].clients: -1, expected 0 to 100000
clients[0].connections: -1, expected 0 to 100000
clients[0].kind: kind 9, expected credits, plain, greedy or minting
clients[0].ask: missing, expected the method that the clients ask for
clients[0].arrive: -1ns, expected 0s to 24h0m0s
clients[0].class: class 9, expected default or interactive
clients[0].priority: 128, expected 0 to 127
clients[0].share: -1, expected 0 to 1e+06
clients[2].name: "trace", expected another name: clients[1].name has it`},
	{"too many", func(w *World) {
		w.Clients[0].Clients, w.Clients[0].Connections = 1000, 100
		w.Clients[1].Load.Users, w.Clients[0].Load = 60_000, Load{Users: 60_000}
	}, `clients: 100011 connections, expected at most 100000
clients: 120001 users, expected at most 100000`},
	{"asks", func(w *World) { w.Clients[0].Ask = []Ask{{Target{"api", "got"}, -1}} }, `clients[0].ask[0]: "api.got", expected a method of the service: api.get, api.poll
clients[0].ask[0].weight: -1, expected 0 to 1e+09`},
	{"loads", func(w *World) {
		w.Clients[0].Load = Load{}
		w.Clients[1].Load.Arrivals = []time.Duration{ms}
		w.Clients[2].Load = Load{Arrivals: []time.Duration{ms, 0}, Think: ms}
	}, `clients[0].load: missing, expected one of rate, steps, users and arrivals
clients[1].load: 2 of rate or steps, users and arrivals, expected one of them
clients[2].load.think: 1ms, expected users beside it: they are what thinks
clients[2].load.arrivals[1]: 0s, expected instants from 0s on, ascending`},
	{"a trace of one instant", func(w *World) { w.Clients[2].Load.Arrivals = []time.Duration{0} },
		`clients[2].load.arrivals: a trace that takes no time, expected one whose last instant is after 0s`},
	{"steps of a load", func(w *World) {
		w.Clients[0].Load.Steps = []Rate{{At: ms, Times: 1, PerSecond: 1}, {At: ms, PerSecond: -1}, {At: 20 * time.Second}, {At: 2 * time.Second, For: ms}, {At: 3 * time.Second, For: 2 * ms, Every: ms}}
		w.Clients[2].Load = Load{Steps: []Rate{{Times: 1, For: ms, Every: ms}}}
	}, `clients[0].load.steps[0].rate: requests per second and a multiple of the capacity, expected one of them
clients[0].load.steps[0].at: 1ms, expected 0s, for the first step
clients[0].load.steps[1].rate: -1, expected 0 to 1e+09
clients[0].load.steps[1].at: 1ms, expected later than the step before, 1ms
clients[0].load.steps[2].at: 20s, expected an instant of the run, 0s to less than 20s
clients[0].load.steps[3].at: 2s, expected later than the step before, 20s
clients[0].load.steps[3].every: 0s, expected 1ms to 24h0m0s
clients[0].load.steps[4].every: 1ms, expected 2ms to 24h0m0s
clients[2].load.steps[0]: a burst, expected a rate without for and every in the first step, which holds between bursts`},
	{"contention", func(w *World) { w.Services[0].Contention = Contention{Each: 2, Pair: -1} }, `services[0].contention.each: 2, expected 0 to 1
services[0].contention.pair: -1, expected 0 to 1`},
	{"a multiple of no capacity", func(w *World) { w.Services[0].Host = ""; w.Clients[1].Load = Load{Steps: []Rate{{Times: 2}}} },
		`clients[1].load.steps[0].rate: 2x, expected a rate such as 200/s: what the group asks for has no capacity, for no service has workers, locks, a host or contention`},
	{"a host that nothing costs", func(w *World) {
		w.Services[0].Host = "fast"
		w.Clients[1].Load = Load{Steps: []Rate{{Times: 2}}}
	}, `clients[1].load.steps[0].rate: 2x, expected a rate such as 200/s: what the group asks for has no capacity, for no service has workers, locks, a host or contention`},
	{"a multiple of a huge capacity", func(w *World) {
		w.Services[0].Methods[0].Steps = w.Services[0].Methods[0].Steps[:1]
		w.Hosts[0].Message = -1
		w.Services[0].Methods[0].Steps[0].Compute.Mean = 1
	}, `clients[0].load.steps[0].rate: 0.7x, or 1.4e+09/s, expected at most 1000000000/s
clients[0].load.steps[1].rate: 2x, or 4e+09/s, expected at most 1000000000/s
clients[0].load.steps[2].rate: 5x, or 1e+10/s, expected at most 1000000000/s`},
	{"retries", func(w *World) { w.Clients[0].Retry = Retry{Stubborn: true}; w.Clients[2].Retry.Attempts = 101 }, `clients[0].retry.attempts: missing, expected 2 or more, for a retry needs a second attempt
clients[2].retry.attempts: 101, expected 0 to 100`},
	{"faults", func(w *World) {
		w.Faults = append(w.Faults, Fault{At: 20 * time.Second, Service: "shelf"}, Fault{For: ms, Every: 100 * time.Microsecond, Service: "store", Replica: 4, Stop: true, Slower: -1})
	}, `faults[1].at: 20s, expected an instant of the run, 0s to less than 20s
faults[1].for: missing, expected how long it lasts, for example 1s
faults[1].service: "shelf", expected a service: api, store
faults[1]: 0 of slower, stop, kill and vanish, expected one of them
faults[2].every: 100µs, expected 1ms to 24h0m0s
faults[2].replica: 4, expected 0 to 3
faults[2]: 2 of slower, stop, kill and vanish, expected one of them
faults[2].slower: -1, expected above 0, at most 1000`},
}

func TestMistakes(t *testing.T) {
	for _, c := range spoiled {
		w := shop()
		c.spoil(w)
		var got []string
		for _, m := range w.Check() {
			got = append(got, m.Error())
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.what, text, c.want)
		}
	}
}

// Forty tiers of which each calls the next one twice are a trillion calls, found in
// no time.
func TestCallsAreCounted(t *testing.T) {
	w := shop()
	for i := range 40 {
		next := Target{"store", "read"}
		if i > 0 {
			next = Target{fmt.Sprint("tier", i-1), "do"}
		}
		w.Services = append(w.Services, Service{Name: fmt.Sprint("tier", i), Methods: []Method{{Name: "do", Steps: []Step{{Call: []Target{next, next}}}}}})
		got := w.Check()
		if calls := 2<<(i+1) - 2; calls <= MaxCalls && len(got) > 0 || calls > MaxCalls && len(got) == 0 {
			t.Fatalf("%d calls: %v", calls, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	w := shop()
	d := w.WithDefaults()
	if !reflect.DeepEqual(w, shop()) {
		t.Error("the original was changed")
	}
	if again := d.WithDefaults(); !reflect.DeepEqual(again, d) {
		t.Errorf("a second time it became\n%+v\ninstead of\n%+v", again, d)
	}
	if got := d.Check(); got != nil {
		t.Errorf("mistakes in defaults: %v", got)
	}
	g := d.Clients[0]
	got := fmt.Sprintln(d.Hosts[0].Message, d.Hosts[1].Message, d.Services[0].Replicas, d.Services[0].Objective, d.Services[1].Replicas, d.Services[1].Objective,
		g.Clients, g.Connections, g.Deadline, d.Clients[1].Deadline, g.Workflow, g.Share, g.Ask[0].Weight, d.Clients[1].Ask[0].Weight, g.Retry.Attempts, d.Services[1].Methods[0].Steps[0].Wait.Mean)
	if want := "20µs -1ns 1 100ms 3 50ms 1 1 100ms -1ns web 1 1 3 1 9.95ms\n"; got != want {
		t.Errorf("defaults %s, want %s", got, want)
	}
}
