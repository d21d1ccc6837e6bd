package stage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/work"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// collector reads a part's lines.
type collector struct {
	mu    sync.Mutex
	lines []Line
	addr  chan string
}

// play runs a part until stop is called, which returns its error and lines.
func play(t *testing.T, run func(context.Context, *writer) error) (*collector, func() ([]Line, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	c := &collector{addr: make(chan string, 1)}
	var reading sync.WaitGroup
	reading.Go(func() {
		scan := bufio.NewScanner(r)
		scan.Buffer(nil, 1<<20)
		for scan.Scan() {
			if addr, ok := strings.CutPrefix(scan.Text(), "listening on "); ok {
				c.addr <- addr
				continue
			}
			var l Line
			if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
				t.Errorf("not a line: %q: %v", scan.Text(), err)
			}
			c.mu.Lock()
			c.lines = append(c.lines, l)
			c.mu.Unlock()
		}
	})
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, &writer{out: w})
		_ = w.Close()
	}()
	return c, func() ([]Line, error) {
		cancel()
		err := <-ended
		reading.Wait()
		return c.lines, err
	}
}

// chain starts the three services and returns the entry's address and what ends
// them, with the last report of each and the most clients any report of it had:
// clients leave one by one before the last.
func chain(t *testing.T, gated bool, objective time.Duration, workers int, mean time.Duration) (string, func() map[string]Report) {
	t.Helper()
	return chainOf(t, Service{Gated: gated, Objective: objective}, workers, mean)
}

// chainOf is chain for services like the one given.
func chainOf(t *testing.T, like Service, workers int, mean time.Duration) (string, func() map[string]Report) {
	t.Helper()
	next := ""
	var stops []func() ([]Line, error)
	for _, name := range []string{"store", "middle", "entry"} {
		s := like
		s.Name, s.Next = name, next
		if next == "" {
			s.Workers, s.Mean, s.Seed = workers, mean, 1
		}
		c, stop := play(t, s.run)
		stops = append(stops, stop)
		select {
		case next = <-c.addr:
		case <-time.After(time.Minute):
			t.Fatalf("%s does not listen", name)
		}
	}
	return next, func() map[string]Report {
		reports := map[string]Report{}
		for _, stop := range stops {
			lines, err := stop()
			if err != nil {
				t.Error(err)
			}
			for _, l := range lines {
				if l.Service == nil {
					continue
				}
				r := *l.Service
				r.Clients = max(r.Clients, reports[r.Name].Clients)
				reports[r.Name] = r
			}
		}
		return reports
	}
}

// load runs a load to its end.
func load(t *testing.T, l Load) []Line {
	t.Helper()
	r, w := io.Pipe()
	var lines []Line
	var reading sync.WaitGroup
	reading.Go(func() {
		decoder := json.NewDecoder(r)
		for {
			var l Line
			if decoder.Decode(&l) != nil {
				return
			}
			lines = append(lines, l)
		}
	})
	err := l.run(t.Context(), &writer{out: w})
	_ = w.Close()
	reading.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func outcome(t *testing.T, lines []Line) (Outcome, []Point) {
	t.Helper()
	var points []Point
	for _, l := range lines {
		if l.Progress != nil {
			points = append(points, l.Progress.New...)
		}
	}
	last := lines[len(lines)-1].Outcome
	if last == nil {
		t.Fatal("the last line is no outcome")
	}
	return *last, points
}

// Four times what the store can do for a second, plain and gated: every request
// has an end, and only gates refuse. (How many are served in time is up to the
// machine, and the demo's to show.)
func TestOverloadPlainAndGated(t *testing.T) {
	const mean, workers = 50 * time.Millisecond, 2
	for _, gated := range []bool{false, true} {
		t.Run(fmt.Sprintf("gated=%v", gated), func(t *testing.T) {
			entry, stop := chain(t, gated, 200*time.Millisecond, workers, mean)
			o, points := outcome(t, load(t, Load{
				Target: entry, Conns: 6, Gated: gated, Objective: 200 * time.Millisecond, Timeout: 10 * time.Second, Seed: 3,
				Steps: openloop.Profile{{Rate: 160, For: time.Second}, {Rate: 20, For: 500 * time.Millisecond}},
			}))
			reports := stop()
			tot := o.Totals
			if ended := tot.Served + tot.Refused + tot.TimedOut + tot.Failed; ended != tot.Offered || tot.Offered < 80 {
				t.Errorf("%d requests ended of %d offered, want all, of about 170: %+v", ended, tot.Offered, tot)
			}
			if tot.Failed != 0 {
				t.Errorf("%d requests failed", tot.Failed)
			}
			if len(points) != 6 || points[0].T != 0.25 || points[5].T != 1.5 {
				t.Errorf("points are %+v, want six of a quarter of a second", points)
			}
			if len(o.Steps) != 2 || o.Steps[1].From != 1 || o.Steps[1].To != 1.5 {
				t.Errorf("steps are %+v", o.Steps)
			}
			var here uint64
			for _, n := range tot.Unsent {
				here += n
			}
			for name, r := range reports {
				for reason, n := range r.Shed {
					if !known(reason) {
						t.Errorf("%s refused for %q", name, reason)
					}
					here += n
				}
				if r.Gated != gated {
					t.Errorf("%s says gated=%v", name, r.Gated)
				}
			}
			if reports["store"].Work == nil || reports["store"].Work.Finished == 0 {
				t.Errorf("the store finished nothing: %+v", reports["store"])
			}
			switch {
			case !gated && (tot.Refused != 0 || here != 0):
				t.Errorf("plain services refused %d requests, counted %d", tot.Refused, here)
			case gated && (tot.Refused == 0 || here == 0):
				t.Errorf("gated services at four times the capacity refused %d requests, counted %d; want some", tot.Refused, here)
			}
			if gated && reports["entry"].Clients != 6 {
				t.Errorf("the entry knows %d clients, want 6", reports["entry"].Clients)
			}
		})
	}
}

func known(reason string) bool {
	for r := range work.NumReasons {
		if work.Reason(r).String() == reason {
			return true
		}
	}
	return false
}

func TestSearchFindsACapacity(t *testing.T) {
	entry, stop := chain(t, false, 10*time.Second, 4, 10*time.Millisecond)
	lines := load(t, Load{
		Target: entry, Conns: 4, Objective: 10 * time.Second, Timeout: 20 * time.Second, Seed: 1,
		Try: 500 * time.Millisecond, Retake: 500 * time.Millisecond,
	})
	stop()
	tries := 0
	for _, l := range lines {
		if l.Try != nil {
			tries++
		}
	}
	found := lines[len(lines)-1].Capacity
	// 400/s, but for completions at the borders of the short retake.
	if found == nil || found.Rate <= 0 || found.Rate > 600 || tries < 4 {
		t.Errorf("found %+v after %d tries, want at most 600/s", found, tries)
	}
}

func TestRecovery(t *testing.T) {
	for _, test := range []struct {
		met  []float64
		want float64
	}{
		{[]float64{1, 1, 1}, 0},
		{[]float64{0.2, 1, 1}, 0.25},
		{[]float64{0, 1, 0.5, 0.95}, 0.75}, // it counts from where it stays well
		{[]float64{1, 1, 0.89}, -1},
		{nil, 0},
	} {
		if got := recovery(test.met, 250*time.Millisecond); got != test.want {
			t.Errorf("recovery(%v) = %v, want %v", test.met, got, test.want)
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	for _, test := range []struct {
		err  error
		want measure.Outcome
	}{
		{nil, measure.Outcome{Kind: measure.Served}},
		{status.Error(codes.DeadlineExceeded, ""), measure.Outcome{Kind: measure.TimedOut}},
		{status.Error(codes.Unavailable, ""), measure.Outcome{Kind: measure.Failed, Reason: "Unavailable"}},
		{errors.New("broken"), measure.Outcome{Kind: measure.Failed, Reason: "Unknown"}},
	} {
		if got := outcomeOf(test.err, newTally()); got != test.want {
			t.Errorf("%v: %+v, want %+v", test.err, got, test.want)
		}
	}
}

// What is wrong with a part is said before anything is started.
func TestMistakes(t *testing.T) {
	for _, test := range []struct {
		run  func(context.Context, *writer) error
		want string
	}{
		{Service{Name: "x"}.run, "objective is 0s"},
		{Service{Name: "x", Objective: 1}.run, "0 workers of 0s"},
		{Load{}.run, "0 connections"},
		{Load{Conns: 1, Objective: 2, Timeout: 1}.run, "not below the objective"},
		{Load{Conns: 1, Objective: 1, Timeout: 1}.run, "no steps"},
		{Load{Conns: 1, Objective: 1, Timeout: 1, Tenants: []Tenant{{Name: "a,b"}}}.run, `called "a,b"`},
		{Load{Conns: 1, Objective: 1, Timeout: 1, Tenants: []Tenant{{Name: "a"}, {Name: "a"}}}.run, `called "a"`},
		{Load{Conns: 1, Objective: 1, Timeout: 1, Tenants: []Tenant{{Name: "a"}}}.run, "tenant a: "},
		{Shop{Name: "x"}.run, "0 workers of 0s"},
		{Load{Conns: 1, Objective: 1, Timeout: 1, Flows: []Flow{{Name: "orders"}}}.run, `called "orders"`},
		{Load{Conns: 1, Objective: 1, Timeout: 1, Flows: []Flow{{Name: Reads}}}.run, "reads have no targets"},
		{Load{Conns: 1, Objective: 1, Timeout: 1, Flows: []Flow{{Name: Reads}}, Tenants: []Tenant{{Name: "a"}}}.run, "expected one of them"},
	} {
		if err := test.run(t.Context(), &writer{out: io.Discard}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want an error with %q", err, test.want)
		}
	}
}

// Tenants play at once and are told apart everywhere, and who is away sends
// nothing.
func TestTenantsShareServices(t *testing.T) {
	entry, stop := chainOf(t, Service{Gated: true, Tenants: true, Objective: 300 * time.Millisecond}, 4, 50*time.Millisecond)
	steps := func(before, during float64) openloop.Profile {
		return openloop.Profile{{Rate: before, For: 500 * time.Millisecond}, {Rate: during, For: 500 * time.Millisecond}}
	}
	lines := load(t, Load{
		Conns: 2, Target: entry, Gated: true, Objective: 300 * time.Millisecond, Timeout: 10 * time.Second, Seed: 3,
		Tenants: []Tenant{{"a", steps(25, 25)}, {"c", steps(0, 320)}},
	})
	reports := stop()
	outcomes, points := map[string]Outcome{}, map[string][]Point{}
	for _, l := range lines {
		if l.Progress != nil {
			points[l.Progress.Tenant] = append(points[l.Progress.Tenant], l.Progress.New...)
		}
		if l.Outcome != nil {
			outcomes[l.Outcome.Tenant] = *l.Outcome
		}
	}
	if len(outcomes) != 2 || len(points["a"]) != 4 || len(points["c"]) != 4 {
		t.Fatalf("outcomes %+v, points %+v; want two tenants with four points each", outcomes, points)
	}
	a, c := outcomes["a"], outcomes["c"]
	if a.Steps[0].Offered == 0 || a.Steps[1].Offered == 0 || c.Steps[0].Offered != 0 || c.Steps[1].Offered == 0 {
		t.Errorf("offered %+v and %+v, want c to come in the second step", a.Steps, c.Steps)
	}
	for name, o := range outcomes {
		if tot := o.Totals; tot.Served+tot.Refused+tot.TimedOut+tot.Failed != tot.Offered || tot.Failed != 0 {
			t.Errorf("tenant %s: not every request ended, or some failed: %+v", name, tot)
		}
	}
	if c.Totals.Refused == 0 {
		t.Error("a tenant with four times the capacity had nothing refused")
	}
	for name, r := range reports {
		if !r.Gated {
			t.Errorf("%s has no gate", name)
		}
	}
}
