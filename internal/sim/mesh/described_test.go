package mesh

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	open "github.com/spillgate/spillgate/internal/baseline/none"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

const msec = time.Millisecond

func constant(d time.Duration) *world.Draw { return &world.Draw{Mean: d} }
func exponential(d time.Duration) *world.Draw {
	return &world.Draw{Shape: world.Exponential, Mean: d}
}

func ask(service, method string) []world.Ask {
	return []world.Ask{{Target: world.Target{Service: service, Method: method}}}
}

// busy is a world in which everything that a description can say happens: two services
// on one machine, fan-out, workers, polls, faults of every kind, retries, ramps.
func busyWorld(seed uint64) *world.World {
	calls := func(names ...string) []world.Target {
		var to []world.Target
		for _, n := range names {
			to = append(to, world.Target{Service: n, Method: "do"})
		}
		return to
	}
	steps := func(s ...world.Step) []world.Method { return []world.Method{{Name: "do", Steps: s}} }
	w := &world.World{
		Objective: 100 * msec, Length: 3 * time.Second,
		Hosts: []world.Host{{Name: "box", Processors: 1 + int(seed%2)}},
		Services: []world.Service{
			{Name: "front", Host: "box", Methods: append(steps(world.Step{Compute: exponential(msec)}, world.Step{Call: calls("left", "right")}, world.Step{Compute: constant(msec / 2)}),
				world.Method{Name: "poll", Idle: true, Steps: []world.Step{{Wait: constant(300 * msec)}}})},
			{Name: "left", Host: "box", Replicas: 2, Workers: 2, Deaf: seed%3 == 0, Methods: steps(world.Step{Compute: &world.Draw{Shape: world.Pareto, Param: 1.5, Mean: msec}})},
			{Name: "right", Workers: 4, Ungated: seed%4 == 1, Deaf: seed%2 == 0, Proxied: seed%4 == 2, Methods: steps(world.Step{Wait: &world.Draw{Shape: world.Weighted, Spread: true,
				Points: []world.Point{{Value: 5 * msec, Weight: 9}, {Value: 50 * msec, Weight: 1}}}}, world.Step{Call: calls("leaf")})},
			{Name: "leaf", Workers: 3, Message: msec / 10, Methods: steps(world.Step{Wait: &world.Draw{Shape: world.Lognormal, Param: 1, Mean: 3 * msec}})},
		},
		Clients: []world.Group{
			{Name: "wallets", Clients: 3, Connections: 2, Ask: ask("front", "do"), Arrive: time.Second,
				Load: world.Load{Steps: []world.Rate{{Times: 0.8}, {At: time.Second, Times: 3, For: 100 * msec, Every: 400 * msec}}}},
			{Name: "plain", Kind: world.Plain, Ask: ask("front", "do"), Deadline: -1, Load: world.Load{Users: 5, Think: 20 * msec}},
			{Name: "greedy", Kind: world.Greedy, Connections: 4, SharedAddress: true, Ask: ask("right", "do"), Share: 2,
				Retry: world.Retry{Attempts: 4, Backoff: 5 * msec, Budget: 0.5}, Load: world.Load{Arrivals: []time.Duration{0, 10 * msec, 20 * msec}}},
			{Name: "guests", Clients: 4, Ask: ask("left", "do"), Churn: world.Churn{Stay: 300 * msec, Away: 100 * msec}, Load: world.Load{Users: 8, Think: 10 * msec}},
			{Name: "minters", Kind: world.Minting, Ask: ask("leaf", "do"), Patient: true, Load: world.Load{Steps: []world.Rate{{PerSecond: 50}}}},
			{Name: "pollers", Ask: ask("front", "poll"), Deadline: 200 * msec, Load: world.Load{Steps: []world.Rate{{PerSecond: 20}}}},
		},
		Network: world.Network{Delay: 200 * time.Microsecond, Jitter: 300 * time.Microsecond, LoseGrant: 0.1, RepeatGrant: 0.1, DelayGrant: 0.1},
		Faults: []world.Fault{
			{At: 400 * msec, For: 150 * msec, Every: 700 * msec, Service: "left", Replica: 1, Kill: true},
			{At: 500 * msec, For: 300 * msec, Service: "front", Slower: 3},
			{At: 600 * msec, For: 100 * msec, Service: "front", Stop: true},
			{At: 900 * msec, For: 200 * msec, Every: 500 * msec, Service: "right", Slower: 5},
			{At: 1500 * msec, For: 50 * msec, Service: "front", Kill: true},
			{At: 1600 * msec, For: 100 * msec, Service: "right", Stop: true},
			{At: 1700 * msec, For: 200 * msec, Vanish: 0.5, Notice: 50 * msec},
		},
	}
	if seed%3 == 1 {
		w.Services[2].Contention = world.Contention{Each: 0.1, Pair: 0.1}
	}
	if leaf := &w.Services[3]; seed%2 == 1 {
		leaf.Locks = []world.Lock{{Name: "batch", Permits: 3, Batch: true}}
		leaf.Methods[0].Steps[0].Lock = "batch"
	}
	return w
}

func mustDescribe(t *testing.T, w *world.World, ctl Control, seed uint64) *World {
	t.Helper()
	cfg, err := Describe(w, ctl, seed)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// After every event the books are right, no processor idles while a process of its host
// waits for one, and in the end every request has ended once or is still inside.
func TestDescribedInvariants(t *testing.T) {
	for seed := range uint64(8) {
		for _, ctl := range []Control{None(), Credits(), Priorities()} {
			w := mustDescribe(t, busyWorld(seed), ctl, seed)
			n := 0
			w.cfg.Event = func(w *World) {
				for _, h := range w.hosts {
					for _, p := range w.processes {
						if len(h.idle) > 0 && p.host == h && p.jobs.len() > 0 && p.pace.stops == 0 {
							t.Fatalf("seed %d, %s, %v: %s %d has %d jobs, and a processor is idle", seed, ctl.Name, w.Since(), p.place.Service, p.place.Process, p.jobs.len())
						}
					}
				}
				if n++; n%50 == 0 {
					if err := w.Audit(); err != nil {
						t.Fatalf("seed %d, %s, %v: %v", seed, ctl.Name, w.Since(), err)
					}
				}
			}
			if _, err := w.Run(); err != nil {
				t.Fatal(err)
			}
			r := w.Measured()
			offered, ended, good := 0, 0, 0
			for _, g := range r.Groups {
				offered += g.Offered
				ended += g.Good + g.Late + g.Refused + g.Expired + g.Failed
				good += g.Good
			}
			if offered != ended+w.Inside() {
				t.Errorf("seed %d, %s: %d requests were offered, %d ended and %d are inside", seed, ctl.Name, offered, ended, w.Inside())
			}
			if good == 0 {
				t.Errorf("seed %d, %s: no good answer of %d requests", seed, ctl.Name, offered)
			}
		}
	}
}

// The same description, control and seed give the same log.
func TestDescribedTwice(t *testing.T) {
	var logs [2]bytes.Buffer
	for i := range logs {
		cfg, err := Describe(busyWorld(1), Credits(), 5)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Log = &logs[i]
		w, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Run(); err != nil {
			t.Fatal(err)
		}
	}
	if logs[0].Len() == 0 || !bytes.Equal(logs[0].Bytes(), logs[1].Bytes()) {
		t.Errorf("two logs of %d and %d bytes differ", logs[0].Len(), logs[1].Len())
	}
}

// alone is one service that a Poisson load of a rate asks, and nothing else.
func alone(s world.Service, rate float64) *world.World {
	s.Name = "service"
	return &world.World{
		Objective: time.Hour, Warmup: 10 * time.Second, Length: 400 * time.Second,
		Hosts: []world.Host{{Name: "box", Processors: 1, Message: -1}}, Services: []world.Service{s},
		Clients: []world.Group{{Name: "clients", Kind: world.Plain, Ask: ask("service", "do"), Load: world.Load{Steps: []world.Rate{{PerSecond: rate}}}}},
	}
}

// meanOf plays w and returns the mean time to the answer.
func meanOf(t *testing.T, w *world.World, seed uint64) float64 {
	m := mustDescribe(t, w, None(), seed)
	if _, err := m.Run(); err != nil {
		t.Fatal(err)
	}
	return m.tally.latency[0].Mean().Seconds()
}

// Workers are the M/M/k queue: the mean time inside is that of Erlang's C formula.
func TestWorkersAreErlang(t *testing.T) {
	const k, service, load = 4, 0.010, 0.8
	s := world.Service{Workers: k, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: exponential(10 * msec)}}}}}
	a := load * k
	sum, term := 0.0, 1.0
	for n := range k {
		sum += term
		term *= a / float64(n+1)
	}
	last := term / (1 - load)
	want := service + last/(sum+last)*service/(k*(1-load))
	if got := meanOf(t, alone(s, load*k/service), 1); math.Abs(got/want-1) > 0.04 {
		t.Errorf("the mean time is %v, by the formula %v", got, want)
	}
}

// A processor that one process takes is shared by its requests: the mean time inside is
// service ÷ (1 − load), whatever the distribution. Slices lengthen it by a part of
// one.
func TestHostsShareProcessors(t *testing.T) {
	const load = 0.7
	for name, draw := range map[string]*world.Draw{
		"exponential": exponential(20 * msec),
		"bimodal":     {Shape: world.Weighted, Points: []world.Point{{Value: 5 * msec, Weight: 4}, {Value: 80 * msec, Weight: 1}}},
	} {
		s := world.Service{Host: "box", Methods: []world.Method{{Name: "do", Steps: []world.Step{{Compute: draw}}}}}
		want := 0.020 / (1 - load)
		if got := meanOf(t, alone(s, load/0.020), 2); math.Abs(got/want-1) > 0.08 {
			t.Errorf("%s: the mean time is %v, by the formula %v", name, got, want)
		}
	}
}

// Processes that share a processor get equal parts of it, however many requests each of
// them has.
func TestProcessesTakeTurns(t *testing.T) {
	w := alone(world.Service{Host: "box", Methods: []world.Method{{Name: "do", Steps: []world.Step{{Compute: constant(5 * msec)}}}}}, 1)
	other := w.Services[0]
	other.Name = "other"
	w.Services = append(w.Services, other)
	w.Warmup, w.Length = 0, 10*time.Second
	few, many := w.Clients[0], w.Clients[0]
	few.Load, many.Load = world.Load{Users: 2}, world.Load{Users: 50}
	many.Name, many.Ask = "many", ask("other", "do")
	w.Clients = []world.Group{few, many}
	m := mustDescribe(t, w, None(), 1)
	if _, err := m.Run(); err != nil {
		t.Fatal(err)
	}
	g := m.Measured().Groups
	if a, b := g[0].Good, g[1].Good; a < 980 || a > 1010 || b < 980-50 || b > 1010 {
		t.Errorf("%d requests of the service with 2 users were served and %d of that with 50, expected 1000 each", a, b)
	}
}

// Messages cost what they are said to: a request costs two, a refusal as well.
func TestMessagesCostProcessors(t *testing.T) {
	w := alone(world.Service{Host: "box", Methods: []world.Method{{Name: "do", Steps: []world.Step{{Compute: constant(msec)}}}}}, 400)
	w.Hosts[0].Message = msec / 4
	w.Warmup, w.Length = 0, 20*time.Second
	m := mustDescribe(t, w, None(), 1)
	if _, err := m.Run(); err != nil {
		t.Fatal(err)
	}
	r := m.Measured()
	want := float64(r.Groups[0].Good) * 1.5e6
	if used := m.processes[0].used; math.Abs(used/want-1) > 0.001 {
		t.Errorf("%v ns of processor time were used, want %v", used, want)
	}
}

// Faults begin, end and come again; what is under way changes its pace.
func TestFaultsChangePace(t *testing.T) {
	for _, host := range []string{"", "box"} {
		w := alone(world.Service{Host: host, Workers: 1, Methods: []world.Method{{Name: "do", Steps: []world.Step{{Compute: constant(100 * msec)}}}}}, 1)
		w.Warmup, w.Length = 0, 2*time.Second
		w.Clients[0].Load = world.Load{Arrivals: []time.Duration{0, 10 * time.Second}}
		// 20 ms of work before, 100 ms at a third, of which 30 ms stopped; 70/3 = 23.3 ms
		// of work; 56.7 ms are left.
		w.Faults = []world.Fault{{At: 20 * msec, For: 100 * msec, Service: "service", Slower: 3}, {At: 50 * msec, For: 30 * msec, Service: "service", Stop: true}}
		m := mustDescribe(t, w, None(), 1)
		if _, err := m.Run(); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint(176 * msec)
		if got := m.Measured().Groups[0].Max.Truncate(msec); fmt.Sprint(got) != want {
			t.Errorf("host %q: the answer came after %v, want %v", host, got, want)
		}
	}
}

// refuser refuses every request, and says when its client should come back.
type refuser struct {
	open.Door
	reason work.Reason
	after  time.Duration
}

func (r refuser) Arrive(now mono.Time, t *admission.Ticket) admission.Verdict {
	t.Begin(now)
	return t.Refuse(now, r.reason)
}

func (r refuser) Feedback(_ mono.Time, t *admission.Ticket) baseline.Feedback {
	return baseline.Feedback{Reason: t.Reason(), Pushback: r.after}
}

// A client that tries again listens to what the server says of when, and whether it makes sense; a stubborn one does not,
// and one that is told nothing doubles its wait.
func TestRetriesListen(t *testing.T) {
	for _, c := range []struct {
		stubborn    bool
		reason      work.Reason
		after       time.Duration
		least, most int
	}{
		{false, work.Delay, 30 * msec, 4, 4}, // after 0, 30, 60 and 90 of 100 ms
		{true, work.Delay, 30 * msec, 6, 8},  // 1 ms, 2, 4 …, each half or one and a half times as long
		{false, work.Delay, 0, 6, 8},
		{false, work.Infeasible, -1, 1, 1},
		{true, work.Infeasible, -1, 6, 8},
	} {
		w := alone(world.Service{Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: constant(msec)}}}}}, 1)
		w.Warmup, w.Length, w.Objective = 0, time.Second, 100*msec
		g := &w.Clients[0]
		g.Kind, g.Deadline, g.Load = world.Plain, 100*msec, world.Load{Arrivals: []time.Duration{0, 10 * time.Second}}
		g.Retry = world.Retry{Attempts: 20, Backoff: msec, Stubborn: c.stubborn}
		door := refuser{reason: c.reason, after: c.after}
		m := mustDescribe(t, w, Control{Name: "refuser", Door: func(uint64, Place) (baseline.Door, error) { return door, nil }}, 1)
		if _, err := m.Run(); err != nil {
			t.Fatal(err)
		}
		if n := m.Measured().Groups[0].Attempts; n < c.least || n > c.most {
			t.Errorf("stubborn %v, %v, told to wait %v: %d attempts, want %d to %d", c.stubborn, c.reason, c.after, n, c.least, c.most)
		}
	}
}

// Gates know what a request does by its method, whoever asks for it, as real ones do.
func TestKindsAreMethods(t *testing.T) {
	w := alone(world.Service{Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: constant(msec)}}}}}, 1)
	other := w.Clients[0]
	other.Name = "others"
	w.Clients = append(w.Clients, other)
	m := mustDescribe(t, w, None(), 1)
	for i := range m.program.stages {
		if kind := m.program.stages[i].Kind(); kind != "do" {
			t.Errorf("stage %d is of the kind %q, want that of its method", i, kind)
		}
	}
}
