package rates

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// crowd is workflows w0, w1, … of which each sends some requests a period, that keep
// a worker busy for a millisecond each.
type crowd []int

// period is one of an adapter: more comes than its workers can do, or it is calm.
func (c crowd) period(a *Adapter, now mono.Time, overloaded bool) mono.Time {
	for i, n := range c {
		w := a.Workflow(now, fmt.Sprint("w", i))
		for range n {
			r := Request{Workflow: w, Deadline: mono.Never}
			a.OnArrival(now, &r)
			a.OnUse(w, 0, time.Millisecond)
			a.OnDone(now, &r, work.Done)
		}
	}
	now = now.Add(100 * time.Millisecond)
	p := Pressure{Target: 10 * time.Millisecond}
	if overloaded {
		p.Delay = 2 * p.Target
	}
	a.OnWake(now, Signals{Resources: []Pressure{p}})
	return now
}

// TestNewTermsAreAsOldOnes: an adapter whose terms were set while it ran gives what
// one gives that was made with them, whatever the terms were before.
func TestNewTermsAreAsOldOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := crowd(rapid.SliceOfN(rapid.IntRange(1, 60), 1, 5).Draw(t, "requests a period"))
		policy := Policy(rapid.IntRange(0, int(numPolicies)-1).Draw(t, "policy"))
		terms := func(name string) map[string]Terms {
			all := map[string]Terms{}
			for i := range len(c) + 1 { // one that does not come
				if rapid.Bool().Draw(t, name+" named") {
					one := Terms{Weight: rapid.SampledFrom([]float64{0, 0.5, 1, 3}).Draw(t, name+" weight")}
					if policy != DominantFair {
						one.Guarantee = rapid.SampledFrom([]float64{0, 0, 50, 2000}).Draw(t, name+" guarantee")
					}
					all[fmt.Sprint("w", i)] = one
				}
			}
			return all
		}
		before, after := terms("before"), terms("after")
		cfg := Config{Policy: policy, Resources: []Resource{{"workers", 1}}, Terms: after}
		made, err := New(0, cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Terms = before
		told, err := New(0, cfg)
		if err != nil {
			t.Fatal(err)
		}
		now := mono.Time(0)
		for range rapid.IntRange(overPeriods, 8).Draw(t, "periods before") {
			c.period(made, now, true)
			now = c.period(told, now, true)
		}
		if err := told.SetTerms(after); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(t, "periods after") {
			c.period(made, now, true)
			now = c.period(told, now, true)
		}
		if got, want := told.AppendStates(nil), made.AppendStates(nil); !reflect.DeepEqual(got, want) {
			t.Fatalf("from %v to %v:\n%+v, want\n%+v", before, after, got, want)
		}
	})
}

// TestTermsKeepWhatWasLearned: nothing but the rates changes, not even those at
// once; and a workflow that comes later has its terms.
func TestTermsKeepWhatWasLearned(t *testing.T) {
	a, err := New(0, Config{Resources: []Resource{{"workers", 1}}, Terms: map[string]Terms{"w0": {Weight: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	two, now := crowd{80, 80}, mono.Time(0)
	for range 10 {
		now = two.period(a, now, true)
	}
	rate := func(name string) float64 { return a.Rate(a.Workflow(now, name)) }
	// A little more, while w1 alone makes room for what waits.
	if r := rate("w0") / rate("w1"); r < 2.99 || r > 3.1 {
		t.Fatalf("three to one gives %v", r)
	}
	limited := Request{Workflow: a.Workflow(now, "w1"), Deadline: mono.Never}
	for v := Pass; v == Pass; v, _ = a.Enter(now, &limited) {
		limited = Request{Workflow: limited.Workflow, Deadline: mono.Never}
		a.OnArrival(now, &limited)
	}
	before := a.AppendStates(nil)
	if err := a.SetTerms(map[string]Terms{"w1": {Weight: 3}, "w2": {Guarantee: 400}}); err != nil {
		t.Fatal(err)
	}
	if after := a.AppendStates(nil); !reflect.DeepEqual(before, after) {
		t.Errorf("between two periods\n%+v became\n%+v", before, after)
	}
	now = two.period(a, now, true)
	if r := rate("w1") / rate("w0"); r < 2.99 || r > 3.1 {
		t.Errorf("one to three gives one to %v", r)
	}
	three := append(two, 80)
	for range 10 {
		now = three.period(a, now, true)
	}
	if r := rate("w2"); r < 400 {
		t.Errorf("a workflow that came later, with a guarantee of 400/s: %v/s", r)
	}
	if a.Backlog(limited.Workflow) == 0 {
		t.Error("nobody waits any more")
	}
}

// TestGuaranteeAfterOverload: when the overload has passed and limits are held, a new
// guarantee is kept from the next period on all the same, and one that is gone is
// not taken back before something is short.
func TestGuaranteeAfterOverload(t *testing.T) {
	a, err := New(0, Config{Resources: []Resource{{"workers", 1}}, Hold: 1000})
	if err != nil {
		t.Fatal(err)
	}
	c, now := crowd{90, 90}, mono.Time(0)
	for range 10 {
		now = c.period(a, now, true)
	}
	step := func(terms map[string]Terms, overloaded bool) float64 {
		t.Helper()
		if err := a.SetTerms(terms); err != nil {
			t.Fatal(err)
		}
		now = c.period(a, now, overloaded)
		return a.Rate(a.Workflow(now, "w0"))
	}
	fair := step(nil, false)
	if fair > 600 {
		t.Fatalf("half of a worker is %v/s", fair)
	}
	granted := map[string]Terms{"w0": {Guarantee: 900}}
	for _, s := range []struct {
		terms      map[string]Terms
		overloaded bool
		want       float64
	}{{granted, false, 900}, {granted, true, 900}, {nil, false, 900}} {
		if got := step(s.terms, s.overloaded); got < s.want || got > 1.1*s.want {
			t.Errorf("%+v: %v/s", s, got)
		}
	}
	now = c.period(a, now, true)
	if got := step(nil, true); got > 1.1*fair {
		t.Errorf("in the next overload it keeps %v/s, its share is %v", got, fair)
	}
}

func TestWrongTerms(t *testing.T) {
	a, err := New(0, Config{Resources: []Resource{{"workers", 1}}, Terms: map[string]Terms{"a": {Weight: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	a.Workflow(0, "a")
	err = a.SetTerms(map[string]Terms{"a": {Weight: math.NaN()}, "b": {Guarantee: -1}, "c": {Weight: 1e9, Guarantee: NoLimit}, "d": {Weight: 5}})
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("four mistakes: %v", err)
	}
	if a.Config().Terms["a"].Weight != 2 || a.flows[1].terms.Weight != 2 {
		t.Error("terms changed with a mistake beside them")
	}
	// The map is the caller's to change.
	own := map[string]Terms{"b": {Weight: 4}}
	if err := a.SetTerms(own); err != nil {
		t.Fatal(err)
	}
	own["b"] = Terms{Weight: 7}
	if b := a.flows[place(uint32(a.Workflow(0, "b")))]; b.terms.Weight != 4 || a.flows[1].terms.Weight != 1 {
		t.Errorf("terms %+v of b, %+v of a", b.terms, a.flows[1].terms)
	}
}
