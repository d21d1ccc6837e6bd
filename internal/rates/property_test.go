package rates

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// world is one period's events for one workflow of an adapter: rates that
// services' processes announced, how often requests call them, and what upstream
// processes claim.
type world struct {
	services [][]announced
	claims   []float64
}

type announced struct {
	rate  float64
	calls int
}

func drawWorld(t *rapid.T) world {
	one := rapid.Custom(func(t *rapid.T) announced {
		return announced{rapid.OneOf(rapid.Float64Range(1, 1e5), rapid.Just(NoLimit)).Draw(t, "rate"), rapid.IntRange(1, 9).Draw(t, "calls")}
	})
	return world{
		services: rapid.SliceOfN(rapid.SliceOfN(one, 1, 8), 1, 4).Draw(t, "services"),
		claims:   rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0.01, 1e4)), 1, 12).Draw(t, "claims"),
	}
}

// run returns an adapter that has seen so many periods of the world, with all
// calls multiplied.
func (w world) run(t interface{ Fatal(...any) }, cfg Config, times int, also func(a *Adapter, now mono.Time)) (*Adapter, Workflow, []Peer) {
	cfg.Resources = []Resource{{"workers", 1000}}
	a, err := New(0, cfg)
	if err != nil {
		t.Fatal(err)
	}
	id := a.Workflow(0, "w")
	now := mono.Time(0)
	var ups []Peer
	for i := range w.claims {
		ups = append(ups, a.Peer(0, "up", fmt.Sprint(i)))
	}
	for range 5 {
		for i, c := range w.claims {
			r := Request{Workflow: id, From: ups[i], Demand: c, Attempt: 1, Deadline: mono.Never}
			if c > 0 {
				r.Attempt = 0
			}
			a.OnArrival(now, &r)
			for s, procs := range w.services {
				for p, e := range procs {
					to := a.Peer(now, fmt.Sprint("s", s), fmt.Sprint(s, "-", p))
					for range e.calls * times {
						a.OnCall(now, &r, to, 0)
					}
					a.OnRate(now, id, to, e.rate)
				}
			}
			a.OnDone(now, &r, work.Done)
		}
		if also != nil {
			also(a, now)
		}
		now = now.Add(100 * time.Millisecond)
		a.OnWake(now, Signals{})
	}
	return a, id, ups
}

func quantileConfig(q float64) Config {
	if q == 0 {
		q = -1
	}
	return Config{Quantile: q}
}

// TestSharesSumToTheRate: what is announced upstream is never more than the rate
// in sum, and everyone is announced something.
func TestSharesSumToTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		a, id, ups := w.run(t, Config{}, 1, nil)
		sum, rate := 0.0, a.Rate(id)
		for i, u := range ups {
			share := a.Announce(id, u)
			if !(share > 0) || rate >= NoLimit && share != NoLimit {
				t.Fatalf("a share of %v of the rate %v, with a claim of %v", share, rate, w.claims[i])
			}
			sum += share
		}
		if rate < NoLimit && sum > rate*(1+1e-9) {
			t.Fatalf("the shares sum to %v, the rate is %v", sum, rate)
		}
	})
}

func TestRateIsMonotoneInTheQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		p, q := rapid.Float64Range(0, 1).Draw(t, "p"), rapid.Float64Range(0, 1).Draw(t, "q")
		if p > q {
			p, q = q, p
		}
		lo, id, _ := w.run(t, quantileConfig(p), 1, nil)
		hi, _, _ := w.run(t, quantileConfig(q), 1, nil)
		if l, h := lo.Rate(id), hi.Rate(id); l > h*(1+1e-9) {
			t.Fatalf("%v at the quantile %v, %v at %v", l, p, h, q)
		}
	})
}

// TestRateScalesWithTheCalls: c times the calls per request, an c-th of the rate.
// Processes without a limit have none however often they are called, so they are
// left out.
func TestRateScalesWithTheCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for _, s := range w.services {
			for p := range s {
				s[p].rate = math.Min(s[p].rate, 1e5)
			}
		}
		c := rapid.IntRange(2, 10).Draw(t, "c")
		once, id, _ := w.run(t, Config{}, 1, nil)
		more, _, _ := w.run(t, Config{}, c, nil)
		want := bounded(once.flow(id).down / float64(c))
		if got := more.Rate(id); !near(got, want) {
			t.Fatalf("%v with %d times the calls, want %v", got, c, want)
		}
	})
}

// TestOthersBottleneckIsNotMine: a workflow that does not call a process is not
// touched by what that announces, nor by the workflow it limits.
func TestOthersBottleneckIsNotMine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		rate := rapid.Float64Range(0, 100).Draw(t, "rate of the other")
		alone, id, _ := w.run(t, Config{}, 1, nil)
		beside, _, _ := w.run(t, Config{}, 1, func(a *Adapter, now mono.Time) {
			o := a.Workflow(now, "other")
			r := Request{Workflow: o, Deadline: mono.Never}
			a.OnArrival(now, &r)
			d := a.Peer(now, "slow", "slow0")
			a.OnCall(now, &r, d, 0)
			a.OnDone(now, &r, work.Done)
			a.OnRate(now, o, d, rate)
			a.OnRate(now, id, d, rate)
		})
		if a, b := alone.Rate(id), beside.Rate(id); a != b {
			t.Fatalf("%v alone, %v beside another workflow's bottleneck", a, b)
		}
	})
}

// TestDominantRates: at a process the oracle of DRF comes out as rates.
func TestDominantRates(t *testing.T) {
	a, err := New(0, Config{Policy: DominantFair, Headroom: -1, Resources: []Resource{{"processors", 9}, {"memory", 18}}})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(0)
	costs := map[string][2]time.Duration{"A": {time.Second, 4 * time.Second}, "B": {3 * time.Second, time.Second}}
	for range 100 {
		for _, name := range []string{"A", "B"} {
			w := a.Workflow(now, name)
			for range 2 { // 20/s, far more than there is room for
				r := Request{Workflow: w, Deadline: mono.Never}
				a.OnArrival(now, &r)
				a.OnUse(w, 0, costs[name][0])
				a.OnUse(w, 1, costs[name][1])
				a.OnDone(now, &r, work.Done)
			}
		}
		now = now.Add(100 * time.Millisecond)
		a.OnWake(now, Signals{})
	}
	for name, want := range map[string]float64{"A": 3, "B": 2} {
		if got := a.Rate(a.Workflow(now, name)); !near(got, want) {
			t.Errorf("%s: %v/s, want %v", name, got, want)
		}
	}
}

// TestProbe: from 50/s at a process that can do 100/s, with steps of 10/s times
// the idle share, 99/s are reached after 38 periods: 100 − 50·0.9ⁿ.
func TestProbe(t *testing.T) {
	rate, n := 50.0, 0
	for ; rate < 99; n++ {
		rate = probed(rate, 10, 1-rate/100)
	}
	if n != 38 {
		t.Errorf("99/s after %d periods, want 38", n)
	}
}

// TestAnything: whatever comes, in whatever order, nothing panics, rates stay
// between the least and NoLimit, and the backlog is what waits.
func TestAnything(t *testing.T) {
	weird := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, -1, 1e300, -1e300, math.NaN(), math.Inf(1), math.Inf(-1), NoLimit, math.MaxInt64}), rapid.Float64Range(0, 1000))
	spans := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, int64(time.Second)))
	rapid.Check(t, func(t *rapid.T) {
		a, err := New(0, Config{
			Policy: Policy(rapid.IntRange(0, int(numPolicies)-1).Draw(t, "policy")), Service: "s1", Process: "p1",
			Resources: []Resource{{"a", 4}, {"b", 1}}, MaxPeers: rapid.IntRange(1, 6).Draw(t, "peers"), MaxWorkflows: rapid.IntRange(1, 4).Draw(t, "workflows"),
			IdleCost: rapid.SampledFrom([]float64{0, 1}).Draw(t, "idle cost"), Forget: 2 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		now := mono.Time(0)
		workflow := func() Workflow {
			if rapid.Bool().Draw(t, "by number") {
				return Workflow(rapid.Uint32Range(0, 1<<18).Draw(t, "workflow"))
			}
			return a.Workflow(now, fmt.Sprint("w", rapid.IntRange(0, 6).Draw(t, "w")))
		}
		process := func() Peer {
			if rapid.IntRange(0, 9).Draw(t, "by number") == 0 {
				return Peer(rapid.Uint32Range(0, 1<<18).Draw(t, "peer"))
			}
			i := rapid.IntRange(0, 9).Draw(t, "p")
			return a.Peer(now, fmt.Sprint("s", i%3), fmt.Sprint("p", i))
		}
		var requests []*Request
		pick := func() *Request {
			if len(requests) == 0 {
				return &Request{}
			}
			return requests[rapid.IntRange(0, len(requests)-1).Draw(t, "request")]
		}
		for range rapid.IntRange(1, 150).Draw(t, "events") {
			switch rapid.IntRange(0, 11).Draw(t, "event") {
			case 0, 1:
				r := &Request{Workflow: workflow(), From: process(), Demand: weird.Draw(t, "demand"), Deadline: now.Add(time.Duration(spans.Draw(t, "budget"))), Remaining: time.Duration(spans.Draw(t, "remaining"))}
				a.OnArrival(now, r)
				a.Enter(now, r)
				requests = append(requests, r)
			case 2:
				a.Next(now, pick())
			case 3:
				a.OnCancel(pick())
			case 4:
				a.OnDone(now, pick(), work.Outcome(rapid.IntRange(0, 3).Draw(t, "outcome")))
			case 5, 6:
				a.OnCall(now, pick(), process(), rapid.IntRange(-1, 2).Draw(t, "attempt"))
			case 7:
				a.OnRate(now, workflow(), process(), weird.Draw(t, "rate"))
			case 8:
				a.OnUse(workflow(), rapid.IntRange(-1, 3).Draw(t, "resource"), time.Duration(spans.Draw(t, "busy")))
			case 9:
				a.OnShed(workflow(), process())
			default:
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "later")))
				if rapid.IntRange(0, 30).Draw(t, "long pause") == 0 {
					now = now.Add(3 * time.Second)
				}
				a.OnWake(now, Signals{Credits: rapid.Bool().Draw(t, "credits"), Bound: weird.Draw(t, "bound"),
					Resources: []Pressure{{time.Duration(spans.Draw(t, "delay")), time.Millisecond, weird.Draw(t, "capacity")}}})
			}
			waits := 0
			for _, r := range requests {
				if r.state == waiting && a.flow(r.Workflow) != nil {
					waits++
				}
			}
			backlog := 0
			for _, s := range a.AppendStates(nil) {
				backlog += s.Backlog
				if !(s.Rate >= leastRate && s.Rate <= NoLimit) || s.Latency < 0 {
					t.Fatalf("%+v", s)
				}
				for p := range a.peers.rows {
					if share := a.Announce(s.Workflow, Peer(a.peers.id(p))); !(share > 0 && share <= NoLimit) {
						t.Fatalf("a share of %v of %+v", share, s)
					}
				}
				a.AppendLinks(now, s.Workflow, nil)
				if at := a.ReadyAt(now, s.Workflow); s.Backlog > 0 && at < now {
					t.Fatalf("ready at %v, now %v", at, now)
				}
			}
			if backlog != waits {
				t.Fatalf("%d counted, %d wait", backlog, waits)
			}
			checkPlaces(t, a)
		}
	})
}

// checkPlaces checks the tables that lead from a peer to what is known of it.
func checkPlaces(t interface{ Fatalf(string, ...any) }, a *Adapter) {
	for _, f := range a.flows {
		if f == nil {
			continue
		}
		for i := range f.sources {
			if p := f.sources[i].peer; f.source(p) != &f.sources[i] || !a.peers.rows[p].used {
				t.Fatalf("source %d is lost", p)
			}
		}
		for b := range f.branches {
			br := &f.branches[b]
			if len(br.links) == 0 || !a.services.rows[br.service].used {
				t.Fatalf("service %d is empty or forgotten", br.service)
			}
			for i := range br.links {
				if p := br.links[i].peer; f.link(p) != &br.links[i] || !a.peers.rows[p].used || a.serviceOf[p] != br.service {
					t.Fatalf("link %d is lost", p)
				}
			}
		}
	}
}
