package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// newGate returns a gate with n slots that never move.
func newGate(t testing.TB, n int, cfg GateConfig) *Gate {
	t.Helper()
	if cfg.Objective == 0 {
		cfg.Objective = time.Minute // nothing is refused for delay
	}
	if n > 0 {
		cfg.Slots = slots.Config{Min: n, Max: n}
	}
	g, err := NewGate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func enter(t testing.TB, g *Gate, r Request) *Ticket {
	t.Helper()
	ticket, err := g.Enter(context.Background(), r)
	if err != nil {
		t.Fatalf("Enter: %v", err)
	}
	return ticket
}

// until polls, because the moment at which another goroutine blocks cannot be
// seen; it fails only if that never happens.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain for: %s", what)
}

func TestWaitsForItsTurn(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	first := enter(t, g, Request{})
	got := make(chan int, 3)
	var wg sync.WaitGroup
	for i := range 3 {
		until(t, "the one before to wait", func() bool { return g.Stats().Waiting == i })
		wg.Go(func() {
			ticket, err := g.Enter(context.Background(), Request{})
			if err != nil {
				t.Errorf("Enter: %v", err)
				return
			}
			got <- i
			ticket.Leave(work.Done)
		})
	}
	until(t, "all three to wait", func() bool { return g.Stats().Waiting == 3 })
	first.Leave(work.Done)
	wg.Wait()
	for want := range 3 {
		if i := <-got; i != want {
			t.Errorf("served %d, want %d: first in, first out", i, want)
		}
	}
	if s := g.Stats(); s.Running != 0 || s.Waiting != 0 || s.Served[work.Done] != 4 {
		t.Errorf("running %d, waiting %d, served %d, want 0, 0, 4", s.Running, s.Waiting, s.Served[work.Done])
	}
}

func TestLeaveCountsOnce(t *testing.T) {
	g := newGate(t, 2, GateConfig{})
	a, b := enter(t, g, Request{}), enter(t, g, Request{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { a.Leave(work.Done) })
	}
	wg.Wait()
	if n := g.Stats().Running; n != 1 {
		t.Errorf("%d running after one ticket was returned 16 times, want 1", n)
	}
	b.Leave(work.Ignored)
}

func TestCallerGivesUpWhileWaiting(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	first := enter(t, g, Request{})
	defer first.Leave(work.Done)
	cause := errors.New("the user closed the page")
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error)
	go func() {
		_, err := g.Enter(ctx, Request{})
		done <- err
	}()
	until(t, "it to wait", func() bool { return g.Stats().Waiting == 1 })
	cancel(cause)
	err := <-done
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != work.Canceled || !errors.Is(err, cause) {
		t.Errorf("got %v, want a refusal as canceled that wraps %q", err, cause)
	}
	if refusal != nil && refusal.Pushback >= 0 {
		t.Errorf("pushback %v, want never", refusal.Pushback)
	}
	if s := g.Stats(); s.Waiting != 0 || s.Shed[work.Canceled] != 1 {
		t.Errorf("waiting %d, canceled %d, want 0, 1", s.Waiting, s.Shed[work.Canceled])
	}
}

// TestCallerGoneBeforeItsTurn: what nobody waits for does not run, though a slot is
// free.
func TestCallerGoneBeforeItsTurn(t *testing.T) {
	g := newGate(t, 4, GateConfig{})
	c := g.Connect(nil)
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := g.Enter(ctx, Request{Client: c})
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != work.Expired || !refusal.HasGrant || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a refusal as expired that wraps the context's error and carries credits", err)
	}
	if s := g.Stats(); s.Running != 0 || s.Shed[work.Expired] != 1 {
		t.Errorf("running %d, expired %d, want 0, 1", s.Running, s.Shed[work.Expired])
	}
}

func TestDeadlinePassesWhileWaiting(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	first := enter(t, g, Request{})
	defer first.Leave(work.Done)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	_, err := g.Enter(ctx, Request{})
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != work.Expired && refusal.Reason != work.Infeasible {
		t.Errorf("got %v, want a refusal for want of time", err)
	}
	_, err = g.Enter(ctx, Request{})
	if !errors.As(err, &refusal) || refusal.Reason != work.Expired {
		t.Errorf("got %v, want a refusal as expired on arrival", err)
	}
}

// TestStuckHandlersDoNotHoldTheQueue: with every slot stuck nothing departs, and
// what waits is refused by the timer all the same.
func TestStuckHandlersDoNotHoldTheQueue(t *testing.T) {
	g := newGate(t, 1, GateConfig{Config: admission.Config{Objective: 50 * time.Millisecond}})
	stuck := enter(t, g, Request{})
	defer stuck.Leave(work.Done)
	_, err := g.Enter(context.Background(), Request{})
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != work.Delay || refusal.Pushback < 0 {
		t.Errorf("got %v, want a refusal for delay that may be retried", err)
	}
}

// TestOneRefusalDeadlocksNobody: credits return on refusals as on answers.
func TestOneRefusalDeadlocksNobody(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	c := g.Connect(nil)
	defer c.Close()
	for range 100 {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		held := enter(t, g, Request{Client: c, Request: work.Request{Asks: true}})
		_, err := g.Enter(ctx, Request{Client: c})
		var refusal *Refusal
		if !errors.As(err, &refusal) || !refusal.HasGrant {
			t.Fatalf("got %v, want a refusal that carries a grant", err)
		}
		held.Leave(work.Done)
		if grant, ok := held.Grant(); !ok || grant.Window == 0 {
			t.Fatalf("grant %+v %v, want a window", grant, ok)
		}
	}
	if s := g.Stats(); s.Running != 0 || s.Issued < 1 {
		t.Errorf("running %d, issued %d", s.Running, s.Issued)
	}
}

func TestModes(t *testing.T) {
	var mu sync.Mutex
	var events []Event
	cfg := GateConfig{Mode: Monitor, Observe: func(e Event) {
		mu.Lock()
		events = append(events, e)
		mu.Unlock()
	}}
	cfg.Objective = time.Hour
	cfg.QueueLimit = 1
	g := newGate(t, 1, cfg)
	var tickets []*Ticket
	past := Request{}
	past.Deadline = Now() - 1
	for range 5 {
		tickets = append(tickets, enter(t, g, Request{}))
	}
	tickets = append(tickets, enter(t, g, past))
	if s := g.Stats(); s.Running != 6 || s.Would[work.Expired] != 1 {
		t.Errorf("monitor: running %d, would have expired %d, want 6, 1", s.Running, s.Would[work.Expired])
	}
	g.SetMode(Off)
	tickets = append(tickets, enter(t, g, past))
	g.SetMode(Enforce)
	if _, err := g.Enter(context.Background(), past); err == nil {
		t.Error("enforce: an expired request was admitted")
	}
	for _, ticket := range tickets {
		ticket.Leave(work.Done)
	}
	if s := g.Stats(); s.Running != 0 {
		t.Errorf("running %d after all left", s.Running)
	}
	mu.Lock()
	defer mu.Unlock()
	would, enforced := 0, 0
	for _, e := range events {
		switch {
		case e.Reason != work.None && e.Enforced:
			enforced++
		case e.Reason != work.None:
			would++
		}
	}
	if would != 1 || enforced != 1 {
		t.Errorf("events: %d would, %d did, want 1 and 1 (%+v)", would, enforced, events)
	}
}

func TestCloseRefusesWhatWaits(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	first := enter(t, g, Request{})
	done := make(chan error)
	go func() {
		_, err := g.Enter(context.Background(), Request{})
		done <- err
	}()
	until(t, "it to wait", func() bool { return g.Stats().Waiting == 1 })
	g.Close()
	var refusal *Refusal
	if err := <-done; !errors.As(err, &refusal) || refusal.Reason != work.Draining {
		t.Errorf("got %v, want a refusal as draining", err)
	}
	if _, err := g.Enter(context.Background(), Request{}); !errors.As(err, &refusal) || refusal.Reason != work.Draining {
		t.Errorf("after Close: got %v, want a refusal as draining", err)
	}
	first.Leave(work.Done)
	g.Close()
}

// TestClientWithoutCreditIsWoken: the grant comes without a reply when another
// client gives its credits back.
func TestClientWithoutCreditIsWoken(t *testing.T) {
	cfg := GateConfig{Config: admission.Config{Objective: time.Second, Credit: credit.Config{InitialWindow: 1, MaxWindow: 1}}}
	g := newGate(t, 4, cfg)
	var last atomic.Uint32
	c := g.Connect(func(w wire.Grant) { last.Store(w.Window) })
	defer c.Close()
	if last.Load() != 1 {
		t.Fatalf("window %d after connecting to an idle server, want 1", last.Load())
	}
	ticket := enter(t, g, Request{Client: c, Request: work.Request{Demand: 3}})
	ticket.Leave(work.Done)
	if grant, ok := ticket.Grant(); !ok || grant.Window != 1 {
		t.Errorf("grant %+v %v, want a window of 1", grant, ok)
	}
	c.OnDemand(0)
	c.Close()
	c.Close()
	if s := g.Stats(); s.Clients != 0 || s.Issued != 0 {
		t.Errorf("clients %d, issued %d after the last one closed, want 0, 0", s.Clients, s.Issued)
	}
}

// TestManyAtOnce: nothing is lost under load from many goroutines, cancels,
// panics and connections that come and go included.
func TestManyAtOnce(t *testing.T) {
	g := newGate(t, 4, GateConfig{Config: admission.Config{Objective: 20 * time.Millisecond}})
	var ran, refused atomic.Int64
	var wg sync.WaitGroup
	const workers, each = 32, 100
	for i := range workers {
		wg.Go(func() {
			c := g.Connect(func(wire.Grant) {})
			for j := range each {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+j%30)*time.Millisecond)
				r := Request{Client: c}
				if i%4 == 0 {
					r.Client = nil
				}
				ticket, err := g.Enter(ctx, r)
				if err != nil {
					refused.Add(1)
				} else {
					ran.Add(1)
					func() {
						defer func() { _ = recover() }()
						defer ticket.Leave(work.Done)
						if j%10 == 0 {
							panic("handler")
						}
						time.Sleep(time.Duration(j%3) * 100 * time.Microsecond)
					}()
				}
				cancel()
			}
			c.Close()
		})
	}
	wg.Wait()
	s := g.Stats()
	var shed uint64
	for _, n := range s.Shed {
		shed += n
	}
	if s.Running != 0 || s.Waiting != 0 || s.Clients != 0 || s.Issued != 0 {
		t.Errorf("left over: running %d, waiting %d, clients %d, issued %d", s.Running, s.Waiting, s.Clients, s.Issued)
	}
	if int64(s.Served[work.Done]+s.Served[work.Late]) != ran.Load() || int64(shed) != refused.Load() || ran.Load()+refused.Load() != workers*each {
		t.Errorf("gate says %d served, %d shed; callers say %d, %d", s.Served[work.Done]+s.Served[work.Late], shed, ran.Load(), refused.Load())
	}
}

// TestManyVerdictsAtOnce: more requests than are told of their verdicts in one hold of
// the lock are told all the same, once each, whatever comes in between.
func TestManyVerdictsAtOnce(t *testing.T) {
	g := newGate(t, 1, GateConfig{Config: admission.Config{Objective: time.Hour}})
	first := enter(t, g, Request{})
	defer first.Leave(work.Done)
	const waiting = 5*verdictsHeld + 1
	var refused, ran atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for i := range waiting {
		wg.Go(func() {
			with := context.Background()
			if i%3 == 0 {
				with = ctx // these give up meanwhile
			}
			ticket, err := g.Enter(with, Request{})
			if err != nil {
				refused.Add(1)
				return
			}
			ran.Add(1)
			ticket.Leave(work.Done)
		})
	}
	until(t, "all to wait", func() bool { return g.Stats().Waiting == waiting })
	wg.Go(cancel)
	wg.Go(func() { g.Close() })
	wg.Wait()
	if refused.Load() != waiting || ran.Load() != 0 || g.Stats().Waiting != 0 {
		t.Errorf("%d refused, %d ran, %d wait, expected %d, none, none", refused.Load(), ran.Load(), g.Stats().Waiting, waiting)
	}
}

// TestAdmit: one ticket serves one request after another, whatever became of the one
// before, and nothing of that one is left on it.
func TestAdmit(t *testing.T) {
	g := newGate(t, 1, GateConfig{})
	credits := g.Connect(func(wire.Grant) {})
	var ticket Ticket
	for i := range 3 {
		if err := g.Admit(t.Context(), Request{Client: credits, Request: work.Request{Asks: true}}, &ticket); err != nil {
			t.Fatal(err)
		}
		if _, ok := ticket.Grant(); ok || ticket.Left() {
			t.Fatalf("request %d: a new ticket has credits for the reply or has left", i)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		var other Ticket
		if err := g.Admit(ctx, Request{}, &other); err == nil {
			t.Fatal("a second request got the only slot")
		}
		cancel()
		ticket.Leave(work.Done)
		ticket.Leave(work.Done)
		if _, ok := ticket.Grant(); !ok || !ticket.Left() {
			t.Fatalf("request %d: no credits for the reply, or not left", i)
		}
		if err := g.Admit(t.Context(), Request{}, &other); err != nil { // it was refused before
			t.Fatal(err)
		}
		other.Leave(work.Done)
	}
	if s := g.Stats(); s.Running != 0 || s.Served[work.Done] != 6 {
		t.Errorf("%d run, %d were served, want 0 and 6", s.Running, s.Served[work.Done])
	}
	if n := testing.AllocsPerRun(100, func() {
		if g.Admit(context.Background(), Request{Client: credits}, &ticket) == nil {
			ticket.Leave(work.Done)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a request that need not wait, want 0", n)
	}
}

func TestGateConfigReportsEveryMistake(t *testing.T) {
	_, err := NewGate(GateConfig{Mode: 9, Config: admission.Config{QueueLimit: -1}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range []string{"Mode", "Objective", "QueueLimit"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not name %s: %v", word, err)
		}
	}
}

func BenchmarkAdmitLeave(b *testing.B) {
	for _, clients := range []int{0, 10, 10_000} {
		name := "plain"
		if clients > 0 {
			name = fmt.Sprintf("clients=%d", clients)
		}
		b.Run(name, func(b *testing.B) {
			g := newGate(b, 0, GateConfig{Config: admission.Config{Objective: 100 * time.Millisecond}})
			cs := make([]*Client, clients)
			for i := range cs {
				cs[i] = g.Connect(func(wire.Grant) {})
			}
			ctx := context.Background()
			b.ReportAllocs()
			i := 0
			var ticket Ticket
			for b.Loop() {
				var r Request
				if clients > 0 {
					r.Client = cs[i%clients]
					i++
				}
				if err := g.Admit(ctx, r, &ticket); err != nil {
					b.Fatal(err)
				}
				ticket.Leave(work.Done)
			}
		})
	}
}

// A wait that ends because the time of its context is over is not one whose caller left,
// also where the context did not say when that would be.
func TestReasonOfAWaitThatEnds(t *testing.T) {
	for _, tt := range []struct {
		cause error
		want  work.Reason
	}{{context.DeadlineExceeded, work.Expired}, {context.Canceled, work.Canceled}, {errors.New("left"), work.Canceled}} {
		g := newGate(t, 1, GateConfig{})
		first := enter(t, g, Request{})
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() {
			_, err := g.Enter(ctx, Request{})
			ended <- err
		}()
		until(t, "the request to wait", func() bool { return g.Stats().Waiting == 1 })
		cancel(tt.cause)
		var r *Refusal
		if err := <-ended; !errors.As(err, &r) || r.Reason != tt.want || !errors.Is(err, tt.cause) {
			t.Errorf("%v: %v, want a refusal for %v", tt.cause, err, tt.want)
		}
		first.Leave(work.Done)
	}
}

// Of the deadlines of a request and of its context the sooner one counts.
func TestTheSoonerDeadlineCounts(t *testing.T) {
	g := newGate(t, 4, GateConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	d, _ := ctx.Deadline()
	of := Instant(d)
	for _, tt := range []struct{ own, want mono.Time }{
		{0, of}, {mono.Never, of}, {of.Add(time.Hour), of}, {of.Add(-time.Minute), of.Add(-time.Minute)},
	} {
		ticket, err := g.Enter(ctx, Request{Request: work.Request{Deadline: tt.own}})
		if err != nil {
			t.Fatal(err)
		}
		if got := ticket.core.Deadline; got.Sub(tt.want).Abs() > time.Millisecond {
			t.Errorf("a deadline of %v and %v by the context: %v, want %v", tt.own, of, got, tt.want)
		}
		ticket.Leave(work.Done)
	}
}

// TestStreamsOneAfterAnother: each stream counts up to the beginning of its own answer, not of that of an earlier request
// whose memory it has.
func TestStreamsOneAfterAnother(t *testing.T) {
	gate, err := NewGate(GateConfig{Config: admission.Config{Objective: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	for range 10 {
		ticket, err := gate.Enter(t.Context(), Request{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
		ticket.Begun(true)
		ticket.Leave(work.Released)
		if took := gate.Stats().Service; took < 2*time.Millisecond {
			t.Fatalf("streams whose answers begin after 2ms seem to take %v", took)
		}
	}
}
