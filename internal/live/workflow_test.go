package live

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

func ratedGate(t *testing.T, cfg GateConfig) *Gate {
	t.Helper()
	if cfg.Objective == 0 {
		cfg.Objective = 200 * time.Millisecond
	}
	cfg.NoCredit = true
	if cfg.Rates == nil {
		cfg.Rates = &rates.Config{}
	}
	g, err := NewGate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func TestGateConfigOfWorkflows(t *testing.T) {
	_, err := NewGate(GateConfig{
		Config:  admission.Config{Objective: time.Second},
		Service: "a b", Shares: map[string]float64{"w": -1, "v": math.NaN()},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"Service", "Schedule.Fair", `Shares["w"]`, `Shares["v"]`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %s: %v", part, err)
		}
	}
	_, err = NewGate(GateConfig{
		Config: admission.Config{Objective: time.Second, Schedule: schedule.Config{Fair: true, Workflows: 2}},
		Shares: map[string]float64{"a": 1, "b": 1, "c": 1},
	})
	if err == nil || !strings.Contains(err.Error(), "Schedule.Workflows") {
		t.Errorf("more shares than workflows: %v", err)
	}
	if err := leaks.Find(); err != nil {
		t.Error(err)
	}
}

// TestSharesOfSlots: with one slot taken, what waits is served by shares. Shares are
// of time, so time is that of a bubble: the system cannot stop whoever has the slot.
func TestSharesOfSlots(t *testing.T) {
	const n = 40
	synctest.Test(t, func(t *testing.T) {
		// 30 but for the first few, of which nothing is known.
		if got := firstOfShares(t, n); got < 28 || got > 32 {
			t.Errorf("of the first %d served were %d of a, expected three of a for one of b", n, got)
		}
	})
}

// firstOfShares has n requests of each of two workflows wait, of which a has three
// times the share of b, and returns how many of the first n served are of a.
func firstOfShares(t *testing.T, n int) int {
	time.Sleep(max(-time.Duration(Now()), 0)) // the clock of a bubble begins long before the process
	g := ratedGate(t, GateConfig{
		Config: admission.Config{
			Objective: time.Minute, Slots: slots.Config{Min: 1, Max: 1},
			Schedule: schedule.Config{Fair: true, Quantum: 10 * time.Microsecond},
		},
		Shares: map[string]float64{"a": 3},
	})
	if g.SetShare("b", 0) || !g.SetShare("b", 1) || !g.SetWeight(work.Interactive, 2) {
		t.Error("SetShare or SetWeight")
	}
	held, err := g.Enter(t.Context(), Request{})
	if err != nil {
		t.Fatal(err)
	}
	order := make(chan string, 2*n)
	var callers sync.WaitGroup
	defer callers.Wait()
	for _, name := range []string{"b", "a"} {
		for range n {
			callers.Go(func() {
				ticket, err := g.Enter(context.Background(), Request{Request: work.Request{Workflow: name}})
				if err != nil {
					order <- err.Error()
					return
				}
				order <- name
				time.Sleep(50 * time.Microsecond)
				ticket.Leave(work.Done)
			})
		}
		synctest.Wait()
	}
	held.Leave(work.Done)
	count := 0
	for i := range 2 * n {
		if name := <-order; i < n && name == "a" {
			count++
		}
	}
	return count
}

// TestTotalsAreOfTheEntry: what whole requests took is learned where they enter,
// from those that succeeded, and nowhere else.
func TestTotalsAreOfTheEntry(t *testing.T) {
	g := ratedGate(t, GateConfig{Config: admission.Config{Objective: time.Hour}}) // nothing is late
	enter := func(r Request) *Ticket {
		t.Helper()
		r.Workflow = "w"
		ticket, err := g.Enter(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	failed := enter(Request{})
	time.Sleep(time.Millisecond)
	failed.Failed()
	failed.Leave(work.Done)
	further := enter(Request{Process: 5})
	further.Leave(work.Done)
	dropped := enter(Request{})
	dropped.Leave(work.Dropped)
	first := enter(Request{})
	if total := first.Total(); total != (wire.Progress{}) {
		t.Errorf("the first is expected to take %+v", total)
	}
	time.Sleep(2 * time.Millisecond)
	first.Leave(work.Done)
	if total := enter(Request{}).Total(); total.Service < 2*time.Millisecond || total.Work < total.Service {
		t.Errorf("the second is expected to take %+v, expected at least 2ms", total)
	}
	told := wire.Progress{Service: time.Hour, Work: time.Hour}
	if total := enter(Request{Process: 5, Total: told}).Total(); total != told {
		t.Errorf("a request that brings %v has %v", told, total)
	}
}

// TestAnnouncementsAndClaims: a caller that names itself is told who answers; of
// its claims only numbers count; nobody else is told anything.
func TestAnnouncementsAndClaims(t *testing.T) {
	g := ratedGate(t, GateConfig{Service: "shop", Config: admission.Config{Rates: &rates.Config{Period: time.Hour, Forget: 2 * time.Hour * 3}}})
	for _, claim := range []float64{math.NaN(), math.Inf(1), -1, 1e300, 0, 5} {
		ticket, err := g.Enter(t.Context(), Request{Process: 7, Claim: claim})
		if err != nil {
			t.Fatal(err)
		}
		var before, after wire.Reply
		ticket.Answer(&before)
		ticket.Leave(work.Done)
		ticket.Answer(&after)
		for _, r := range []wire.Reply{before, after} {
			if r.Process == 0 || r.Service != "shop" || r.HasRate || !r.HasProgress {
				t.Errorf("a claim of %v is answered with %+v", claim, r)
			}
		}
	}
	ticket, err := g.Enter(t.Context(), Request{Claim: 1e9})
	if err != nil {
		t.Fatal(err)
	}
	ticket.Leave(work.Done)
	var r wire.Reply
	if ticket.Answer(&r); r != (wire.Reply{}) {
		t.Errorf("somebody without a name is told %+v", r)
	}
	g.Drain()
	_, err = g.Enter(t.Context(), Request{Process: 7})
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reply().Service != "shop" || !refusal.Reply().HasShed {
		t.Errorf("a refusal says %v", err)
	}
}

// TestCallsOfARequest: the claim travels once it is known who answers, a limit
// that is announced arrives, and one's own announcements are not heard.
func TestCallsOfARequest(t *testing.T) {
	g := ratedGate(t, GateConfig{Config: admission.Config{Rates: &rates.Config{Period: 5 * time.Millisecond}}})
	callee := NewCallee("127.0.0.1:1", nil)
	state := func() (s rates.State) {
		for _, s = range g.Rates(nil) {
			if s.Name == "w" {
				return s
			}
		}
		return s
	}
	self := NewCallee("here", nil)
	called := func(ticket *Ticket, below wire.Reply) (claim float64) {
		call, tags := BeginCall(WithTicket(t.Context(), ticket), callee, 0)
		call.Answered(callee, below)
		call.End(&below)
		return tags.Claim
	}
	serve := func(below wire.Reply) (claim float64) {
		t.Helper()
		ticket, err := g.Enter(t.Context(), Request{Request: work.Request{Workflow: "w"}})
		if err != nil {
			t.Fatal(err)
		}
		defer ticket.Leave(work.Done)
		call, tags := BeginCall(WithTicket(t.Context(), ticket), self, 1)
		if tags.Process == 0 || tags.Attempt != 1 || tags.Claim != 0 {
			t.Errorf("%+v", tags)
		}
		call.Answered(self, wire.Reply{Process: tags.Process, HasRate: true, Rate: 1})
		call.End(nil)
		return called(ticket, below)
	}
	below := wire.Reply{Process: 9, Service: "below"}
	claim := 0.0
	for end := time.Now().Add(time.Minute); claim == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		claim = serve(below)
	}
	if s := state(); claim == 0 || s.Limited() {
		t.Fatalf("the claim is %v, and without a limit below %+v", claim, s)
	}
	below.HasRate, below.Rate = true, 1
	ticket, err := g.Enter(t.Context(), Request{Request: work.Request{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	// Told again and again: a limit is forgotten while the machine stalls.
	s := state()
	for end := time.Now().Add(time.Minute); !s.Limited() && time.Now().Before(end); s = state() {
		called(ticket, below)
		time.Sleep(time.Millisecond)
	}
	ticket.Leave(work.Done)
	if s.Tight != "below" || s.Rate > 1 {
		t.Errorf("after a limit of 1/s from below: %+v", s)
	}
	// After its end a request counts for nothing, and costs nothing.
	ticket, err = g.Enter(t.Context(), Request{Request: work.Request{Workflow: "v"}})
	if err != nil {
		t.Fatal(err)
	}
	ticket.Leave(work.Done)
	call, _ := BeginCall(WithTicket(t.Context(), ticket), callee, 0)
	call.Answered(callee, wire.Reply{Process: 9})
	call.End(nil)
}

// TestQuestions: a limit that is not heard of is asked for, its answer is taken
// from who was asked alone, and what nobody answers is forgotten.
func TestQuestions(t *testing.T) {
	g := ratedGate(t, GateConfig{Config: admission.Config{Rates: &rates.Config{Period: 2 * time.Millisecond}}})
	asked := make(chan wire.Tags, 100)
	callee := NewCallee("below", func(tags wire.Tags) {
		select {
		case asked <- tags:
		default:
		}
	})
	ticket, err := g.Enter(t.Context(), Request{Request: work.Request{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	call, tags := BeginCall(WithTicket(t.Context(), ticket), callee, 0)
	call.Answered(callee, wire.Reply{Process: 9, HasRate: true, Rate: 1})
	call.End(nil)
	ticket.Leave(work.Done)
	question := <-asked
	if question.Workflow != "w" || question.Process != tags.Process || question.Credits {
		t.Fatalf("asked %+v", question)
	}
	for _, r := range []wire.Reply{
		{Process: 9, Workflow: "w"},
		{Process: 9, Workflow: "w", Asker: 1},
		{Process: 8, Workflow: "w", Asker: question.Process},
		{Process: 9, Workflow: "other", Asker: question.Process},
	} {
		callee.Announced(r)
	}
	for range 5 {
		<-asked // goes on
	}
	callee.Announced(wire.Reply{Process: 9, Workflow: "w", Asker: question.Process})
	g.mu.Lock()
	left := g.node.Limited()
	g.mu.Unlock()
	if left != 0 {
		t.Errorf("%d limits are still asked for after the last was lifted", left)
	}
}

// TestWatchedResource: who uses a resource of a gate is known to its rates.
func TestWatchedResource(t *testing.T) {
	g := ratedGate(t, GateConfig{Config: admission.Config{
		Objective: 50 * time.Millisecond,
		Rates:     &rates.Config{Period: 5 * time.Millisecond, Resources: []rates.Resource{{Name: "db", Capacity: 1}}},
	}})
	r, err := NewResource(ResourceConfig{Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if g.WatchResource("disk", r) || !g.WatchResource("db", r) || g.WatchResource("db", r) {
		t.Fatal("WatchResource")
	}
	stop := make(chan struct{})
	defer close(stop)
	for range 30 {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ticket, err := g.Enter(context.Background(), Request{Request: work.Request{Workflow: "w"}})
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				ctx := WithTags(WithTicket(context.Background(), ticket), wire.Tags{Workflow: "w"})
				_ = r.Do(ctx, 0, func(context.Context) error { time.Sleep(3 * time.Millisecond); return nil })
				ticket.Leave(work.Done)
			}
		}()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		limited := false
		for _, s := range g.Rates(nil) {
			limited = limited || s.Name == "w" && s.Limited()
		}
		if limited {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("30 at a resource of one limit nobody: %+v, %+v", g.Rates(nil), r.Stats())
		}
	}
}
