package tracers

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/needs"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// objective is the shops' latency objective. It is large because a busy machine
// must not look like an overloaded shop.
const objective = 250 * time.Millisecond

// healthy is for how long each shop is watched without a report.
var healthy = flag.Duration("healthy", 2*time.Second, "how long TestNoCancelInAHealthyShop watches each shop")

// shop is the example server of a language.
type shop struct {
	name    string
	command func(t *testing.T) []string
}

func shops() []shop {
	return []shop{
		{"go", func(t *testing.T) []string {
			program := filepath.Join(t.TempDir(), "shop")
			Run(t, nil, needs.Program(t, "go"), "build", "-o", program, filepath.Join(Root(), "examples/culprit-go/main.go"))
			return []string{program}
		}},
		{"c", func(t *testing.T) []string {
			return []string{C(t, []string{"-O2", "-I" + filepath.Join(Root(), "tracer/c")}, "examples/culprit-c/culprit.c", "tracer/c/spillgate_tracer.c")}
		}},
		{"java", func(t *testing.T) []string {
			return []string{needs.Program(t, "java"), "-cp", Jar(t, "examples/culprit-java/Culprit.java"), "Culprit"}
		}},
	}
}

// watch starts a shop, the engine beside it, and customers who order from it.
func (s *shop) watch(t *testing.T) (url string, e *enforcer, orders *atomic.Int64) {
	t.Helper()
	needs.Dir(t, "/proc/self/ns") // Linux
	path := filepath.Join(t.TempDir(), "tasks")
	engine, err := taskfile.Attach(path, taskfile.Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	url = start(t, append(s.command(t), path))
	e = &enforcer{t: t, engine: engine}
	e.start()
	t.Cleanup(e.stop)
	orders = customers(t, url)
	await(t, "orders are served", func() bool { return orders.Load() > 50 && e.samples.Load() > 20 })
	return url, e, orders
}

// TestNoCancelInAHealthyShop orders from each shop, with bursts and pauses. The engine must cancel no order.
func TestNoCancelInAHealthyShop(t *testing.T) {
	for _, shop := range shops() {
		t.Run(shop.name, func(t *testing.T) {
			t.Parallel()
			url, e, orders := shop.watch(t)
			for until := time.Now().Add(*healthy); time.Now().Before(until); time.Sleep(300 * time.Millisecond) {
				var burst sync.WaitGroup
				for range 32 {
					burst.Go(func() {
						if resp, err := http.Get(url + "/order"); err == nil { // else the listener's queue was full
							resp.Body.Close()
						}
					})
				}
				burst.Wait()
			}
			e.stop()
			if len(e.cancelled) > 0 {
				t.Errorf("cancelled after %d orders: %s; expected no cancel", orders.Load(), strings.Join(e.cancelled, ", "))
			}
		})
	}
}

// TestTheCulpritOfEachShop starts the example server of each language, orders
// from it, and asks for a report, which keeps the orders waiting. The engine has
// to cancel the report and nothing else.
func TestTheCulpritOfEachShop(t *testing.T) {
	for _, shop := range shops() {
		t.Run(shop.name, func(t *testing.T) {
			url, e, orders := shop.watch(t)
			if status := get(t, url+"/report"); status != http.StatusServiceUnavailable {
				t.Errorf("the report's status is %d", status)
			}
			before := orders.Load()
			await(t, "orders are served again", func() bool { return orders.Load() > before+50 })
			e.stop()
			if got := strings.Join(e.cancelled, ", "); got != "GET /report" {
				t.Errorf("cancelled: %s; expected one report", got)
			}
		})
	}
}

// start runs a shop until the test ends, or its process is killed, and returns
// its URL.
func start(t *testing.T, command []string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	shop, err := proc.Start(ctx, proc.Spec{Path: command[0], Args: command[1:], ReadyTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shop.Stop(0) })
	return shop.Addr()
}

// customers order until the test ends, eight at a time; what is served is
// counted.
func customers(t *testing.T, url string) *atomic.Int64 {
	var served atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/order", nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					continue // the test is over, or the listener's queue was full
				}
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					served.Add(1)
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	return &served
}

func get(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// enforcer does what the engine decides, each 50 ms.
type enforcer struct {
	t         *testing.T
	engine    *taskfile.Engine
	policy    *culprit.Engine
	cancel    context.CancelFunc
	all       sync.WaitGroup
	once      sync.Once
	samples   atomic.Int64
	cancelled []string // kinds

	starvation culprit.Starvation
	taken      float64 // by others than the shop, of the processors, as of at
	at         time.Time
	own, used  time.Duration // by the shop, by all programs
}

// others measures which part of the processors others than the shop use.
func (e *enforcer) others(shop int) float64 {
	now := time.Now()
	span := now.Sub(e.at)
	if span < 200*time.Millisecond {
		return e.taken
	}
	own, _ := procfs.CPU(int64(shop))
	all, n := procfs.BusyFor(int64(shop))
	if e.taken = 0; e.used > 0 && n > 0 {
		e.taken = min(max(float64((all-e.used)-(own-e.own))/float64(span)/float64(n), 0), 1)
	}
	e.at, e.own, e.used = now, own, all
	return e.taken
}

func (e *enforcer) start() {
	var err error
	if e.policy, err = culprit.New(culprit.Config{Objective: objective, Mode: culprit.Enforce}); err != nil {
		e.t.Fatal(err)
	}
	if err := e.engine.SetMode(taskfile.Coarse); err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.all.Go(func() {
		loop := taskfile.Loop{Period: 50 * time.Millisecond, Objective: objective, See: e.see}
		if err := e.engine.Run(ctx, loop); !errors.Is(err, context.Canceled) {
			e.t.Error(err)
		}
	})
}

// see hands a look to the engine and carries its action out.
func (e *enforcer) see(look *taskfile.Look) {
	e.samples.Add(1)
	if n := len(look.Origins); n > 0 {
		e.starvation.Enter(&look.Sample, -1, e.others(look.Origins[n-1].PID), 0, 1)
	}
	action := e.policy.Observe(&look.Sample).Action
	if action.Step == culprit.NoStep {
		return
	}
	for _, task := range look.Sample.Tasks {
		if task.ID == action.Task {
			e.cancelled = append(e.cancelled, e.engine.KindName(task.Kind))
		}
	}
	if err := e.engine.Cancel(action.Task, taskfile.Culprit); err != nil && !errors.Is(err, taskfile.ErrEnded) {
		e.t.Error(err)
	}
}

func (e *enforcer) stop() {
	e.once.Do(func() {
		e.cancel()
		e.all.Wait()
		if err := e.engine.Close(); err != nil {
			e.t.Error(err)
		}
	})
}

// await waits for a condition, for longer than any machine needs.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
	}
}
