package live

import (
	"context"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/progress"
	_ "github.com/spillgate/spillgate/internal/seeded"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// checkResult checks what holds of every result, whatever time things took.
func checkResult(t testing.TB, r progress.Result) {
	t.Helper()
	if r.Wall != r.Own+r.Waited+r.Staged || r.Service < r.Own || r.Service > r.Own+r.Staged || r.Work < r.Service {
		t.Errorf("inconsistent: %+v", r)
	}
}

func TestNobodyMeasures(t *testing.T) {
	var s *Span
	s.BeginWait()
	s.EndWait()
	s.Call().End(wire.Reply{})
	if s.End() != (progress.Result{}) || s.Elapsed() != (wire.Progress{}) {
		t.Error("a nil span measured something")
	}
	ctx := context.Background()
	if got, branch := Branch(ctx); got != ctx || branch != nil || SpanFrom(ctx) != nil {
		t.Error("a branch of nothing is something")
	}
}

func TestSpanLeavesWaitsOut(t *testing.T) {
	ctx, s := WithSpan(context.Background())
	if SpanFrom(ctx) != s {
		t.Fatal("the span is not in its context")
	}
	s.BeginWait()
	time.Sleep(20 * time.Millisecond)
	s.EndWait()
	r := s.End()
	checkResult(t, r)
	if r.Waited < 20*time.Millisecond || r.Service != r.Own || r.Wall < 20*time.Millisecond+r.Own {
		t.Errorf("%+v, want 20 ms waited at least, and no service for it", r)
	}
	time.Sleep(time.Millisecond)
	if again := s.End(); again != r {
		t.Errorf("the second end says %+v, the first %+v", again, r)
	}
}

// What a call counts for is what its reply says.
func TestSpanTakesReplies(t *testing.T) {
	tests := []struct {
		name  string
		reply wire.Reply
		all   bool // of the wall time
		want  time.Duration
		work  time.Duration
	}{
		{"reported", wire.Reply{HasProgress: true, Progress: wire.Progress{Service: 2 * time.Millisecond, Work: 50 * time.Millisecond}}, false, 2 * time.Millisecond, 50 * time.Millisecond},
		{"nothing said", wire.Reply{}, true, 0, 0},
		{"refused", wire.Reply{HasShed: true, Shed: wire.Shed{Reason: work.Delay}}, false, 0, 0},
		{"refused further down", wire.Reply{HasShed: true, Shed: wire.Shed{Reason: work.Downstream}}, true, 0, 0},
		{"a lie", wire.Reply{HasProgress: true, Progress: wire.Progress{Service: time.Hour}}, true, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NewSpan(wire.Progress{})
			c := s.Call()
			time.Sleep(10 * time.Millisecond)
			c.End(tt.reply)
			c.End(wire.Reply{})
			r := s.End()
			checkResult(t, r)
			service, work := tt.want, tt.work
			if tt.all {
				service, work = r.Staged, r.Staged
			}
			if r.Service-r.Own != service || r.Work-r.Own != work || r.Staged < 10*time.Millisecond {
				t.Errorf("%+v, want %v and %v of the call", r, service, work)
			}
		})
	}
}

// Two branches, of which one waits: the work of the other counts.
func TestBranchesDoNotHideEachOther(t *testing.T) {
	ctx, s := WithSpan(context.Background())
	var wg sync.WaitGroup
	var of [2]progress.Result
	for i := range of {
		_, branch := Branch(ctx)
		wg.Go(func() {
			if i == 0 {
				branch.BeginWait()
			}
			time.Sleep(20 * time.Millisecond)
			of[i] = branch.End()
		})
	}
	wg.Wait()
	r := s.End()
	checkResult(t, r)
	if want := r.Own + of[0].Work + of[1].Work; r.Work != want || of[0].Own > of[0].Wall-20*time.Millisecond || of[1].Own < 20*time.Millisecond {
		t.Errorf("%+v of %+v, want work %v", r, of, want)
	}
	if r.Stages != 1 || r.Called < 40*time.Millisecond {
		t.Errorf("%+v, want one stage of two branches", r)
	}
}

func TestOnward(t *testing.T) {
	ms := time.Millisecond
	came := wire.Tags{
		Budget: time.Second, Workflow: "buy", Class: work.Interactive, Priority: 3, Attempt: 2,
		Credits: true, Demand: 4, Client: 5, Process: 6, Claim: 7,
		Total: wire.Progress{Service: 100 * ms, Work: 300 * ms}, Elapsed: wire.Progress{Service: 30 * ms, Work: 40 * ms},
	}
	want := came
	want.Budget, want.Credits, want.Demand, want.Client, want.Process, want.Claim = 0, false, 0, 0, 0, 0
	ctx := WithTags(context.Background(), came)
	if got := Onward(ctx); got != want {
		t.Errorf("without a span: %+v, want %+v", got, want)
	}
	if got := Onward(context.Background()); got != (wire.Tags{}) {
		t.Errorf("of nothing: %+v", got)
	}

	ctx, s := WithSpan(ctx)
	c := s.Call()
	time.Sleep(5 * ms)
	c.End(wire.Reply{HasProgress: true, Progress: wire.Progress{Service: 2 * ms, Work: 20 * ms}})
	got := Onward(ctx).Elapsed
	r := s.End()
	if got.Service < 32*ms || got.Service > 30*ms+r.Service || got.Work < 60*ms || got.Work > 40*ms+r.Work {
		t.Errorf("elapsed %+v, want 30 and 40 ms and the beginning of %+v", got, r)
	}

	// A branch goes on from where the request stands.
	inner, branch := Branch(ctx)
	if e := Onward(inner).Elapsed; e.Service < 30*ms+r.Service || e.Work < 40*ms+r.Work || branch.End().Wall < 0 {
		t.Errorf("in a branch: %+v, want at least what the request has, %+v", e, r)
	}
}

// Whatever tags claim, elapsed can be sent on.
func TestElapsedStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewSpan(wire.Progress{Service: time.Duration(rapid.Int64().Draw(t, "service")), Work: time.Duration(rapid.Int64().Draw(t, "work"))})
		if e := s.Elapsed(); e.Service < 0 || e.Work < 0 {
			t.Fatalf("%+v", e)
		}
	})
}

func TestSpanFromManyGoroutines(t *testing.T) {
	ctx, s := WithSpan(context.Background())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				s.BeginWait()
				c := s.Call()
				Onward(ctx)
				_, branch := Branch(ctx)
				branch.Call()
				branch.End()
				c.End(wire.Reply{})
				s.EndWait()
			}
		})
	}
	wg.Wait()
	checkResult(t, s.End())
}
