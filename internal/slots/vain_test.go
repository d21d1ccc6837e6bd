package slots

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// convoy fills the slots, lets all that run end together after a time that depends on how many
// they are, and does so again.
func convoy(l *Limit, now mono.Time, rounds int, took func(n int) time.Duration) mono.Time {
	for range rounds {
		var places []Place
		for l.Free() {
			places = append(places, l.Acquire(now))
		}
		began := now
		now = now.Add(took(len(places)))
		for _, p := range places {
			l.Release(now, began, p, true)
		}
	}
	return now
}

// TestAllLate: requests of one length share four processors, handlers do not see that their callers
// gave up, and 256 of them run when nothing is known yet. All of them are late, and the order in which
// they end tells nothing. While the limit gave way only for callers that gave up, not one request
// was in time for as long as the overload lasted.
func TestAllLate(t *testing.T) {
	const objective, each, processors = 215 * time.Millisecond, 18 * time.Millisecond, 4
	took := func(n int) time.Duration { return each * time.Duration(max(n, processors)) / processors }
	l, err := New(Config{Slack: objective / 10})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUseful(processors)
	now := convoy(l, 1, 8, took)
	for range 40 {
		now = convoy(l, now, 1, took)
		if n := l.Limit(); took(n) > objective || n < processors {
			t.Fatalf("%v after the start %d run at once and take %v, want %d at least and less than the objective of %v", time.Duration(now), n, took(n), processors, objective)
		}
	}
}

// TestOutOfReach: every request takes twice the objective, however few run. That is found out, the slots
// come back, and it is not asked again for a while.
func TestOutOfReach(t *testing.T) {
	const objective = 100 * time.Millisecond
	l, err := New(Config{Slack: objective / 10, Initial: 64})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUseful(2)
	now := mono.Time(1)
	fewest, last := 64, 0 // last is the most of the last twenty rounds, as a trial halves it for a while
	for i := range 200 {
		now = convoy(l, now, 1, func(int) time.Duration { return 2 * objective })
		fewest = min(fewest, l.Limit())
		if i >= 180 {
			last = max(last, l.Limit())
		}
	}
	if fewest > 16 {
		t.Errorf("the limit fell from 64 to %d, want 16: it must be asked whether fewer take less", fewest)
	}
	if last < 48 {
		t.Errorf("the limit is %d after 200 rounds, want 48 at least of the 64 that there were", last)
	}
	if l.vain.respite < 2*respiteFirst*objective {
		t.Errorf("it is asked every %v, want less often each time", l.vain.respite)
	}
}

// TestProcessorsAreNotLeftIdle: whatever is late, as many run as there are processors that are short.
func TestProcessorsAreNotLeftIdle(t *testing.T) {
	const objective, processors = 100 * time.Millisecond, 6
	l, err := New(Config{Slack: objective / 10})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUseful(processors)
	now := mono.Time(1)
	for range 100 {
		now = convoy(l, now, 1, func(n int) time.Duration { return objective * time.Duration(max(n, processors)) / (processors / 2) })
		if l.Limit() < processors {
			t.Fatalf("the limit is %d with %d processors", l.Limit(), processors)
		}
	}
}

// TestNoLineOnProcessors: where processors are short those in service share them, and how far ranks reach
// says how many were let in. A line that was believed is given up.
func TestNoLineOnProcessors(t *testing.T) {
	l, err := New(Config{Slack: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.confirm(40)
	if !l.line.confirmed {
		t.Fatal("a line is not believed although nothing speaks against it")
	}
	l.SetUseful(2)
	if l.line.confirmed {
		t.Error("a line is believed where processors are short")
	}
	if l.confirm(40); l.line.confirmed {
		t.Error("a line was confirmed where processors are short")
	}
}

// TestBurstsKeepTheirSlots: ten requests run most of the time, and in bursts as many as there are slots.
// What runs in a burst is not forgotten because the slots bound in it: while it was, each burst found fewer
// slots than the one before.
func TestBurstsKeepTheirSlots(t *testing.T) {
	const objective, each = 200 * time.Millisecond, 20 * time.Millisecond
	l, err := New(Config{Slack: objective / 10, Initial: 40})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(1)
	run := func(n int) {
		var places []Place
		for range min(n, l.Limit()) {
			places = append(places, l.Acquire(now))
		}
		began := now
		now = now.Add(each)
		for _, p := range places {
			l.Release(now, began, p, true)
		}
	}
	for burst := range 100 {
		run(40)
		run(40)
		for range 12 {
			run(10)
		}
		if l.Limit() < 25 {
			t.Fatalf("after burst %d there are %d slots, want 25", burst, l.Limit())
		}
	}
}

// TestAFasterServerIsNoQueue: a server becomes faster while fewer run to see whether the others wait. It
// does more with fewer, as one does whose requests are in each other's way. So the trial goes on as long as they
// take most of the objective, and ends with as many as did the most; whether more do more is tried next, and they do.
func TestAFasterServerIsNoQueue(t *testing.T) {
	l, err := New(Config{Slack: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	many := point{concurrency: 60, throughput: 6e-8, residence: 1e9, took: 1e9, samples: 64, limit: 60}
	few := point{concurrency: 30, throughput: 1.2e-7, residence: 25e7, took: 25e7, samples: 64, limit: 30, bound: true}
	l.knee.rate, l.knee.alone, l.knee.service = many.throughput, 5e7, 5e7
	l.limit = 60
	l.try(many, fewer)
	l.judge(few)
	if l.Limit() >= 30 || !l.trial.kind.down() {
		t.Fatalf("the limit is %d in a trial (%d), want one that goes on below 30", l.Limit(), l.trial.kind)
	}
	n := float64(l.Limit())
	l.judge(point{concurrency: n, throughput: n * 4e-9, residence: 25e7, took: 25e7, samples: 64, limit: n, bound: true})
	if l.Limit() != 30 || l.trial.kind != noTrial {
		t.Fatalf("the limit is %d in a trial (%d), want 30, which did the most, and none", l.Limit(), l.trial.kind)
	}
	for n := 30.0; n < 60; {
		here := point{concurrency: n, throughput: n * 4e-9, residence: 25e7, took: 25e7, samples: 64, limit: n, bound: true}
		l.knee.rate, l.seen.level.windows = here.throughput, 1
		l.climb(here)
		if n = float64(l.Limit()); l.trial.kind != climbUp {
			t.Fatalf("%v run in a trial (%d), want more of them", n, l.trial.kind)
		}
		l.judge(point{concurrency: n, throughput: n * 4e-9, residence: 25e7, took: 25e7, samples: 64, limit: n, bound: true})
		if float64(l.Limit()) != n {
			t.Fatalf("the limit is %d, although %v did more in proportion", l.Limit(), n)
		}
	}
}

// TestMuchInVainHoweverFew: all that runs is given up for a while, then half of it, however few run,
// because the service takes most of what callers wait for. Fewer slots change nothing, and they come back.
func TestMuchInVainHoweverFew(t *testing.T) {
	const objective, each, workers = 100 * time.Millisecond, 80 * time.Millisecond, 16
	l, err := New(Config{Slack: objective / 10, Initial: 64})
	if err != nil {
		t.Fatal(err)
	}
	now, n := mono.Time(1), 0
	round := func(vain func() bool) {
		var places []Place
		for l.Free() {
			places = append(places, l.Acquire(now))
		}
		began := now
		now = now.Add(each * time.Duration(1+(len(places)-1)/workers))
		for _, p := range places {
			l.Release(now, began, p, !vain())
		}
	}
	for range 40 {
		round(func() bool { return true })
	}
	if l.Limit() > 4 {
		t.Fatalf("the limit is %d although everything is in vain, want 4 at most", l.Limit())
	}
	most := 0
	for range 200 {
		round(func() bool { n++; return n%2 == 0 })
		most = max(most, l.Limit())
	}
	if most < workers/2 {
		t.Errorf("the limit reached %d of %d workers while half of the work is in vain", most, workers)
	}
}

// TestNotInVainWithFewer: all of eight callers gave up. That is no reason to give way in a stage of a trial in which fewer run.
func TestNotInVainWithFewer(t *testing.T) {
	for kind, want := range map[trialKind]bool{noTrial: true, more: true, fewer: false, climbDown: false} {
		l, err := New(Config{Slack: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.trial.kind = kind
		l.window = window{done: 8, given: 8, most: 2, area: 2e9}
		if got := l.inVain(mono.Time(time.Second)); got != want {
			t.Errorf("trial %d: in vain: %v, expected %v", kind, got, want)
		}
	}
}

// TestFewRanksTellOfNoKnee: a server that works in batches of four is slow at its start, so that callers give up and a
// quarter of few requests may run. What these show of the order in which requests end reaches no further than they do. Taken
// for a knee, it held the limit at two: a simulated service did half of what it can for eight seconds and more.
func TestFewRanksTellOfNoKnee(t *testing.T) {
	const objective, batch = 200 * time.Millisecond, 46 * time.Millisecond
	l, err := New(Config{Slack: objective / 10})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(1)
	for range 2 {
		var places []Place
		for range 7 {
			places = append(places, l.Acquire(now))
		}
		began := now
		now = now.Add(objective)
		for _, p := range places {
			l.Release(now, began, p, false)
		}
	}
	if n := l.Limit(); n > 2 {
		t.Fatalf("the limit is %d after all callers gave up, want 2", n)
	}
	now = convoy(l, now, 18, func(n int) time.Duration { return batch * time.Duration((n+3)/4) })
	if n := l.Limit(); n < 4 {
		t.Errorf("the limit is %d after %v, want 4 at least", n, time.Duration(now))
	}
}

// TestRegrowthEnds: once slots are free while the limit regrows after work in vain, it has regrown. Until then every late
// answer counts at once, and nothing is learned of the service; without an overload that was for good.
func TestRegrowthEnds(t *testing.T) {
	for bound, want := range map[bool]recovery{true: regrowing, false: recovered} {
		l, err := New(Config{Slack: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		l.limit, l.vain.state, l.knee.service, l.knee.alone = 8, regrowing, 1e7, 1e7
		if l.recover(point{concurrency: 4, throughput: 4e-7, residence: 1e7, took: 1e7, samples: 32, limit: 8, bound: bound}); l.vain.state != want {
			t.Errorf("slots are missing: %v: the state is %d, want %d", bound, l.vain.state, want)
		}
	}
}
