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

// limited returns an adapter with one workflow limited to a rate, whose admitted
// requests take so long.
func limited(t testing.TB, rate float64, latency time.Duration) (*Adapter, Workflow, *limiter) {
	a, err := New(0, Config{Resources: []Resource{{"workers", 1}}, WaitShare: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := a.Workflow(0, "w")
	l := &a.flow(w).limiter
	l.set(0, rate, 1)
	l.latency = latency.Seconds()
	return a, w, l
}

func enter(a *Adapter, now mono.Time, w Workflow, budget time.Duration) (*Request, Verdict, work.Reason) {
	t := &Request{Workflow: w, Deadline: now.Add(budget)}
	if budget == math.MaxInt64 {
		t.Deadline = mono.Never
	}
	a.OnArrival(now, t)
	v, r := a.Enter(now, t)
	return t, v, r
}

// TestFeasibility: with 120 ms from here on and 50/s, a request with 300 ms left
// tolerates 180 ms: the wait behind nine others, but not behind ten.
func TestFeasibility(t *testing.T) {
	for _, tt := range []struct {
		backlog int
		budget  time.Duration
		want    Verdict
		reason  work.Reason
	}{
		{8, 300 * time.Millisecond, Wait, work.None},
		{9, 300 * time.Millisecond, Wait, work.None},
		{10, 300 * time.Millisecond, Drop, work.Rate},
		{0, 300 * time.Millisecond, Pass, work.None},
		{0, 119 * time.Millisecond, Drop, work.Infeasible},
		{0, 0, Drop, work.Expired},
		{0, -time.Second, Drop, work.Expired},
		{50, math.MaxInt64, Wait, work.None},
		{51, math.MaxInt64, Drop, work.Rate},
		{10_000, time.Hour, Drop, work.QueueFull},
	} {
		a, w, l := limited(t, 50, 120*time.Millisecond)
		l.backlog = tt.backlog
		if _, v, r := enter(a, 0, w, tt.budget); v != tt.want || r != tt.reason {
			t.Errorf("backlog %d, %v left: %v %v, want %v %v", tt.backlog, tt.budget, v, r, tt.want, tt.reason)
		}
	}
}

// TestWaitForAToken: at a low rate the wait for the next token counts, also of the
// first who waits.
func TestWaitForAToken(t *testing.T) {
	for budget, want := range map[time.Duration]Verdict{300 * time.Millisecond: Drop, time.Second: Wait} {
		a, w, _ := limited(t, 4, 20*time.Millisecond) // a token in 250 ms
		a.cfg.WaitShare = 0.5
		if _, v, _ := enter(a, 0, w, budget); v != Pass {
			t.Fatalf("the first, %v left: %v, want pass", budget, v)
		}
		if _, v, _ := enter(a, 0, w, budget); v != want {
			t.Errorf("the second, %v left: %v, want %v", budget, v, want)
		}
	}
}

// TestWaitShare: what passes needs some of its budget further on.
func TestWaitShare(t *testing.T) {
	for backlog, want := range map[int]Verdict{7: Wait, 8: Drop} { // 140 and 160 of 150 ms
		a, w, l := limited(t, 50, 120*time.Millisecond)
		a.cfg.WaitShare = 0.5
		l.backlog = backlog
		if _, v, _ := enter(a, 0, w, 300*time.Millisecond); v != want {
			t.Errorf("backlog %d: %v, want %v", backlog, v, want)
		}
	}
}

// TestTurn: a request that waits is tested again at its turn.
func TestTurn(t *testing.T) {
	a, w, _ := limited(t, 50, 120*time.Millisecond)
	_, first, _ := enter(a, 0, w, time.Second)
	second, waits, _ := enter(a, 0, w, 150*time.Millisecond)
	if first != Pass || waits != Wait {
		t.Fatalf("%v and %v, want pass and wait", first, waits)
	}
	if at := a.ReadyAt(0, w); at != mono.Time(20*time.Millisecond) {
		t.Errorf("ready at %v, want 20ms", at)
	}
	if v, _ := a.Next(mono.Time(19*time.Millisecond), second); v != Wait || a.Backlog(w) != 1 {
		t.Errorf("a millisecond early: %v with %d waiting, want wait with 1", v, a.Backlog(w))
	}
	if v, r := a.Next(mono.Time(31*time.Millisecond), second); v != Drop || r != work.Infeasible {
		t.Errorf("with 119 ms left: %v %v, want drop infeasible", v, r)
	}
	if v, _ := a.Next(mono.Time(32*time.Millisecond), second); v != Pass || a.Backlog(w) != 0 {
		t.Errorf("once more: %v with %d waiting, want that nothing happens", v, a.Backlog(w))
	}
	third, _, _ := enter(a, mono.Time(32*time.Millisecond), w, time.Second)
	fourth, v, _ := enter(a, mono.Time(32*time.Millisecond), w, time.Second)
	if v != Wait {
		t.Fatalf("%v, want wait: the token of 20 ms went to the third", v)
	}
	a.OnCancel(fourth)
	a.OnCancel(fourth)
	a.OnCancel(third)
	if a.Backlog(w) != 0 || a.ReadyAt(0, w) != mono.Never {
		t.Errorf("%d waiting, ready at %v after the last was canceled, want 0 and never", a.Backlog(w), a.ReadyAt(0, w))
	}
}

// TestTurnedAwayIsNoCost: requests that were let in and then refused by what stands
// behind take nothing, and do not make the others look cheaper.
func TestTurnedAwayIsNoCost(t *testing.T) {
	a, err := New(0, Config{Resources: []Resource{{"workers", 4}}})
	if err != nil {
		t.Fatal(err)
	}
	w := a.Workflow(0, "w")
	now := mono.Time(0)
	for range 20 {
		for i := range 10 {
			r, v, _ := enter(a, now, w, time.Second)
			if v != Pass {
				t.Fatalf("%v, want pass: there is no limit", v)
			}
			if i%2 == 0 {
				a.OnCancel(r)
				a.OnCancel(r)
				continue
			}
			a.OnUse(w, 0, 10*time.Millisecond)
			a.OnDone(now, r, work.Done)
		}
		if f := a.flow(w); math.Abs(f.cost(0)-0.010) > 1e-9 {
			t.Fatalf("a request costs %v s, want 0.010", f.cost(0))
		}
		now = now.Add(100 * time.Millisecond)
		a.OnWake(now, Signals{})
	}
}

// TestOneInSixteenProbes: of requests that are infeasible by what is known,
// exactly every sixteenth is let through, and its turn does not refuse it again.
func TestOneInSixteenProbes(t *testing.T) {
	a, w, _ := limited(t, 50, 10*time.Second)
	now := mono.Time(0)
	var passed []int
	for i := 1; i <= 160; i++ {
		now = now.Add(20 * time.Millisecond)
		if _, v, _ := enter(a, now, w, time.Second); v == Pass {
			passed = append(passed, i)
		}
	}
	if got, want := fmt.Sprint(passed), "[16 32 48 64 80 96 112 128 144 160]"; got != want {
		t.Errorf("passed %v, want %v", got, want)
	}
	now = now.Add(time.Second)
	enter(a, now, w, time.Hour)
	var probe *Request
	for range 100 {
		if r, v, _ := enter(a, now, w, time.Second); v == Wait {
			if probe != nil {
				t.Fatal("two probes at once, want none sooner than every second request that may enter")
			}
			probe = r
		}
	}
	if probe == nil {
		t.Fatal("no probe among 100 that are infeasible")
	}
	if v, _ := a.Next(now.Add(20*time.Millisecond), probe); v != Pass {
		t.Errorf("%v at the turn of a probe, want pass", v)
	}
}

// TestASlowSpellDoesNotLockOut: after one slow second, in which requests took
// longer than anybody's budget, a workflow is refused for about a second and not
// for ever, although only admitted requests teach how long they take.
func TestASlowSpellDoesNotLockOut(t *testing.T) {
	a, w, l := limited(t, 100, 0)
	now := mono.Time(0)
	passed := map[int]int{}
	for i := range 400 { // 10 ms each
		second := i / 100
		took := 10 * time.Millisecond
		if second == 1 {
			took = 500 * time.Millisecond
		}
		r, v, _ := enter(a, now, w, 100*time.Millisecond)
		if v == Pass {
			passed[second]++
			l.sample(took)
			a.OnDone(now, r, work.Ignored)
		} else {
			a.OnCancel(r)
		}
		now = now.Add(10 * time.Millisecond)
		if i%10 == 9 {
			l.measure(now, 100*time.Millisecond)
		}
	}
	t.Logf("passed of 100, second by second: %v", passed)
	if passed[0] < 99 || passed[3] < 99 {
		t.Errorf("passed of 100, second by second: %v; want all in the first and in the last", passed)
	}
}

// TestLatencyFallsToTheServiceTime: once the window has no sample any more, a
// fifth of what is above the service time goes each period.
func TestLatencyFallsToTheServiceTime(t *testing.T) {
	var l limiter
	l.learnService(30 * time.Millisecond)
	l.sample(time.Second)
	now := mono.Time(0)
	var seen []string
	for i := range 60 {
		now = now.Add(100 * time.Millisecond)
		l.measure(now, 100*time.Millisecond)
		if i%10 == 0 {
			seen = append(seen, time.Duration(l.latency*1e9).Round(time.Millisecond).String())
		}
	}
	if got, want := fmt.Sprint(seen), "[1s 651ms 97ms 37ms 31ms 30ms]"; got != want {
		t.Errorf("latency every second: %v, want %v", got, want)
	}
}

// TestRateChangesKeepTokens: whatever the rate does, the requests that pass are
// never more than the burst and the rate over time, nor much less when there is
// always one waiting.
func TestRateChangesKeepTokens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, w, l := limited(t, 100, 0)
		now := mono.Time(0)
		granted, most, passed := 0.0, 1.0, 0.0
		r, _, _ := enter(a, now, w, math.MaxInt64)
		passed++
		for range rapid.IntRange(1, 60).Draw(rt, "changes") {
			rate := rapid.Float64Range(1, 2000).Draw(rt, "rate")
			end := now.Add(time.Duration(rapid.Int64Range(0, int64(200*time.Millisecond)).Draw(rt, "for")))
			l.set(now, rate, 1)
			most = math.Max(most, rate*burstTime.Seconds())
			for {
				if r.state != waiting {
					var v Verdict
					if r, v, _ = enter(a, now, w, math.MaxInt64); v == Pass {
						passed++
						continue
					}
				}
				at := a.ReadyAt(now, w)
				if at > end {
					break
				}
				granted += rate * at.Sub(now).Seconds()
				if now = at; true {
					if v, _ := a.Next(now, r); v != Pass {
						rt.Fatalf("%v at the instant that ReadyAt named", v)
					}
					passed++
				}
			}
			granted += rate * end.Sub(now).Seconds()
			now = end
		}
		if passed > granted+most+1e-6 || passed < granted-1-1e-6 {
			rt.Fatalf("%v passed, of %v that the rates gave and a burst of %v", passed, granted, most)
		}
	})
}

// TestNothingShortNothingHeldBack: a workflow without a limit passes whatever is
// believed about its latency, and those who waited pass when the limit is lifted.
func TestNothingShortNothingHeldBack(t *testing.T) {
	a, w, l := limited(t, 50, time.Hour)
	enter(a, 0, w, math.MaxInt64)
	waits, v, _ := enter(a, 0, w, math.MaxInt64)
	if v != Wait {
		t.Fatal(v)
	}
	l.set(0, NoLimit, 1)
	if at := a.ReadyAt(0, w); at != 0 {
		t.Errorf("ready at %v, want at once", at)
	}
	if v, _ := a.Next(0, waits); v != Pass {
		t.Errorf("%v, want pass", v)
	}
	for range 1000 {
		if _, v, _ := enter(a, 0, w, time.Millisecond); v != Pass {
			t.Fatalf("%v, want pass", v)
		}
	}
}
