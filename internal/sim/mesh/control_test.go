package mesh_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/work"
)

// chain is three tiers of which the last has the least capacity: 2,000 requests/s
// for each of n processes.
func chain(n int, deadline time.Duration) ([]mesh.Service, []mesh.Workflow) {
	tier := func(name string, workers int) mesh.Service {
		return mesh.Service{Name: name, Processes: n, Resources: []mesh.Resource{{"workers", workers}}}
	}
	w := mesh.Work(mesh.Exp(2 * ms))
	return []mesh.Service{tier("a", 16), tier("b", 16), tier("c", 4)}, []mesh.Workflow{{
		Name: "w", Deadline: mesh.Deadline{After: deadline},
		Root: mesh.Stage{Service: "a", Steps: []mesh.Step{w, mesh.Each(mesh.One("b", w, mesh.Each(mesh.One("c", w))))}},
	}}
}

func sheds(s mesh.ServiceCount) int {
	n := 0
	for _, k := range s.Sheds {
		n += k
	}
	return n
}

// TestModesUnderOverload: with the leaf of three tiers at twice its capacity,
// doing nothing serves nobody, and credits serve as many as the leaf can.
func TestModesUnderOverload(t *testing.T) {
	goodput := map[string]float64{}
	for _, c := range mesh.Modes() {
		services, flows := chain(2, 100*ms)
		r := run(t, mesh.Config{Seed: 1, Services: services, Workflows: flows, Control: c,
			Groups: []mesh.Group{{Load: mesh.Constant(8000), Clients: 8}}, Warmup: 3 * time.Second, Length: 8 * time.Second})
		goodput[c.Name] = float64(r.Total.Good) / r.Seconds
		t.Logf("%-14s goodput %4.0f/s of 4000, wasted %.2f, gave up %d, refused at a %d, b %d, c %d", c.Name, goodput[c.Name], r.Total.WastedShare(),
			r.Total.GaveUp, sheds(r.Services[0]), sheds(r.Services[1]), sheds(r.Services[2]))
	}
	if g := goodput["none"]; g > 100 {
		t.Errorf("goodput without control is %.0f/s, expected a collapse", g)
	}
	if g := goodput["credits"]; g < 3600 {
		t.Errorf("goodput with credits is %.0f/s, expected 3600 or more", g)
	}
	for _, c := range mesh.Modes() {
		if g := goodput[c.Name]; strings.Contains(c.Name, "rates") && g < 3200 {
			t.Errorf("goodput with %s is %.0f/s, expected 3200 or more", c.Name, g)
		}
	}
	if g := goodput["dagor"]; g < 2400 {
		t.Errorf("goodput with priorities is %.0f/s, expected 2400 or more", g)
	}
	if g := goodput["rajomon"]; g < 3500 {
		t.Errorf("goodput with prices is %.0f/s, expected 3500 or more", g)
	}
}

// TestRatesReachTheEntry: an overload at the leaf is seen at the entry, which then
// lets in about what the leaf can do, and no work is below the entry that has no
// place there.
func TestRatesReachTheEntry(t *testing.T) {
	services, flows := chain(2, 2*time.Second)
	var broken error
	cfg := mesh.Config{Seed: 1, Services: services, Workflows: flows, Control: mesh.Rates(rates.Config{}), RatesOf: []string{"a", "b", "c"},
		Groups: []mesh.Group{{Load: mesh.Constant(8000), Clients: 8}}, Length: 8 * time.Second, Bin: 100 * ms}
	events := 0
	cfg.Event = func(w *mesh.World) {
		if events++; events%500 == 0 && broken == nil {
			broken = w.Audit()
		}
	}
	r := run(t, cfg)
	if broken != nil {
		t.Error(broken)
	}
	seen := map[string]int{} // first bin with a limit
	for _, p := range r.Rates {
		for bin, rate := range p.Rate {
			if rate[0] < rates.NoLimit && seen[p.Service] == 0 {
				seen[p.Service] = bin + 1
			}
		}
		if p.Service == "a" {
			sum := 0.0
			last := p.Rate[len(p.Rate)/2:]
			for _, rate := range last {
				sum += rate[0]
			}
			near(t, "the mean rate at an entry", sum/float64(len(last)), 2000, 0.15)
		}
	}
	t.Logf("first limited in bin a %d, b %d, c %d; polls %d", seen["a"], seen["b"], seen["c"], r.Polls)
	// Two periods per tier, and one for the difference of phases.
	if d := seen["a"] - seen["c"]; seen["c"] == 0 || d < 0 || d > 5 {
		t.Errorf("limited at the leaf in bin %d, at the entry in bin %d, expected within 5", seen["c"], seen["a"])
	}
}

// TestRatesShedAtTheEntry: with only the leaf of three tiers at twice its capacity,
// nearly all refusals are the entry's, and little work is wasted.
func TestRatesShedAtTheEntry(t *testing.T) {
	entry := func(waitShare float64) (share, wasted float64) {
		services, flows := chain(2, 100*ms)
		c := mesh.Rates(rates.Config{WaitShare: waitShare})
		r := run(t, mesh.Config{Seed: 1, Services: services, Workflows: flows, Control: c,
			Groups: []mesh.Group{{Load: mesh.Constant(8000), Clients: 8}}, Warmup: time.Second, Length: 10 * time.Second})
		all := sheds(r.Services[0]) + sheds(r.Services[1]) + sheds(r.Services[2])
		return float64(sheds(r.Services[0])) / float64(all), r.Total.WastedShare()
	}
	share, wasted := entry(0.5)
	_, last := entry(1)
	t.Logf("%.3f of refusals at the entry, wasted %.3f; %.3f if all of the budget may be waited", share, wasted, last)
	if share < 0.9 || wasted > 0.1 {
		t.Errorf("%.3f of refusals at the entry, wasted %.3f, expected over 0.9 and under 0.1", share, wasted)
	}
}

// TestStepRecovers: half of the capacity, then twice, then half again. Two seconds
// after the step down nearly everything is in time again.
func TestStepRecovers(t *testing.T) {
	for _, c := range mesh.Modes() {
		if c.Door == nil {
			continue
		}
		services, flows := chain(2, 100*ms)
		r := run(t, mesh.Config{Seed: 1, Services: services, Workflows: flows, Control: c, Bin: time.Second,
			Groups: []mesh.Group{{Clients: 8, Load: mesh.Load{Steps: []mesh.Change{{At: 0, Rate: 2000}, {At: 3 * time.Second, Rate: 8000}, {At: 7 * time.Second, Rate: 2000}}}}},
			Length: 11 * time.Second})
		before, during, after := &r.Bins[2][0], &r.Bins[6][0], &r.Bins[9][0]
		t.Logf("%-14s in time: %d of %d before, %d of %d during, %d of %d after", c.Name, before.Good, before.Offered, during.Good, during.Offered, after.Good, after.Offered)
		if share := float64(after.Good) / float64(after.Offered); share < 0.97 {
			t.Errorf("%s: %.2f in time two seconds after the overload, expected 0.97 or more", c.Name, share)
		}
	}
}

// TestSilenceIsPolled: when load stops in the middle of an overload, no answers
// bring rates any more. They are asked for, and the limits are gone when load
// comes back.
func TestSilenceIsPolled(t *testing.T) {
	services, flows := chain(2, 100*ms)
	cfg := mesh.Config{Seed: 1, Services: services, Workflows: flows, Control: mesh.Rates(rates.Config{}), Bin: 100 * ms, RatesOf: []string{"a"},
		Groups: []mesh.Group{{Clients: 8, Load: mesh.Load{Steps: []mesh.Change{{At: 0, Rate: 8000}, {At: 2 * time.Second, Rate: 0}, {At: 8 * time.Second, Rate: 2000}}}}},
		Length: 9 * time.Second}
	r := run(t, cfg)
	polls, limited := r.Polls, 0
	for _, p := range r.Rates {
		if p.Rate[15][0] < rates.NoLimit {
			limited++
		}
	}
	good, offered := 0, 0
	for _, b := range r.Bins[81:] {
		good, offered = good+b[0].Good, offered+b[0].Offered
	}
	t.Logf("%d entries limited in the overload, %d polls, then %d of %d in time", limited, polls, good, offered)
	if limited != 2 || polls == 0 || good < offered*97/100 {
		t.Errorf("%d entries limited in the overload, %d polls, then %d of %d in time, expected 2, some, nearly all", limited, polls, good, offered)
	}
}

// TestLeastSlackBeatsEarliestDeadline: of two workflows with equal deadlines, one
// has much left to do after the common resource. Going by deadline serves both
// alike; by slack, those that are in a hurry go first.
func TestLeastSlackBeatsEarliestDeadline(t *testing.T) {
	w := func(d time.Duration) mesh.Step { return mesh.Work(mesh.Fixed(d)) }
	flows := []mesh.Workflow{
		{Name: "short", Deadline: mesh.Deadline{After: 60 * ms}, Root: mesh.Stage{Service: "a", Steps: []mesh.Step{w(10 * ms)}}},
		{Name: "long", Deadline: mesh.Deadline{After: 60 * ms}, Root: mesh.Stage{Service: "a", Steps: []mesh.Step{w(10 * ms), mesh.Each(mesh.One("b", w(25*ms)))}}},
	}
	good := func(o schedule.Order) int {
		c := mesh.Bare(o.String(), admission.Config{Schedule: schedule.Config{Order: o}})
		r := run(t, mesh.Config{Seed: 1, Control: c, Workflows: flows,
			Services: []mesh.Service{{Name: "a"}, {Name: "b", Resources: []mesh.Resource{{"workers", 4}}}},
			Groups:   []mesh.Group{{Load: mesh.Constant(85)}}, Warmup: 5 * time.Second, Length: 205 * time.Second})
		return r.Total.Good
	}
	edf, lstf := good(schedule.EDF), good(schedule.LSTF)
	t.Logf("in time: %d by deadline, %d by slack", edf, lstf)
	if lstf < edf+edf/50 {
		t.Errorf("%d in time by slack, %d by deadline, expected at least 2 %% more", lstf, edf)
	}
}

// TestFairQueueProtectsTheSmall: a workflow that sends ten times as much as fits
// takes the resource from a small one in order of arrival, and not with fair
// queues.
func TestFairQueueProtectsTheSmall(t *testing.T) {
	flow := func(name string) mesh.Workflow {
		return mesh.Workflow{Name: name, Deadline: mesh.Deadline{After: 100 * ms}, Root: mesh.Stage{Service: "a", Steps: []mesh.Step{mesh.Work(mesh.Exp(2 * ms))}}}
	}
	good := func(fair bool) float64 {
		c := mesh.Timeouts()
		c.Queue = &schedule.Config{Fair: fair}
		r := run(t, mesh.Config{Seed: 1, Control: c, Workflows: []mesh.Workflow{flow("small"), flow("flood")}, Services: []mesh.Service{{Name: "a"}},
			Groups: []mesh.Group{
				{Mix: []mesh.Part{{"small", 1}}, Load: mesh.Constant(100)},
				{Mix: []mesh.Part{{"flood", 1}}, Load: mesh.Constant(5000)},
			}, Warmup: time.Second, Length: 11 * time.Second})
		return float64(r.Workflows[0].Good) / float64(r.Workflows[0].Offered)
	}
	plain, fair := good(false), good(true)
	t.Logf("the small workflow in time: %.2f in order of arrival, %.2f with fair queues", plain, fair)
	if plain > 0.5 || fair < 0.95 {
		t.Errorf("the small workflow in time: %.2f in order of arrival, %.2f with fair queues, expected under 0.5 and over 0.95", plain, fair)
	}
}

// TestIsolation is the paper's experiment (Wisp, figure 7) in short: from the third
// second on F sends more than the extent nodes can do. With timeouts alone
// everybody who needs them is lost; with rates F is throttled, and only F.
func TestIsolation(t *testing.T) {
	e := func(d time.Duration) mesh.Step { return mesh.Work(mesh.Exp(d)) }
	flow := func(name string, ps ...mesh.Step) mesh.Workflow {
		return mesh.Workflow{Name: name, Deadline: mesh.Deadline{After: time.Second}, Root: mesh.Stage{Service: "FE", Steps: []mesh.Step{
			mesh.Each(mesh.One("AUTH", e(ms))), mesh.Each(mesh.One("PS", ps...))}}}
	}
	readWrite := func(name string) mesh.Workflow {
		return flow(name, mesh.Each(mesh.One("EN", e(4*ms)).Times(2, 2)), e(2*ms))
	}
	flows := []mesh.Workflow{readWrite("A"), readWrite("B"), readWrite("C"), readWrite("D"), flow("E", e(4*ms)), readWrite("F")}
	var groups []mesh.Group
	for _, f := range flows {
		g := mesh.Group{Name: f.Name, Mix: []mesh.Part{{f.Name, 1}}, Load: mesh.Constant(100)}
		if f.Name == "F" {
			g.Clients, g.Load = 4, mesh.Load{Steps: []mesh.Change{{At: 0, Rate: 0}, {At: 3 * time.Second, Rate: 1500}}}
		}
		groups = append(groups, g)
	}
	inTime := func(c mesh.Control) (good []float64) {
		r := run(t, mesh.Config{Seed: 1, Services: mesh.Storage(2), Workflows: flows, Groups: groups, Control: c, Length: 15 * time.Second, Bin: 3 * time.Second})
		for f := range flows {
			good = append(good, float64(r.Bins[4][f].Good)/float64(r.Bins[4][f].Offered))
		}
		return good
	}
	alone, shared := inTime(mesh.Control{GiveUp: true}), inTime(mesh.Rates(rates.Config{}))
	t.Logf("in time, A to F: %.2f with timeouts only, %.2f with rates", alone, shared)
	for f, name := range []string{"A", "B", "C", "D", "E"} {
		if shared[f] < 0.95 {
			t.Errorf("%s: %.2f in time with rates, expected 0.95 or more", name, shared[f])
		}
		if name != "E" && alone[f] > 0.3 {
			t.Errorf("%s: %.2f in time with timeouts only, expected a collapse", name, alone[f])
		}
	}
	if f := shared[5]; f < 0.2 || f > 0.6 {
		t.Errorf("F: %.2f in time with rates, expected about what is left, 0.4", f)
	}
}

// TestMetastable: retries beyond any budget keep a world down after a slow spell
// that a world without them recovers from.
func TestMetastable(t *testing.T) {
	late := func(retry mesh.Retry, flood bool) float64 {
		services, flows := chain(1, 0)
		flows[0].Deadline.After = 50 * ms
		r := run(t, mesh.Config{Seed: 1, Services: services, Workflows: flows, Timeout: 50 * ms, Bin: time.Second,
			Groups: []mesh.Group{{Load: mesh.Constant(1500), Clients: 4, Retry: retry, Flood: flood}},
			Faults: []mesh.Fault{{At: 3 * time.Second, Service: "c", Process: -1, Speed: 0.2}, {At: 5 * time.Second, Service: "c", Process: -1, Speed: 1}},
			Length: 15 * time.Second})
		good, offered := 0, 0
		for _, b := range r.Bins[12:] {
			good, offered = good+b[0].Good, offered+b[0].Offered
		}
		return float64(good) / float64(offered)
	}
	calm, stormy := late(mesh.Retry{}, false), late(mesh.Retry{Max: 5, Backoff: 5 * ms}, true)
	t.Logf("in time ten seconds after the fault: %.2f without retries, %.2f with", calm, stormy)
	if calm < 0.95 || stormy > 0.5 {
		t.Errorf("in time ten seconds after the fault: %.2f without retries, %.2f with, expected over 0.95 and under 0.5", calm, stormy)
	}
}

// TestKill: what a killed process held is lost, its callers go elsewhere, and all
// is well after its return.
func TestKill(t *testing.T) {
	services, flows := chain(4, 100*ms)
	r := run(t, mesh.Config{Seed: 1, Services: services, Workflows: flows, Control: mesh.Credits(), Bin: 500 * ms,
		Groups: []mesh.Group{{Load: mesh.Constant(4000), Clients: 4}},
		Faults: []mesh.Fault{{At: time.Second, Service: "b", Process: 1, Kill: time.Second}}, Length: 4 * time.Second})
	if n := r.Total.Lost; n < 3 || n > 100 {
		t.Errorf("%d requests were lost, expected those of one process at one instant", n)
	}
	for i, b := range r.Bins {
		if share := float64(b[0].Good) / float64(b[0].Offered); share < 0.98 {
			t.Errorf("bin %d: %.3f in time, expected 0.98 or more", i, share)
		}
	}
}

// TestCancelFreesTheQueue: canceling saves the work that nobody waits for.
func TestCancelFreesTheQueue(t *testing.T) {
	wasted := func(cancel bool) float64 {
		services, flows := chain(1, 30*ms)
		r := run(t, mesh.Config{Seed: 1, Services: services, Workflows: flows, Control: mesh.Control{GiveUp: true, Cancel: cancel},
			Groups: []mesh.Group{{Load: mesh.Constant(2300)}}, Length: 5 * time.Second})
		return r.Total.WastedShare()
	}
	waste, saved := wasted(false), wasted(true)
	t.Logf("wasted: %.2f, %.2f with cancellation", waste, saved)
	if saved > waste-0.1 {
		t.Errorf("wasted: %.2f, %.2f with cancellation, expected much less", waste, saved)
	}
}

// TestShedsAreCountedWhereTheyAreMade: a refusal by the leaf is one of the leaf's,
// and not one of those who pass it on.
func TestShedsAreCountedWhereTheyAreMade(t *testing.T) {
	services, flows := chain(2, 100*ms)
	c := mesh.Credits()
	c.Sender = nil
	r := run(t, mesh.Config{Seed: 1, Services: services, Workflows: flows, Control: c,
		Groups: []mesh.Group{{Load: mesh.Constant(8000)}}, Length: 3 * time.Second})
	for _, s := range r.Services {
		if n := s.Sheds[work.Downstream]; n > 0 {
			t.Errorf("%s counts %d refusals that others made", s.Name, n)
		}
	}
	if c, all := sheds(r.Services[2]), sheds(r.Services[0])+sheds(r.Services[1])+sheds(r.Services[2]); c < all/2 {
		t.Errorf("the leaf made %d of %d refusals, expected most", c, all)
	}
}

func TestEveryMistakeAtOnce(t *testing.T) {
	_, err := mesh.New(mesh.Config{
		Services:  []mesh.Service{{Name: "a", Processes: -1}, {Name: "a"}},
		Workflows: []mesh.Workflow{{Name: "w", Root: mesh.Stage{Service: "nowhere"}}, {Name: "v", Deadline: mesh.Deadline{After: 1, Multiple: 1}, Root: mesh.Stage{Service: "a", Steps: []mesh.Step{{}, {Work: mesh.Exp(1), Hold: true, Resource: "x"}}}}},
		Groups:    []mesh.Group{{Name: "g", Load: mesh.Load{Steps: []mesh.Change{{Rate: -1}}}}, {Name: "h", Mix: []mesh.Part{{"u", 1}}}},
		Faults:    []mesh.Fault{{Service: "b"}},
		RatesOf:   []string{"z"},
		Headroom:  -1,
	})
	if err == nil {
		t.Fatal("nonsense was accepted")
	}
	for _, want := range []string{"-1 processes", `service 1 is named "a"`, `"nowhere"`, "deadline", "step 0 is 0 of", "step 1 is 2 of", `resource "x"`, "step 0 is -1", `{Workflow:u`, "0 of Steps", "fault", `"z"`, "Headroom is -1", "Length"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
}
