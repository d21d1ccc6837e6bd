package bed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

func TestMain(m *testing.M) {
	beFront()
	Child(rude, scheduled, half, Peer{Name: "fifo", Options: rude.Options}) // does not return in the processes of a world
	// What a world leaves behind is counted, and worlds of other packages run at the same time.
	dir, err := os.MkdirTemp("", "bed-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", dir)
	leaks.Verify(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

const ms = time.Millisecond

func wait(d time.Duration) world.Step {
	return world.Step{Wait: &world.Draw{Shape: world.Exponential, Mean: d}}
}

// small is a world of all that a world can have, a second long: an entry that computes
// and calls a store of two replicas, two clients of each kind, a closed loop.
func small() *world.World {
	to := func(service, method string) world.Target { return world.Target{Service: service, Method: method} }
	group := func(name string, kind world.Kind, target world.Target, load world.Load) world.Group {
		return world.Group{Name: name, Clients: 2, Connections: 2, Kind: kind, Ask: []world.Ask{{Target: target}}, Load: load}
	}
	rate := func(r float64) world.Load { return world.Load{Steps: []world.Rate{{PerSecond: r}}} }
	w := &world.World{
		Name: "small", Objective: 200 * ms, Warmup: 300 * ms, Length: 900 * ms,
		Hosts: []world.Host{{Name: "box", Processors: 1}},
		Services: []world.Service{
			{Name: "entry", Host: "box", Methods: []world.Method{{Name: "get", Steps: []world.Step{
				{Compute: &world.Draw{Mean: 100 * time.Microsecond}},
				{Call: []world.Target{to("store", "read"), to("store", "read")}}, wait(ms)}}}},
			{Name: "store", Replicas: 2, Workers: 2, Deaf: true, Methods: []world.Method{
				{Name: "read", Steps: []world.Step{wait(5 * ms)}},
				{Name: "poll", Idle: true, Steps: []world.Step{{Wait: &world.Draw{Mean: 300 * ms}}}}}},
		},
		Clients: []world.Group{
			group("users", world.Credits, to("entry", "get"), rate(60)),
			group("others", world.Plain, to("entry", "get"), rate(40)),
			group("greedy", world.Greedy, to("store", "read"), rate(40)),
			group("polls", world.Plain, to("store", "poll"), world.Load{Users: 3}),
		},
		Network: world.Network{Delay: ms, Jitter: ms},
	}
	w.Clients[0].Arrive = 200 * ms
	w.Clients[1].Retry = world.Retry{Attempts: 3, Backoff: ms, Stubborn: true}
	w.Clients[2].Retry = world.Retry{Attempts: 2, Backoff: ms, Budget: 0.1}
	w.Clients[3].Deadline = -1
	return w
}

// longer plays a world at most three times, each four times as long as before, until play misses
// nothing: a machine that stands still for a second may have no time for what is looked for in one.
func longer(t *testing.T, play func(times time.Duration) (missing string)) {
	t.Helper()
	missing := ""
	for times := time.Duration(1); times <= 16; times *= 4 {
		if missing = play(times); missing == "" || t.Failed() {
			return
		}
		t.Logf("%d times the length: %s", times, missing)
	}
	t.Error(missing)
}

// Every policy and transport plays the small world: what was offered ends in one way each,
// is the same for all of them, and nothing is left of a run.
func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	offered := map[string]int{}
	for _, policy := range []string{"spillgate", "spillgate/http", "spillgate/proxy", "none", "none/http", "semaphore:8:8", "semaphore:16/http"} {
		t.Run(strings.ReplaceAll(policy, "/", " over "), func(t *testing.T) {
			longer(t, func(times time.Duration) (missing string) {
				before := resources(t)
				w := small()
				w.Objective = 10 * 1000 * ms // which the slowest machine meets
				w.Warmup, w.Length = times*w.Warmup, times*w.Length
				p, err := Play(t.Context(), w, policy, 7)
				if err != nil {
					t.Fatal(err)
				}
				for i, g := range p.Report.Groups {
					if ended := g.Good + g.Late + g.Refused + g.Expired + g.Failed; ended != g.Offered {
						t.Errorf("%s: %+v: %d ended", g.Name, g.Counts, ended)
					}
					if open := w.Clients[i].Load.Users == 0; open {
						key := fmt.Sprint(g.Name, times)
						if n, known := offered[key]; known && n != g.Offered {
							t.Errorf("%s: %d offered, %d under another policy", g.Name, g.Offered, n)
						}
						offered[key] = g.Offered
					}
					switch {
					case g.Failed > 0 && w.Clients[i].Arrive == 0:
						t.Errorf("%s: %+v: expected no failures", g.Name, g.Counts)
					case g.Failed > 0 || g.Good+g.Late == 0:
						missing = fmt.Sprintf("%s: %+v: expected connections and answers", g.Name, g.Counts)
					case len(g.Clients) != 2 || g.Clients[0].Offered == 0 || g.Clients[1].Offered == 0:
						missing = fmt.Sprintf("%s: clients %+v, expected two that send", g.Name, g.Clients)
					}
				}
				// What is finished was begun: a part of it in the warm-up.
				within := map[string]map[int]int{} // at the end of the warm-up, by service and replica
				for _, l := range p.Looks {
					if l.Finished > l.Begun || l.Wasted > l.Finished {
						t.Errorf("%+v: more is finished than was begun, or wasted than was finished", l)
					}
					if within[l.Service] == nil {
						within[l.Service] = map[int]int{}
					}
					if l.At <= w.Warmup && !l.Proxy {
						within[l.Service][l.Replica] = l.Begun - l.Finished
					}
				}
				for _, s := range p.Report.Services {
					left := 0
					for _, n := range within[s.Name] {
						left += n
					}
					if s.Finished > s.Begun+left {
						t.Errorf("%+v, and %d under way before: more is finished", s, left)
					}
					if s.Finished == 0 || s.Busy == 0 {
						missing = fmt.Sprintf("%+v: expected work", s)
					}
				}
				if limited := !strings.HasPrefix(policy, "none"); limited != (len(p.Report.Services[0].Limits) > 0) {
					t.Errorf("limits of the entry: %v", p.Report.Services[0].Limits)
				}
				if after := resources(t); after != before {
					t.Errorf("children and descriptors %q before, %q after", before, after)
				}
				return missing
			})
		})
	}
}

// resources tells the children, the descriptors and the bed's directories.
func resources(t *testing.T) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	children := ""
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		children += string(text)
	}
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), "spillgate-bed-*"))
	return children + " " + strconv.Itoa(len(fds)) + " " + strconv.Itoa(len(dirs))
}

// rude refuses every request, and does not say why.
var rude = Peer{Name: "rude", Options: func() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.UnaryInterceptor(func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		return nil, status.Error(codes.ResourceExhausted, "no")
	})}
}}

// A peer stands in front of every service.
func TestPeers(t *testing.T) {
	w := small()
	w.Objective = 10 * 1000 * ms // in which the slowest machine refuses
	w.Clients = w.Clients[1:3]
	p, err := Play(t.Context(), w, "rude", 1, rude)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range p.Report.Groups {
		if g.Offered == 0 || g.Refused != g.Offered {
			t.Errorf("%+v, expected all refused", g)
		}
	}
}

// A run that is cut short leaves nothing behind either.
func TestRunEndsWithItsContext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	before := resources(t)
	w := small()
	w.Length = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Run(ctx, w, "none", 1); err == nil {
		t.Error("no error")
	}
	if after := resources(t); after != before {
		t.Errorf("children and descriptors %q before, %q after", before, after)
	}
}

// A killed service is gone, and there again; a halted one answers nobody, and goes on.
func TestFaults(t *testing.T) {
	for name, f := range map[string]world.Fault{
		"kill":   {At: 500 * ms, For: 300 * ms, Service: "store", Kill: true},
		"stop":   {At: 500 * ms, For: 300 * ms, Service: "store", Stop: true},
		"slower": {At: 500 * ms, For: 300 * ms, Service: "store", Slower: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each of them mostly waits
			longer(t, func(times time.Duration) (missing string) {
				w, f := small(), f
				f.At, f.For = times*f.At, times*f.For
				w.Warmup, w.Length, w.Faults = 0, times*3500*ms, []world.Fault{f}
				w.Clients = w.Clients[2:3]
				r, err := Run(t.Context(), w, "none", 1)
				if err != nil {
					t.Fatal(err)
				}
				lost, back := 0, 0
				for i, b := range r.Bins {
					switch at := time.Duration(i) * r.Bin; {
					case at >= f.At && at < f.At+f.For:
						lost += b.Offered - b.Good
					case at > f.At+f.For:
						back += b.Good
					}
				}
				if lost == 0 || back == 0 {
					return fmt.Sprintf("%d lost while it lasted, %d good after it, expected some of both", lost, back)
				}
				return ""
			})
		})
	}
}

func TestMistakesAreReportedTogether(t *testing.T) {
	w := small()
	w.Objective, w.Services[0].Host, w.Clients[0].Patient = 0, "nowhere", true
	_, err := Run(t.Context(), w, "magic", 1)
	for _, part := range []string{"objective", "nowhere", "clients[0].patient", `"magic"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, expected it to tell of %s", err, part)
		}
	}
}

// scheduled is Spillgate with another queue than its own defaults.
var scheduled = Peer{Name: "scheduled", Order: Order{Kind: Scheduled},
	Gate: func(w *world.World, s *world.Service) live.GateConfig {
		return live.GateConfig{Config: admission.Config{Objective: s.Objective, NoCredit: true, QueueLimit: 1000, Slots: slots.Config{Min: 100, Max: 100, Initial: 100}}}
	}}

// What is inside a service bounds it whatever the order and the transport: a lock of one
// permit for 10 ms serves 100/s at most, and two workers that are given back while a request
// calls serve more than they could if they were kept. Callers who give up early do.
func TestInsideAService(t *testing.T) {
	w := &world.World{Objective: 5 * time.Second, Length: 1500 * ms,
		Services: []world.Service{
			{Name: "front", Workers: 2, Async: true, Locks: []world.Lock{{Name: "door"}}, Methods: []world.Method{
				{Name: "calls", Answer: world.Size{Least: 1000, Most: 5000}, Steps: []world.Step{{Wait: &world.Draw{Mean: 2 * ms}}, {Call: []world.Target{{Service: "back", Method: "do"}}}}},
				{Name: "locks", Steps: []world.Step{{Wait: &world.Draw{Mean: 10 * ms}, Lock: "door"}}}}},
			{Name: "back", Methods: []world.Method{{Name: "do", Steps: []world.Step{{Wait: &world.Draw{Mean: 50 * ms}}}}}}},
		Clients: []world.Group{
			{Name: "callers", Kind: world.Plain, Ask: []world.Ask{{Target: world.Target{Service: "front", Method: "calls"}}}, Load: world.Load{Steps: []world.Rate{{PerSecond: 80}}}},
			{Name: "locked", Kind: world.Plain, Class: work.Interactive, Ask: []world.Ask{{Target: world.Target{Service: "front", Method: "locks"}}}, Load: world.Load{Users: 4}},
			{Name: "hasty", Kind: world.Plain, GiveUp: ms, Ask: []world.Ask{{Target: world.Target{Service: "front", Method: "calls"}}}, Load: world.Load{Steps: []world.Rate{{PerSecond: 20}}}},
		}}
	for _, policy := range []string{"none", "none/http", "scheduled"} {
		p, err := Play(t.Context(), w, policy, 3, rude, scheduled)
		if err != nil {
			t.Fatal(err)
		}
		callers, locked, hasty := p.Stretch(0, 0, w.Length), p.Stretch(1, 0, w.Length), p.Stretch(2, 0, w.Length)
		if callers.Answered() != callers.Offered || callers.Offered < 60 { // kept, two workers would serve 60 in this time
			t.Errorf("%s: callers %+v", policy, callers)
		}
		if n := locked.Answered(); n == 0 || n > 155 {
			t.Errorf("%s: %d went through a door that lets 150 pass", policy, n)
		}
		if hasty.By[Expired] < hasty.Offered*9/10 {
			t.Errorf("%s: hasty callers %+v, expected that they give up", policy, hasty)
		}
		// Whether anybody waited for a worker is the machine's affair.
		if l := p.Law(); l.Arrived < callers.Offered+locked.Answered() {
			t.Errorf("%s: the workers had %+v", policy, l)
		}
	}
}

// Takes abreast are like takes alone, one that the machine disturbed is made again as often
// as may be, and the first error ends all.
func TestAbreast(t *testing.T) {
	w := small()
	w.Warmup, w.Length, w.Clients = 0, 400*ms, w.Clients[1:3]
	takes := []Take{{w, "none", 1}, {w, "semaphore:8:8", 1}}
	again, calls := 1, 0
	out, void, err := Counted(t.Context(), &again, func(take Take, _ *Played) string {
		calls++
		return map[string]string{"none": "late"}[take.Policy]
	}, takes)
	if err != nil || again != 0 || calls != 4 || len(void) != 1 || !strings.HasPrefix(void[0], "small, none, seed 1: late") {
		t.Errorf("%v, %d left, asked %d times: %q", err, again, calls, void)
	}
	for i := range out[0].Requests {
		if a, b := out[0].Requests[i], out[1].Requests[i]; len(a) != len(b) || len(a) == 0 {
			t.Errorf("%d and %d requests", len(a), len(b))
		}
	}
	takes[1].Policy = "magic"
	if _, err := abreast(t.Context(), takes); err == nil || !strings.Contains(err.Error(), "magic, seed 1: ") {
		t.Errorf("error %v", err)
	}
}
