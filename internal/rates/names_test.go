package rates

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

func plain(t testing.TB, cfg Config) *Adapter {
	t.Helper()
	cfg.Resources = []Resource{{"workers", 1}}
	a, err := New(0, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestNames(t *testing.T) {
	a := plain(t, Config{MaxWorkflows: 3, MaxPeers: 3, Forget: time.Second})
	if a.Workflow(0, "") != 0 || a.Workflow(0, strings.Repeat("x", nameLimit+1)) != 0 {
		t.Error("a workflow without a name, or with too long a one, is not the default one")
	}
	x, y := a.Workflow(0, "x"), a.Workflow(0, "y")
	if x == 0 || y == 0 || x == y || a.Workflow(0, "x") != x {
		t.Errorf("x is %d and %d, y is %d", x, a.Workflow(0, "x"), y)
	}
	if a.Workflow(0, "z") != 0 || a.Stats().NoRoom != 1 {
		t.Error("a workflow beyond the limit is not the default one")
	}
	// y is silent for a second and is forgotten; its number is not z's.
	now := mono.Time(0)
	for range 12 {
		now = now.Add(100 * time.Millisecond)
		a.OnArrival(now, &Request{Workflow: x, Deadline: mono.Never})
		a.OnWake(now, Signals{})
	}
	z := a.Workflow(now, "z")
	if z == 0 || z == y || place(uint32(z)) != place(uint32(y)) {
		t.Errorf("z is %d, y was %d: want y's place under another number", z, y)
	}
	old := Request{Workflow: y, Deadline: mono.Never}
	a.OnArrival(now, &old)
	a.OnWake(now.Add(100*time.Millisecond), Signals{})
	if st, _ := a.State(z); st.Offered != 0 {
		t.Errorf("z counts %v/s that came under y's number", st.Offered)
	}
	if st, _ := a.State(0); st.Offered == 0 {
		t.Error("what came under a forgotten number is not in the default workflow")
	}
	if a.Rate(y) != NoLimit || a.Announce(y, 0) != NoLimit || a.OnRate(now, y, 0, 3) {
		t.Error("a forgotten number has a rate")
	}

	p, q := a.Peer(now, "s", "p"), a.Peer(now, "s", "q")
	r := a.Peer(now.Add(1), "s", "r") // p goes, it came first
	if again := a.Peer(now.Add(1), "s", "r"); again != r || a.Peer(now.Add(2), "s", "q") != q {
		t.Error("names of peers do not keep their numbers")
	}
	if _, ok := a.peers.at(uint32(p)); ok || a.Stats().Evicted != 1 {
		t.Error("the peer not heard of for longest was not forgotten")
	}
	if a.Peer(now, "s", "") != 0 {
		t.Error("a process without a name has a number")
	}
}

// TestItselfIsNotForgotten, though it calls itself and falls silent, and others
// need its place.
func TestItselfIsNotForgotten(t *testing.T) {
	a := plain(t, Config{Service: "s", Process: "me", MaxPeers: 3, Forget: time.Second})
	me := a.Peer(0, "s", "me")
	r := Request{From: me, Deadline: mono.Never}
	a.OnArrival(0, &r)
	a.OnCall(0, &r, me, 0)
	a.Peer(1, "s", "p")
	a.Peer(2, "s", "q") // in p's place
	for i := range 20 {
		a.OnWake(mono.Time(i)*mono.Time(100*time.Millisecond), Signals{})
	}
	if again := a.Peer(mono.Time(3*time.Second), "s", "me"); again != me || place(uint32(me)) != a.self {
		t.Errorf("this process is %d, was %d", again, me)
	}
}

// TestCycle: p calls q, which calls p for the same workflow. When p's overload is
// over, its limit rises, although q repeats what p announced to it.
func TestCycle(t *testing.T) {
	g := newGraph(t)
	p := g.add("p", "p0", 100, Config{})
	q := g.add("q", "q0", 1000, Config{})
	in := p.handle("w", 1, edge{q, 0.5})
	q.handle("w", 1, edge{p, 1})
	in.offered = 120
	for range 50 {
		g.step()
	}
	overloaded := p.rate("w")
	in.offered = 20
	for range 100 {
		g.step()
	}
	t.Logf("%.1f/s in the overload, %.1f/s after it", overloaded, p.rate("w"))
	if overloaded > 110 || p.rate("w") < NoLimit {
		t.Errorf("%.1f/s in the overload, %.1f/s after it; want about 100, and no limit", overloaded, p.rate("w"))
	}
}

// TestQuantileIsLearned: eleven processes with fixed rates, one workflow that
// wants more than all of them. The search ends near the newsvendor's quantile
// from wherever it starts, on nothing but refusals and unused room.
func TestQuantileIsLearned(t *testing.T) {
	for _, idleCost := range []float64{1.0 / 3, 1, 3} {
		a := plain(t, Config{IdleCost: idleCost})
		w := a.Workflow(0, "w")
		var down []Peer
		for i := range 11 {
			down = append(down, a.Peer(0, "d", fmt.Sprint(i)))
		}
		now := mono.Time(0)
		rate := NoLimit
		for period := range 4000 {
			calls := math.Min(rate, 5000) * 0.1 / 11
			r := Request{Workflow: w, Deadline: mono.Never}
			a.OnArrival(now, &r)
			for i, d := range down {
				a.OnCall(now, &r, d, 0)
				capacity := 100 + 10*float64(i)
				l := a.flow(w).link(place(uint32(d)))
				l.sent = calls
				l.shed = math.Max(calls-capacity*0.1, 0)
				a.OnRate(now, w, d, capacity)
			}
			f := a.flow(w)
			f.arrived, f.sources[0].arrived = 500, 500
			a.OnDone(now, &r, work.Done)
			// One request stood for eleven that make a call each.
			f.completed = 11
			if period == 20 {
				f.branches[0].q = 1
			}
			now = now.Add(100 * time.Millisecond)
			a.OnWake(now, Signals{})
			rate = a.Rate(w)
		}
		if got, want := a.AppendLinks(now, w, nil)[0].Quantile, bestQuantile(idleCost); math.Abs(got-want) > 0.1 {
			t.Errorf("idle cost %.2f: quantile %.3f, want about %.2f", idleCost, got, want)
		}
	}
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	_, err := New(0, Config{
		Resources: []Resource{{"workers", -1}}, Policy: 9, Terms: map[string]Terms{"b": {Weight: -1}, "a": {Guarantee: math.Inf(1)}},
		Period: 1, Quantile: 2, IdleCost: math.NaN(), Headroom: 0.7, Probe: -1, Hold: -1, Stale: -2, Forget: -1, MaxWorkflows: 1 << 20, QueueLimit: -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, l := range lines {
		if !strings.Contains(l, "expected") {
			t.Errorf("%q does not say what was expected", l)
		}
	}
	if len(lines) != 13 {
		t.Errorf("%d mistakes reported, want 13:\n%v", len(lines), err)
	}
	if _, err := New(0, Config{}); err == nil {
		t.Error("no resources, and no error")
	}
}

// TestWakes: early and repeated wakes do nothing, and a late one ends one period
// of the length that it had.
func TestWakes(t *testing.T) {
	a := plain(t, Config{})
	w := a.Workflow(0, "w")
	offered := func() float64 { s, _ := a.State(w); return s.Offered }
	for range 10 {
		a.OnArrival(0, &Request{Workflow: w, Deadline: mono.Never})
	}
	a.OnWake(a.NextWake()-1, Signals{})
	if offered() != 0 {
		t.Error("an early wake ended the period")
	}
	a.OnWake(a.NextWake(), Signals{})
	first := offered()
	a.OnWake(a.NextWake()-1, Signals{})
	if first != 20 || offered() != first { // a fifth of 100/s
		t.Errorf("offered %v, then %v, want 20 twice", first, offered())
	}
	for range 50 {
		a.OnArrival(0, &Request{Workflow: w, Deadline: mono.Never})
	}
	a.OnWake(mono.Time(600*time.Millisecond), Signals{})
	if got := offered(); !near(got, 36) || a.Stats().Late != 4 { // 100/s again
		t.Errorf("offered %v, %d late, want 36 and 4", got, a.Stats().Late)
	}
}
