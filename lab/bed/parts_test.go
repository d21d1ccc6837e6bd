package bed

import (
	"context"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

func TestPolicies(t *testing.T) {
	for text, want := range map[string]policy{
		"spillgate":          {kind: credited, over: overGRPC},
		"spillgate/proxy":    {kind: credited, over: overProxy},
		"none/http":          {kind: nothing, over: overHTTP},
		"none/proxy":         {kind: nothing, over: overProxy},
		"semaphore:8":        {kind: bounded, over: overGRPC, limit: 8},
		"semaphore:8:0":      {kind: bounded, over: overGRPC, limit: 8},
		"semaphore:8:2/http": {kind: bounded, over: overHTTP, limit: 8, queue: 2},
	} {
		if got, err := parsePolicy(text, nil); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	peers := []Peer{{Name: "magic"}}
	if got, err := parsePolicy("magic", peers); err != nil || got.peer != &peers[0] || got.over != overGRPC {
		t.Errorf("the peer: %+v, %v", got, err)
	}
	for _, text := range []string{"", "magic", "spill", "spillgate:1", "semaphore:8/proxy", "fifo/proxy", "none/udp", "semaphore", "semaphore:0", "semaphore:x", "semaphore:1:-1", "semaphore:1:x"} {
		if p, err := parsePolicy(text, nil); err == nil {
			t.Errorf("%q: %+v, want an error", text, p)
		}
	}
}

// The means of all shapes are what they say, and each number draws the same each time.
func TestDrawsHaveTheirMean(t *testing.T) {
	for _, d := range []world.Draw{
		{Shape: world.Constant, Mean: 10 * ms},
		{Shape: world.Exponential, Mean: 10 * ms},
		{Shape: world.Pareto, Param: 3, Mean: 10 * ms},
		{Shape: world.Lognormal, Param: 0.5, Mean: 10 * ms},
		{Shape: world.Weighted, Points: []world.Point{{Value: 5 * ms, Weight: 3}, {Value: 25 * ms, Weight: 1}}, Mean: 10 * ms},
		{Shape: world.Weighted, Points: []world.Point{{Value: 10 * ms, Weight: 1}}, Spread: true, Mean: 10 * ms},
	} {
		const n = 50_000
		sum := 0.0
		for id := range uint64(n) {
			got := draw(&d, mix(id), 1)
			if again := draw(&d, mix(id), 1); again != got {
				t.Fatalf("%+v: %v and then %v", d, got, again)
			}
			sum += float64(got)
		}
		if mean := sum / n / float64(10*ms); math.Abs(mean-1) > 0.02 {
			t.Errorf("%+v: the mean is %.3f of what it says", d, mean)
		}
	}
}

func TestProfile(t *testing.T) {
	steps := []world.Rate{{Times: 0.5}, {At: time.Second, PerSecond: 500, For: 100 * ms, Every: 400 * ms}, {At: 2 * time.Second, PerSecond: 10}}
	var want openloop.Profile
	for _, s := range []openloop.Step{{Rate: 50, For: time.Second}, {Rate: 500, For: 100 * ms}, {Rate: 50, For: 300 * ms}, {Rate: 500, For: 100 * ms},
		{Rate: 50, For: 300 * ms}, {Rate: 500, For: 100 * ms}, {Rate: 50, For: 100 * ms}, {Rate: 10, For: time.Second}} {
		want = append(want, s)
	}
	if got := profile(steps, 3*time.Second, 100); !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant\n%v", got, want)
	}
}

func TestReplayStartsAgain(t *testing.T) {
	r := &replay{trace: []time.Duration{1, 3, 6}, until: 20}
	var got []time.Duration
	for at, ok := r.Next(); ok; at, ok = r.Next() {
		got = append(got, at)
	}
	if want := []time.Duration{1, 3, 6, 9, 11, 14, 17, 19}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestPlaces(t *testing.T) {
	w := small()
	w.Hosts = append(w.Hosts, world.Host{Name: "other", Processors: 1})
	w.Services[1].Host = "other"
	w.Services[1].Methods[0].Steps[0] = world.Step{Compute: &world.Draw{Mean: ms}}
	p, err := newPlan(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cpus         []int
		entry, store []int
		crowded      bool
	}{
		{[]int{0}, []int{0}, []int{0}, true},
		{[]int{0, 1}, []int{0}, []int{0}, true},
		{[]int{2, 3, 5}, []int{2}, []int{3}, false},
	} {
		at, err := newPlace(p, c.cpus)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(at.services["entry"], c.entry) || !reflect.DeepEqual(at.services["store"], c.store) || (at.crowded(p) != "") != c.crowded {
			t.Errorf("on %v: %+v, %q", c.cpus, at, at.crowded(p))
		}
	}
	p.Hosts[0].Processors = 4
	if at, err := newPlace(p, []int{0, 1}); err == nil {
		t.Errorf("four processors of two: %+v, want an error", at)
	}
}

// Several services that mostly wait have all processors, one alone leaves the clients theirs.
func TestPlacesOfThoseWhoWait(t *testing.T) {
	w := small()
	w.Hosts, w.Services[0].Host = nil, ""
	w.Services[0].Methods[0].Steps[0] = wait(ms)
	for _, c := range []struct {
		change func()
		store  []int
	}{
		{func() {}, []int{0, 1}},
		{func() { w.Services[0].Methods[0].Steps[0] = world.Step{Compute: &world.Draw{Mean: ms}} }, []int{0}},
		{func() { w.Services, w.Clients = w.Services[1:], w.Clients[2:]; w.Services[0].Replicas = 1 }, []int{0}},
	} {
		c.change()
		p, err := newPlan(w)
		if err != nil {
			t.Fatal(err)
		}
		at, err := newPlace(p, []int{0, 1})
		if err != nil || !reflect.DeepEqual(at.services["store"], c.store) || !reflect.DeepEqual(at.clients, []int{1}) {
			t.Errorf("%+v, %v, want the store on %v", at, err, c.store)
		}
	}
}

// One runs, one waits, the third is refused; who gives up while waiting never runs.
func TestSemaphore(t *testing.T) {
	s := newSemaphore(1, 1)
	begun, free := make(chan bool), make(chan bool)
	ends := make(chan error, 2)
	go func() {
		ends <- s.do(t.Context(), func() error { begun <- true; <-free; return nil })
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ends <- s.do(ctx, func() error { t.Error("it ran"); return nil })
	}()
	for len(s.waiting) < 2 {
		time.Sleep(ms)
	}
	if err := s.do(t.Context(), func() error { return nil }); err == nil || endOf(err).reason != work.QueueFull {
		t.Errorf("the third: %v, want a full queue", err)
	}
	cancel()
	if err := <-ends; endOf(err).reason != work.Canceled {
		t.Errorf("who gave up: %v", err)
	}
	close(free)
	if err := <-ends; err != nil {
		t.Error(err)
	}
	if len(s.waiting)+len(s.running) > 0 || s.refused[work.QueueFull].Load() != 1 || s.refused[work.Canceled].Load() != 1 {
		t.Errorf("%d wait and %d run, refused %d and %d", len(s.waiting), len(s.running), s.refused[work.QueueFull].Load(), s.refused[work.Canceled].Load())
	}
}

func TestTally(t *testing.T) {
	w := small()
	w.Warmup, w.Length = 500*ms, 1300*ms
	p, err := newPlan(w)
	if err != nil {
		t.Fatal(err)
	}
	tally := newTally(p, &p.Clients[0])
	for _, o := range []one{
		{intended: 499 * ms, took: ms, attempts: 1, end: end{kind: served}}, // in the warm-up
		{intended: 500 * ms, took: 200 * ms, attempts: 1, end: end{kind: served}},
		{intended: 510 * ms, took: 201 * ms, attempts: 2, client: 1, end: end{kind: served}},
		{intended: 599 * ms, took: 2 * ms, end: end{kind: refused, reason: work.Delay}},
		{intended: 600 * ms, took: 200 * ms, attempts: 1, end: end{kind: expired}},
		{intended: 700 * ms, attempts: 1, end: end{kind: failed}},
	} {
		tally.add(o)
	}
	tally.skip(700*ms, 3)
	r := tally.result()
	g := r.Group
	if want := (world.Counts{Offered: 8, Good: 1, Late: 1, Refused: 1, Expired: 1, Failed: 4, Attempts: 5}); g.Counts != want {
		t.Errorf("%+v, want %+v", g.Counts, want)
	}
	if g.P50 != 200*ms || g.P99 != 201*ms || g.Max != 201*ms || g.Told != 2*ms || g.Reasons[work.Delay] != 1 || g.Clients[1].Late != 1 {
		t.Errorf("%+v", g)
	}
	if r.Bins[4].Good != 1 || r.Bins[5] != (world.Counts{Offered: 3, Good: 1, Late: 1, Refused: 1, Attempts: 3}) || r.Bins[7].Failed != 4 {
		t.Errorf("bins %+v", r.Bins[4:8])
	}
}

func TestRecordVoids(t *testing.T) {
	for _, c := range []struct {
		r    Record
		void bool
	}{
		{Record{SendLag: 10 * ms, Stolen: 0.15, Others: 0.04, Clients: 0.9}, false},
		{Record{SendLag: 10*ms + 1}, true}, {Record{Stolen: 0.16}, true}, {Record{Others: 0.05}, true}, {Record{Clients: 0.95}, true}, {Record{Crowded: "so"}, true},
	} {
		if got := c.r.void(100 * ms); (got != "") != c.void {
			t.Errorf("%+v: %q", c.r, got)
		}
	}
}

func TestCycles(t *testing.T) {
	g := &group{Group: &world.Group{Cycle: 3}, seed: 1}
	once := &group{Group: &world.Group{}, seed: 1}
	for i := range 9 {
		if g.id(i) != g.id(i+3) || g.id(i) == g.id(i+1) || once.id(i) == once.id(i+3) {
			t.Errorf("request %d: %x, three later %x; without a cycle %x and %x", i, g.id(i), g.id(i+3), once.id(i), once.id(i+3))
		}
	}
}

func TestAnswersHaveTheirSize(t *testing.T) {
	m := &world.Method{Answer: world.Size{Least: 10, Most: 12}}
	seen := map[int]bool{}
	for id := range uint64(100) {
		seen[answerSize(m, mix(id))] = true
	}
	if !reflect.DeepEqual(seen, map[int]bool{10: true, 11: true, 12: true}) {
		t.Errorf("sizes %v, want 10 to 12", seen)
	}
}
