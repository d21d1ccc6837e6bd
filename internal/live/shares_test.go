package live

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

var (
	orders = share.Key{Caller: "web", Callee: "orders", Method: "place"}
	pages  = share.Key{Caller: "web", Callee: "orders", Method: "page"}
)

func newShares(t testing.TB, g *Gate, cfg SharesConfig) *Shares {
	t.Helper()
	s, err := NewShares(g, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// visit lets one request through.
func visit(t testing.TB, s *Shares, k share.Key, did share.Course) work.Class {
	t.Helper()
	v, err := s.Enter(context.Background(), k, Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Leave(work.Done, did)
	return v.Class()
}

// TestSharesLearnAndWeigh: requests that go on become interactive, and with both
// classes there the controller changes the weights of the gate.
func TestSharesLearnAndWeigh(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	decisions := make(chan share.Decision, 1000)
	s := newShares(t, g, SharesConfig{Config: share.Config{Period: 2 * time.Millisecond, MaxHarm: 100}, Decided: func(d share.Decision) {
		select {
		case decisions <- d:
		default:
		}
	}})
	var mu sync.Mutex
	told := map[work.Class]float64{}
	s.mu.Lock()
	s.weigh = func(class work.Class, weight float64) bool {
		mu.Lock()
		told[class] = weight
		mu.Unlock()
		return g.SetWeight(class, weight)
	}
	s.mu.Unlock()
	if c := visit(t, s, orders, share.Course{Hops: 2}); c != work.Default {
		t.Errorf("the first request of a kind is %v", c)
	}
	until(t, "a change of the weight", func() bool {
		for range 20 {
			visit(t, s, orders, share.Course{Hops: 2, Total: 30 * time.Millisecond, Service: 20 * time.Millisecond})
			visit(t, s, pages, share.Course{})
		}
		mu.Lock()
		defer mu.Unlock()
		return told[work.Interactive] != 0 && told[work.Interactive] != 0.5
	})
	if a, b := s.Explain(orders), s.Explain(pages); a.Class != work.Interactive || a.Why != share.ByHops || b.Class != work.Default {
		t.Errorf("%+v and %+v, want orders alone to be interactive", a, b)
	}
	s.Close()
	mu.Lock()
	defer mu.Unlock()
	last := s.Stats().Decision
	if told[work.Interactive] != last.Weight || told[work.Default] != 1-last.Weight || len(decisions) == 0 {
		t.Errorf("the gate was told %v, the last of some %d decisions is %+v", told, len(decisions), last)
	}
}

// TestSharesKeepsWhatTheEdgeSays: a request that the edge calls interactive is.
func TestSharesKeepsWhatTheEdgeSays(t *testing.T) {
	s := newShares(t, newGate(t, 1, GateConfig{}), SharesConfig{})
	r := Request{}
	r.Class = work.Interactive
	v, err := s.Enter(context.Background(), pages, r)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Leave(work.Done, share.Course{})
	if v.Class() != work.Interactive {
		t.Errorf("class %v", v.Class())
	}
}

// TestSharesCountWhoGivesUp: in the queue whoever does; while being worked on an
// interactive request's caller; not a refusal, and not a handler that failed.
func TestSharesCountWhoGivesUp(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	s := newShares(t, g, SharesConfig{Config: share.Config{Period: time.Hour}, Classifier: share.ClassifierConfig{Overrides: []share.Override{{Method: orders.Method, Class: work.Interactive}}}})
	type seen struct{ interactive, standard uint64 }
	expect := func(what string, want seen) {
		t.Helper()
		st := s.Stats()
		if got := (seen{st.GaveUp[work.Interactive], st.GaveUp[work.Default]}); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	holder, err := s.Enter(ctx, orders, Request{})
	if err != nil {
		t.Fatal(err)
	}
	waiting, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := s.Enter(waiting, pages, Request{})
		ended <- err
	}()
	until(t, "a request that waits", func() bool { return g.Stats().Waiting == 1 })
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	expect("given up in the queue", seen{standard: 1})
	if _, err := s.Enter(waiting, pages, Request{}); err == nil {
		t.Error("a request was admitted whose caller is gone")
	}
	expect("gone on arrival", seen{standard: 1})
	cancel()
	holder.Leave(work.Ignored, share.Course{})
	holder.Leave(work.Ignored, share.Course{})
	expect("given up while being worked on", seen{interactive: 1, standard: 1})
	failed, err := s.Enter(context.Background(), orders, Request{})
	if err != nil {
		t.Fatal(err)
	}
	failed.Leave(work.Ignored, share.Course{})
	expect("a handler that failed", seen{interactive: 1, standard: 1})
}

// TestSharesConcurrently: requests, a short period, a look at everything, and two
// Closes at once.
func TestSharesConcurrently(t *testing.T) {
	g := newGate(t, 4, GateConfig{})
	s := newShares(t, g, SharesConfig{Config: share.Config{Period: time.Millisecond}, Decided: func(share.Decision) {}})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			k := orders
			if i%2 == 0 {
				k = pages
			}
			for range 200 {
				visit(t, s, k, share.Course{Hops: i % 2})
				s.Stats()
				s.Explain(k)
			}
		})
	}
	all.Wait()
	for range 2 {
		all.Go(s.Close)
	}
	all.Wait()
	visit(t, s, orders, share.Course{}) // after Close too
	if n := g.Stats(); n.Running != 0 || n.Waiting != 0 {
		t.Errorf("%+v are inside", n)
	}
}

func TestSharesReportEveryMistake(t *testing.T) {
	_, err := NewShares(newGate(t, 1, GateConfig{}), SharesConfig{Config: share.Config{Ratio: -1}, Classifier: share.ClassifierConfig{Hops: -1}})
	if err == nil || !strings.Contains(err.Error(), "Ratio") || !strings.Contains(err.Error(), "Hops") {
		t.Errorf("%v, want both", err)
	}
}

func BenchmarkShares(b *testing.B) {
	s := newShares(b, newGate(b, 1, GateConfig{}), SharesConfig{})
	b.ReportAllocs()
	for b.Loop() {
		v, err := s.Enter(context.Background(), orders, Request{})
		if err != nil {
			b.Fatal(err)
		}
		v.Leave(work.Done, share.Course{Hops: 1})
	}
}

// TestSharesOfOtherDoors: what two Shares learn in one Classes both know, and
// requests that came in elsewhere count as those of Enter do.
func TestSharesOfOtherDoors(t *testing.T) {
	together, err := NewClasses(share.ClassifierConfig{Few: 1})
	if err != nil {
		t.Fatal(err)
	}
	a := newShares(t, newGate(t, 1, GateConfig{}), SharesConfig{Classes: together})
	b := newShares(t, newGate(t, 1, GateConfig{}), SharesConfig{Classes: together})
	visit(t, a, orders, share.Course{Hops: 1})
	if v := b.Explain(orders); v.Class != work.Interactive || b.Classes() != together {
		t.Errorf("%+v", v)
	}
	visit(t, b, pages, share.Course{})
	if v := together.AppendVerdicts(nil, -1); len(v) != 2 || v[0].Key != pages || v[1].Key != orders {
		t.Errorf("listed %+v", v)
	}
	together.Learn(share.Key{Method: strings.Repeat("x", share.MaxKeyBytes+1)}, share.Course{})
	if known, long := together.Keys(); known != 2 || long != 1 {
		t.Errorf("%d keys, %d too long", known, long)
	}
	for _, class := range []work.Class{work.Interactive, work.Default, 99} {
		a.OnArrival(class)
		a.OnDone(class, share.Sample{Latency: time.Millisecond})
		a.OnCancel(class, time.Millisecond)
	}
	if st := a.Stats(); st.Admitted != [work.NumClasses]uint64{work.Default: 3, work.Interactive: 1} || st.GaveUp != [work.NumClasses]uint64{work.Default: 2, work.Interactive: 1} {
		t.Errorf("%+v", st)
	}
}
