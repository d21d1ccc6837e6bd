package live

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

var (
	orders = share.Key{Caller: "web", Callee: "orders", Method: "place"}
	pages  = share.Key{Caller: "web", Callee: "orders", Method: "page"}
)

// sharing returns a gate with so many slots that learns classes.
func sharing(t testing.TB, slots int, cfg SharesConfig) (*Gate, *Shares) {
	t.Helper()
	g := newGate(t, slots, GateConfig{ClassShares: &cfg})
	return g, g.Shares()
}

// pass lets one request through.
func pass(t testing.TB, g *Gate, k share.Key, did share.Course) work.Class {
	t.Helper()
	ticket, err := g.Enter(context.Background(), Request{Key: k})
	if err != nil {
		t.Fatal(err)
	}
	defer ticket.Leave(work.Done)
	ticket.Did(did)
	return classOf(t, ticket)
}

func classOf(t testing.TB, ticket *Ticket) work.Class {
	t.Helper()
	class, ok := ticket.Class()
	if !ok {
		t.Error("the request has no class")
	}
	return class
}

// TestSharesLearnAndWeigh: requests that go on become interactive, and with both
// classes there the controller changes the weights of the gate.
func TestSharesLearnAndWeigh(t *testing.T) {
	decisions := make(chan share.Decision, 1000)
	g, s := sharing(t, 1, SharesConfig{Config: share.Config{Period: 2 * time.Millisecond, MaxHarm: 100}, Decided: func(d share.Decision) {
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
	if c := pass(t, g, orders, share.Course{Hops: 2}); c != work.Default {
		t.Errorf("the first request of a kind is %v", c)
	}
	until(t, "a change of the weight", func() bool {
		for range 20 {
			pass(t, g, orders, share.Course{Hops: 2, Total: 30 * time.Millisecond, Service: 20 * time.Millisecond})
			pass(t, g, pages, share.Course{})
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
	g, _ := sharing(t, 1, SharesConfig{})
	v, err := g.Enter(context.Background(), Request{Request: work.Request{Class: work.Interactive}, Key: pages})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Leave(work.Done)
	if class := classOf(t, v); class != work.Interactive {
		t.Errorf("class %v", class)
	}
}

// TestSharesCountWhoGivesUp: in the queue whoever does; while being worked on an
// interactive request's caller; not a refusal, and not a handler that failed.
func TestSharesCountWhoGivesUp(t *testing.T) {
	g, s := sharing(t, 1, SharesConfig{Config: share.Config{Period: time.Hour}, Classifier: share.ClassifierConfig{Overrides: []share.Override{{Method: orders.Method, Class: work.Interactive}}}})
	type seen struct{ interactive, standard uint64 }
	expect := func(what string, want seen) {
		t.Helper()
		st := s.Stats()
		if got := (seen{st.GaveUp[work.Interactive], st.GaveUp[work.Default]}); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	holder, err := g.Enter(ctx, Request{Key: orders})
	if err != nil {
		t.Fatal(err)
	}
	waiting, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := g.Enter(waiting, Request{Key: pages})
		ended <- err
	}()
	until(t, "a request that waits", func() bool { return g.Stats().Waiting == 1 })
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	expect("given up in the queue", seen{standard: 1})
	if _, err := g.Enter(waiting, Request{Key: pages}); err == nil {
		t.Error("a request was admitted whose caller is gone")
	}
	expect("gone on arrival", seen{standard: 1})
	cancel()
	holder.Leave(work.Ignored)
	holder.Leave(work.Ignored)
	expect("given up while being worked on", seen{interactive: 1, standard: 1})
	failed, err := g.Enter(context.Background(), Request{Key: orders})
	if err != nil {
		t.Fatal(err)
	}
	failed.Leave(work.Ignored)
	expect("a handler that failed", seen{interactive: 1, standard: 1})
}

// TestSharesConcurrently: requests, a short period, a look at everything, and two
// Closes at once.
func TestSharesConcurrently(t *testing.T) {
	g, s := sharing(t, 4, SharesConfig{Config: share.Config{Period: time.Millisecond}, Decided: func(share.Decision) {}})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			k := orders
			if i%2 == 0 {
				k = pages
			}
			for range 200 {
				pass(t, g, k, share.Course{Hops: i % 2})
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
	pass(t, g, orders, share.Course{}) // after Close too
	if n := g.Stats(); n.Running != 0 || n.Waiting != 0 {
		t.Errorf("%+v are inside", n)
	}
}

func TestSharesReportEveryMistake(t *testing.T) {
	wrong := SharesConfig{Config: share.Config{Ratio: -1}, Classifier: share.ClassifierConfig{Hops: -1}}
	_, alone := NewShares(newGate(t, 1, GateConfig{}), wrong)
	_, inside := NewGate(GateConfig{ClassShares: &wrong, Mode: 99})
	for _, err := range []error{alone, inside} {
		if err == nil || !strings.Contains(err.Error(), "Ratio") || !strings.Contains(err.Error(), "Hops") {
			t.Errorf("%v, want both", err)
		}
	}
	if !strings.Contains(inside.Error(), "Objective") || !strings.Contains(inside.Error(), "Mode") {
		t.Errorf("%v, want those of the gate as well", inside)
	}
}

func BenchmarkShares(b *testing.B) {
	g, _ := sharing(b, 1, SharesConfig{})
	b.ReportAllocs()
	for b.Loop() {
		v, err := g.Enter(context.Background(), Request{Key: orders})
		if err != nil {
			b.Fatal(err)
		}
		v.Did(share.Course{Hops: 1})
		v.Leave(work.Done)
	}
}

// TestSharesOfOtherDoors: what two Shares learn in one Classes both know, and
// requests that came in elsewhere count as those of Admit do.
func TestSharesOfOtherDoors(t *testing.T) {
	together, err := NewClasses(share.ClassifierConfig{Few: 1})
	if err != nil {
		t.Fatal(err)
	}
	first, a := sharing(t, 1, SharesConfig{Classes: together})
	second, b := sharing(t, 1, SharesConfig{Classes: together})
	pass(t, first, orders, share.Course{Hops: 1})
	if v := b.Explain(orders); v.Class != work.Interactive || b.Classes() != together {
		t.Errorf("%+v", v)
	}
	pass(t, second, pages, share.Course{})
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

// TestCallsMakeInteractive: a request whose handler calls another service is one that
// goes on, and its calls carry its class; with the gate off, nothing is learned.
func TestCallsMakeInteractive(t *testing.T) {
	g, s := sharing(t, 1, SharesConfig{Classifier: share.ClassifierConfig{Few: 1}})
	callee := NewCallee("below", nil)
	serve := func(k share.Key, calls int) {
		ticket, err := g.Enter(t.Context(), Request{Key: k})
		if err != nil {
			t.Fatal(err)
		}
		defer ticket.Leave(work.Done)
		for range calls {
			call, _ := BeginCall(WithTicket(t.Context(), ticket), callee, 0)
			call.Answered(callee, wire.Reply{})
			call.End(nil)
		}
	}
	for range 5 {
		serve(orders, 2)
		serve(pages, 0)
	}
	if a, b := s.Explain(orders), s.Explain(pages); a.Class != work.Interactive || a.Why != share.ByHops || b.Class != work.Default || b.Why == share.ByHops {
		t.Errorf("%+v and %+v, want orders alone to be interactive", a, b)
	}
	failed, err := g.Enter(t.Context(), Request{Key: share.Key{Method: "fails"}})
	if err != nil {
		t.Fatal(err)
	}
	failed.Failed()
	failed.Leave(work.Done)
	g.SetMode(Off)
	off, err := g.Enter(t.Context(), Request{Key: share.Key{Method: "off"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := off.Class(); ok {
		t.Error("a gate that is off gave a class")
	}
	off.Leave(work.Done)
	if known, _ := s.Classes().Keys(); known != 2 {
		t.Errorf("%d kinds are known, want 2", known)
	}
}

// A ticket that is used again brings nothing along from the request before: neither how that ended, nor what it
// did, called or was told, nor how long it took.
func TestTicketUsedAgain(t *testing.T) {
	g, s := sharing(t, 1, SharesConfig{})
	var ticket Ticket
	admit := func(r Request) {
		t.Helper()
		if err := g.Admit(t.Context(), r, &ticket); err != nil {
			t.Fatal(err)
		}
	}
	admit(Request{Key: orders, Process: 7, Elapsed: wire.Progress{Service: time.Hour, Work: time.Hour}})
	room := ticket.room
	ticket.Failed()
	ticket.Did(share.Course{Hops: 9, Total: time.Hour})
	ticket.visit.calls.Add(3)
	ticket.Leave(work.Done)

	admit(Request{Key: pages})
	if ticket.room != room {
		t.Error("the second request has memory of its own")
	}
	if ticket.failed.Load() || ticket.visit.did != (share.Course{}) || ticket.visit.calls.Load() != 0 || ticket.announced != (announced{}) {
		t.Error("the second request begins with what the first one did")
	}
	if spent := ticket.Span().Elapsed(); spent.Service > time.Minute {
		t.Errorf("the second request had %v before, as the first one", spent)
	}
	before := ticket.Span().Spent()
	time.Sleep(time.Millisecond)
	if ticket.Span().Spent() == before {
		t.Error("the span of the second request stands still")
	}
	ticket.Leave(work.Done)
	if v := s.Explain(pages); v.Seen != 1 || v.Hops != 0 {
		t.Errorf("of the second kind is known %+v, want one request without hops", v)
	}
	if v := s.Explain(orders); v.Seen != 0 {
		t.Errorf("a request that failed taught %+v", v)
	}
	if n := s.Stats().Admitted; n[work.Default] != 2 {
		t.Errorf("%v were admitted, want 2", n)
	}
	admit(Request{Key: orders, Process: 7})
	ticket.Leave(work.Done)
	var r wire.Reply
	if ticket.Answer(&r); !r.HasProgress || r.Progress.Service > time.Minute {
		t.Errorf("the third request answers %+v, want its own progress", r.Progress)
	}
}

// The controller works with the slots of its gate, unless it is told another number: here with more than it takes.
func TestSharesAreOfTheSlots(t *testing.T) {
	const many = 2_000_000
	_, err := NewGate(GateConfig{Config: admission.Config{Objective: time.Minute, Slots: slots.Config{Min: many, Max: many}}, ClassShares: &SharesConfig{}})
	if err == nil || !strings.Contains(err.Error(), "Servers is 2e+06") {
		t.Errorf("a gate of %d slots: %v, expected that its controller does not take so many servers", many, err)
	}
}
