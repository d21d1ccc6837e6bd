package mesh_test

import (
	"math"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/sim/mesh"
)

const ms = time.Millisecond

func run(t testing.TB, cfg mesh.Config) *mesh.Report {
	t.Helper()
	w, err := mesh.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Run()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within*math.Abs(want)) {
		t.Errorf("%s is %.4g, expected %.4g within %.0f %%", what, got, want, within*100)
	}
}

// TestQueueingTheory: one server is M/M/1, with the mean response 1/(µ−λ); a
// chain of two is two of them (Burke), and so is a fan to two at random.
func TestQueueingTheory(t *testing.T) {
	free := mesh.Network{Delay: -1}
	work := mesh.Work(mesh.Exp(ms))
	one := []mesh.Workflow{{Name: "one", Root: mesh.Stage{Service: "a", Steps: []mesh.Step{work}}}}
	chain := []mesh.Workflow{{Name: "chain", Root: mesh.Stage{Service: "a", Steps: []mesh.Step{work, mesh.Each(mesh.One("b", work))}}}}
	for _, tt := range []struct {
		name      string
		services  []mesh.Service
		workflows []mesh.Workflow
		rate      float64
		want      float64 // mean response in ms
	}{
		{"M/M/1 at 0.5", []mesh.Service{{Name: "a"}}, one, 500, 2},
		{"M/M/1 at 0.8", []mesh.Service{{Name: "a"}}, one, 800, 5},
		{"M/M/2 at 0.8", []mesh.Service{{Name: "a", Resources: []mesh.Resource{{"cpu", 2}}}}, one, 1600, 1 / (1 - 0.64)},
		{"two at random at 0.8", []mesh.Service{{Name: "a", Processes: 2, Pick: mesh.AtRandom}}, one, 1600, 5},
		{"chain at 0.7", []mesh.Service{{Name: "a"}, {Name: "b"}}, chain, 700, 2 / 0.3},
		{"chain, second tier twice as wide", []mesh.Service{{Name: "a"}, {Name: "b", Processes: 2, Pick: mesh.AtRandom}}, chain, 700, 1/0.3 + 1/0.65},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, mesh.Config{Seed: 1, Services: tt.services, Workflows: tt.workflows, Network: free,
				Groups: []mesh.Group{{Load: mesh.Constant(tt.rate), Clients: 10}}, Warmup: 10 * time.Second, Length: 210 * time.Second})
			near(t, "mean response in ms", float64(r.Workflows[0].Latency.Mean())/float64(ms), tt.want, 0.05)
		})
	}
}

// TestLeastOutstanding: callers that each see few of the calls spread them no worse
// than at random, and no better than one queue would.
func TestLeastOutstanding(t *testing.T) {
	for _, clients := range []int{1, 10, 200} {
		r := run(t, mesh.Config{Seed: 1, Services: []mesh.Service{{Name: "a", Processes: 2, Pick: mesh.LeastOutstanding}}, Network: mesh.Network{Delay: -1},
			Workflows: []mesh.Workflow{{Name: "one", Root: mesh.Stage{Service: "a", Steps: []mesh.Step{mesh.Work(mesh.Exp(ms))}}}},
			Groups:    []mesh.Group{{Load: mesh.Constant(1600), Clients: clients}}, Warmup: 10 * time.Second, Length: 110 * time.Second})
		mean := float64(r.Workflows[0].Latency.Mean()) / float64(ms)
		t.Logf("%3d clients: mean response %.2f ms", clients, mean)
		if mean < 1/(1-0.64)*0.95 || mean > 5*1.05 {
			t.Errorf("with %d clients the mean response is %.2f ms, expected from 2.78, as with one queue, to 5, as at random", clients, mean)
		}
	}
}

// TestClosedLoop: N clients, one server, no network: the machine repairman, whose
// throughput is µ(1 − p0).
func TestClosedLoop(t *testing.T) {
	const n = 10
	r := run(t, mesh.Config{Seed: 1, Services: []mesh.Service{{Name: "a"}}, Network: mesh.Network{Delay: -1},
		Workflows: []mesh.Workflow{{Name: "one", Root: mesh.Stage{Service: "a", Steps: []mesh.Step{mesh.Work(mesh.Exp(10 * ms))}}}},
		Groups:    []mesh.Group{{Load: mesh.Closed(n, 100*ms)}}, Warmup: 10 * time.Second, Length: 1000 * time.Second})
	sum, term := 1.0, 1.0
	for k := n; k > 0; k-- {
		term *= float64(k) * 0.1
		sum += term
	}
	near(t, "throughput", float64(r.Workflows[0].Good)/r.Seconds, 100*(1-1/sum), 0.02)
}

// TestSteps follows one request, all of whose times are fixed, through every kind
// of step.
func TestSteps(t *testing.T) {
	w := func(d time.Duration) mesh.Step { return mesh.Work(mesh.Fixed(d)) }
	for _, tt := range []struct {
		name  string
		steps []mesh.Step
		want  time.Duration // of network: 2 hops of 1 ms for the client's call
	}{
		{"nothing", nil, 2 * ms},
		{"work", []mesh.Step{w(3 * ms)}, 5 * ms},
		{"sequence", []mesh.Step{w(1 * ms), mesh.Each(mesh.One("b", w(4*ms)).Times(2, 2), mesh.One("c", w(1*ms)))}, 2*ms + 1*ms + 2*6*ms + 3*ms},
		{"parallel over four", []mesh.Step{mesh.All(mesh.One("c", w(4*ms)).Times(4, 4))}, 2*ms + 6*ms},
		{"parallel at one", []mesh.Step{mesh.All(mesh.One("b", w(4*ms)).Times(4, 4))}, 2*ms + 2*ms + 16*ms},
		{"parallel of unequal ones", []mesh.Step{mesh.All(mesh.One("b", w(4*ms)), mesh.One("c", w(7*ms)))}, 2*ms + 9*ms},
		{"all skipped", []mesh.Step{mesh.All(mesh.Call{Stage: mesh.Stage{Service: "b", Steps: []mesh.Step{w(ms)}}, Skip: 1}), w(ms)}, 3 * ms},
		{"hold", []mesh.Step{{Hold: true, Resource: "lock"}, mesh.Each(mesh.One("b", w(ms))), {Free: true, Resource: "lock"}, w(ms)}, 2*ms + 3*ms + 1*ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, mesh.Config{Network: mesh.Network{Delay: ms},
				Services:  []mesh.Service{{Name: "a", Resources: []mesh.Resource{{"cpu", 1}, {"lock", 1}}}, {Name: "b"}, {Name: "c", Processes: 4}},
				Workflows: []mesh.Workflow{{Name: "w", Root: mesh.Stage{Service: "a", Steps: tt.steps}}},
				Groups:    []mesh.Group{{Load: mesh.Load{Trace: []time.Duration{0}}}}, Length: time.Second})
			if got := r.Workflows[0].Latency.Max(); r.Workflows[0].Good != 1 || got != tt.want {
				t.Errorf("%d answers, after %v, expected one after %v", r.Workflows[0].Good, got, tt.want)
			}
		})
	}
}

// TestHoldSpansCalls: a semaphore held over a call lets one request through at a
// time, and its use counts the call.
func TestHoldSpansCalls(t *testing.T) {
	r := run(t, mesh.Config{Network: mesh.Network{Delay: ms},
		Services: []mesh.Service{{Name: "a", Resources: []mesh.Resource{{"cpu", 8}, {"lock", 1}}}, {Name: "b", Resources: []mesh.Resource{{"cpu", 8}}}},
		Workflows: []mesh.Workflow{{Name: "w", Root: mesh.Stage{Service: "a", Steps: []mesh.Step{
			{Hold: true, Resource: "lock"}, mesh.Each(mesh.One("b", mesh.Work(mesh.Fixed(3*ms)))),
		}}}},
		Groups: []mesh.Group{{Load: mesh.Load{Trace: []time.Duration{0, 0, 0, 0}}}}, Length: 100 * ms})
	if got := r.Workflows[0].Latency.Max(); got != 2*ms+4*5*ms {
		t.Errorf("the last answer took %v, expected four holds of 5ms and 2ms of network", got)
	}
	near(t, "use of the lock", r.Services[0].Use[1], 0.2, 1e-6)
}

// TestDeadlineAlone: a deadline in multiples is of the request's own work, so
// that alone every answer takes exactly its part of it.
func TestDeadlineAlone(t *testing.T) {
	flows, mix := mesh.StorageMix(mesh.Deadline{Multiple: 4})
	r := run(t, mesh.Config{Seed: 3, Services: mesh.Storage(2), Workflows: flows,
		Groups: []mesh.Group{{Mix: mix, Load: mesh.Closed(1, 100*ms)}}, Length: 100 * time.Second})
	for i := range r.Workflows {
		c := &r.Workflows[i]
		if c.Good < 5 || c.Late > 0 {
			t.Errorf("%s: %d good, %d late", flows[i].Name, c.Good, c.Late)
		}
		near(t, flows[i].Name+": the median of latency ÷ deadline", c.Ratio(0.5), 0.25, 0.02)
	}
}

// TestCollapse: the store under twice what its extent nodes can do, with nothing
// but timeouts that nobody propagates: the throughput falls far below capacity,
// and nearly all work is wasted.
func TestCollapse(t *testing.T) {
	flows, mix := mesh.StorageMix(mesh.Deadline{After: time.Second})
	world := func(rate float64) *mesh.Report {
		return run(t, mesh.Config{Seed: 1, Services: mesh.Storage(2), Workflows: flows, Control: mesh.Control{GiveUp: true},
			Groups: []mesh.Group{{Mix: mix, Load: mesh.Constant(rate)}}, Warmup: 20 * time.Second, Length: 40 * time.Second})
	}
	below, above := world(500), world(1800)
	b, a := &below.Total, &above.Total
	near(t, "goodput at 500/s", float64(b.Good)/below.Seconds, 500, 0.05)
	if good := float64(a.Good) / above.Seconds; good > 250 {
		t.Errorf("goodput at 1800/s is %.0f, expected a collapse to below 250", good)
	}
	if a.WastedShare() < 0.7 || b.WastedShare() > 0.02 {
		t.Errorf("wasted: %.2f overloaded, %.2f not, expected over 0.7 and under 0.02", a.WastedShare(), b.WastedShare())
	}
	t.Logf("goodput %.0f and %.0f, wasted %.3f and %.3f", float64(b.Good)/below.Seconds, float64(a.Good)/above.Seconds, b.WastedShare(), a.WastedShare())
}

// TestStorageBaseline compares latency ÷ deadline of the store's mix, with timeouts
// only and 100 clients, with the paper's .39/.75/.98 (Wisp, table 3). The mix is
// a stand-in for a trace, so the bounds are wide.
func TestStorageBaseline(t *testing.T) {
	for _, tt := range []struct {
		name           string
		deadline       mesh.Deadline
		mean, p95, p99 float64
	}{
		{"of the request's own time", mesh.Deadline{Multiple: 4}, 0.39, 1.0, 2.1},
		{"of the workflow's time", mesh.Deadline{Typical: 4}, 0.35, 0.88, 1.4},
	} {
		flows, mix := mesh.StorageMix(tt.deadline)
		r := run(t, mesh.Config{Seed: 1, Services: mesh.Storage(2), Workflows: flows,
			Groups: []mesh.Group{{Mix: mix, Load: mesh.Closed(100, 300*ms)}}, Warmup: 10 * time.Second, Length: 110 * time.Second})
		all := &r.Total
		t.Logf("deadline %s: %.0f/s, mean %.2f p95 %.2f p99 %.2f", tt.name, float64(all.Ended())/r.Seconds, all.MeanRatio(), all.Ratio(0.95), all.Ratio(0.99))
		near(t, "mean", all.MeanRatio(), tt.mean, 0.1)
		near(t, "p95", all.Ratio(0.95), tt.p95, 0.15)
		near(t, "p99", all.Ratio(0.99), tt.p99, 0.2)
	}
}

// TestBetween: the bins of a whole run sum to its totals.
func TestBetween(t *testing.T) {
	flows, mix := mesh.StorageMix(mesh.Deadline{Multiple: 4})
	r := run(t, mesh.Config{Seed: 1, Services: mesh.Storage(2), Workflows: flows, Control: mesh.Rates(rates.Config{}), Bin: 300 * ms,
		Groups: []mesh.Group{{Mix: mix, Load: mesh.Constant(1500)}}, Length: 5 * time.Second})
	sum := r.Between(0, 5*time.Second, 0, 1, 2, 3)
	all := &r.Total
	if sum.Offered != all.Offered || sum.Ended() != all.Ended() || sum.Good != all.Good || sum.Busy != all.Busy ||
		sum.Ratio(0.9) != all.Ratio(0.9) || sum.Latency.Mean() != all.Latency.Mean() || all.AllRefused() == 0 {
		t.Errorf("the bins sum to %d offered, %d ended, %d good, the totals say %d, %d, %d", sum.Offered, sum.Ended(), sum.Good, all.Offered, all.Ended(), all.Good)
	}
	part := r.Between(600*ms, 900*ms, 1)
	if bin := &r.Bins[2][1]; part.Good != bin.Good || part.Offered != bin.Offered {
		t.Errorf("one bin of one workflow sums to %d of %d, expected %d of %d", part.Good, part.Offered, bin.Good, bin.Offered)
	}
}
