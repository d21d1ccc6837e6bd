package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

func newResource(t testing.TB, capacity int, order schedule.Order, change ...func(*ResourceConfig)) *Resource {
	t.Helper()
	cfg := ResourceConfig{Capacity: capacity, Queue: schedule.Config{Order: order, Aging: time.Hour}}
	for _, f := range change {
		f(&cfg)
	}
	r, err := NewResource(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func acquire(t testing.TB, ctx context.Context, r *Resource) *Hold {
	t.Helper()
	h, err := r.Acquire(ctx, 0)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return h
}

func reasonOf(t testing.TB, err error) work.Reason {
	t.Helper()
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("%v, expected a refusal", err)
	}
	return refusal.Reason
}

// line lets requests wait for a resource, one after the other, and notes the
// order in which they get it.
type line struct {
	t     testing.TB
	cost  time.Duration // as estimated
	hold  time.Duration // for how long, at least
	wg    sync.WaitGroup
	mu    sync.Mutex
	order []string
}

func (l *line) join(r *Resource, name string, ctx context.Context) {
	before := r.Stats().Waiting
	l.wg.Go(func() {
		err := r.Do(ctx, l.cost, func(context.Context) error {
			l.mu.Lock()
			l.order = append(l.order, name)
			l.mu.Unlock()
			time.Sleep(l.hold)
			return nil
		})
		if err != nil {
			l.t.Errorf("%s: %v", name, err)
		}
	})
	until(l.t, name+" to wait", func() bool { return r.Stats().Waiting == before+1 })
}

func (l *line) want(names string) {
	l.t.Helper()
	l.wg.Wait()
	if got := strings.Join(l.order, " "); got != names {
		l.t.Errorf("served %q, want %q", got, names)
	}
}

func tagged(t wire.Tags) context.Context { return WithTags(context.Background(), t) }

func within(t testing.TB, ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	t.Cleanup(cancel)
	return ctx
}

func TestResourceServesInOrder(t *testing.T) {
	hours := func(n int, tags wire.Tags) context.Context {
		return within(t, tagged(tags), time.Duration(n)*time.Hour)
	}
	total := func(service, elapsed, done time.Duration) wire.Tags {
		return wire.Tags{Total: wire.Progress{Service: service, Work: service}, Elapsed: wire.Progress{Service: elapsed, Work: done}}
	}
	tests := []struct {
		order schedule.Order
		join  []context.Context // a, b, c
		want  string
	}{
		{schedule.FIFO, []context.Context{hours(3, wire.Tags{}), hours(2, wire.Tags{}), hours(1, wire.Tags{})}, "a b c"},
		{schedule.EDF, []context.Context{hours(3, wire.Tags{}), hours(2, wire.Tags{}), hours(1, wire.Tags{})}, "c b a"},
		{schedule.FIFO, []context.Context{tagged(wire.Tags{Priority: 9}), tagged(wire.Tags{}), tagged(wire.Tags{Priority: 5})}, "b c a"},
		// c has least time, and needs least of it.
		{schedule.LSTF, []context.Context{hours(10, total(9*time.Hour, 0, 0)), hours(10, total(9*time.Hour, 5*time.Hour, 0)), hours(8, total(4*time.Hour, time.Hour, 0))}, "a c b"},
		{schedule.SRTF, []context.Context{tagged(total(9*time.Hour, 0, 0)), tagged(total(9*time.Hour, 8*time.Hour, 0)), tagged(total(4*time.Hour, 0, 0))}, "b c a"},
		{schedule.SJF, []context.Context{tagged(total(3*time.Hour, 3*time.Hour, 0)), tagged(total(2*time.Hour, 0, 0)), tagged(total(time.Hour, 0, 0))}, "c b a"},
		{schedule.LASF, []context.Context{tagged(total(time.Hour, 0, 3)), tagged(total(0, 0, 2)), tagged(total(time.Hour, 0, 1))}, "c b a"},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprint(i, tt.order), func(t *testing.T) {
			r := newResource(t, 1, tt.order)
			first := acquire(t, context.Background(), r)
			l := &line{t: t}
			for i, ctx := range tt.join {
				l.join(r, string(rune('a'+i)), ctx)
			}
			first.Release()
			l.want(tt.want)
		})
	}
}

// The flood of one workflow is served in turns with the other's few requests, by
// what they use, whatever was estimated.
func TestResourceIsFairToWorkflows(t *testing.T) {
	r := newResource(t, 1, schedule.FIFO, fair)
	first := acquire(t, context.Background(), r)
	l := &line{t: t, cost: 1, hold: 2 * time.Millisecond} // two rounds each
	for range 3 {
		l.join(r, "flood", tagged(wire.Tags{Workflow: "flood"}))
	}
	l.join(r, "few", tagged(wire.Tags{Workflow: "few"}))
	first.Release()
	l.wg.Wait()
	if place := strings.Index(strings.Join(l.order, " "), "few"); place > len("flood flood ") {
		t.Errorf("served %v, want few before the last of the flood", l.order)
	}
	if !r.SetShare("few", 4) || r.SetShare("few", -1) || r.SetWeight(work.NumClasses, 1) || !r.SetWeight(work.Interactive, 9) {
		t.Error("a share or a weight in range is refused, or one out of range taken")
	}
	if newResource(t, 1, schedule.FIFO).SetShare("few", 4) {
		t.Error("a share without Fair is taken")
	}
}

func fair(c *ResourceConfig) { c.Queue.Fair, c.Queue.Quantum = true, time.Millisecond }

// A long use counts while it lasts: the workflow does not get a second unit before
// the other got one.
func TestLongUseIsCharged(t *testing.T) {
	r := newResource(t, 2, schedule.FIFO, fair)
	long, err := r.Acquire(tagged(wire.Tags{Workflow: "flood"}), 1)
	if err != nil {
		t.Fatal(err)
	}
	busy := acquire(t, context.Background(), r)
	l := &line{t: t}
	l.join(r, "flood", tagged(wire.Tags{Workflow: "flood", Priority: 1}))
	l.join(r, "few", tagged(wire.Tags{Workflow: "few", Priority: 2}))
	until(t, "few to be next", func() bool { return next(r) == 2 })
	busy.Release()
	l.want("few flood")
	long.Release()
}

func TestResourceIsHeldByNoMoreThanItsCapacity(t *testing.T) {
	r := newResource(t, 3, schedule.FIFO)
	var inside, most, ran atomic.Int64
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			defer func() { _ = recover() }()
			_ = r.Do(context.Background(), 0, func(context.Context) error {
				n := inside.Add(1)
				defer inside.Add(-1)
				for {
					m := most.Load()
					if n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				ran.Add(1)
				time.Sleep(time.Millisecond)
				if i%3 == 0 {
					panic("in a handler")
				}
				return errors.New("of the handler")
			})
		})
	}
	wg.Wait()
	if s := r.Stats(); ran.Load() != 60 || most.Load() > 3 || s.Held != 0 || s.Waiting != 0 || s.Granted != 60 {
		t.Errorf("%d ran, %d at once, then %+v", ran.Load(), most.Load(), s)
	}
}

func TestDoReturnsTheError(t *testing.T) {
	r := newResource(t, 1, schedule.FIFO)
	want := errors.New("of the handler")
	if err := r.Do(context.Background(), 0, func(context.Context) error { return want }); err != want {
		t.Errorf("got %v, want %v", err, want)
	}
}

func TestReleaseCountsOnce(t *testing.T) {
	r := newResource(t, 1, schedule.FIFO)
	h := acquire(t, context.Background(), r)
	h.Release()
	h.Release()
	second := acquire(t, context.Background(), r)
	h.Release()
	if s := r.Stats(); s.Held != 1 {
		t.Errorf("%d held, want 1", s.Held)
	}
	second.Release()
}

func TestContextEndsTheWait(t *testing.T) {
	r := newResource(t, 1, schedule.FIFO)
	h := acquire(t, context.Background(), r)
	ctx, cancel := context.WithCancelCause(context.Background())
	got := make(chan error, 1)
	go func() {
		_, err := r.Acquire(ctx, 0)
		got <- err
	}()
	until(t, "it to wait", func() bool { return r.Stats().Waiting == 1 })
	boom := errors.New("boom")
	cancel(boom)
	err := <-got
	if reasonOf(t, err) != work.Canceled || !errors.Is(err, boom) {
		t.Errorf("got %v, want canceled because of boom", err)
	}
	h.Release()
	// Who is gone already does not get it even if it is free.
	if err := r.Do(ctx, 0, func(context.Context) error { t.Error("it ran"); return nil }); reasonOf(t, err) != work.Canceled {
		t.Errorf("got %v", err)
	}
	if s := r.Stats(); s.Held != 0 || s.Waiting != 0 || s.Refused[work.Canceled] != 2 {
		t.Errorf("left behind: %+v", s)
	}
}

// The unit comes at the moment at which its waiter gives up: it is not lost.
func TestGrantToOneWhoGivesUp(t *testing.T) {
	r := newResource(t, 1, schedule.FIFO)
	for range 20 {
		h := acquire(t, context.Background(), r)
		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan error, 1)
		go func() {
			h, err := r.Acquire(ctx, 0)
			if err == nil {
				h.Release()
			}
			got <- err
		}()
		until(t, "it to wait", func() bool { return r.Stats().Waiting == 1 })
		r.mu.Lock()
		cancel()
		time.Sleep(2 * time.Millisecond) // it sees that, and waits for the lock
		r.free++                         // as if there were one more
		r.serve(Now())
		r.mu.Unlock()
		if err := <-got; err != nil && reasonOf(t, err) != work.Canceled {
			t.Errorf("got %v, want canceled", err)
		}
		r.mu.Lock()
		r.free--
		r.mu.Unlock()
		h.Release()
		if s := r.Stats(); s.Held != 0 || s.Waiting != 0 {
			t.Fatalf("left behind: %+v", s)
		}
	}
	if s := r.Stats(); s.Granted+s.Refused[work.Canceled] != 40 {
		t.Errorf("%d granted and %d canceled of 40", s.Granted, s.Refused[work.Canceled])
	}
}

// TestLikelyRequestsAreNotHopeless: what is too long in the mean, and short enough for
// nearly all, waits for its turn.
func TestLikelyRequestsAreNotHopeless(t *testing.T) {
	r := newResource(t, 1, schedule.LSTF)
	ticket := &Ticket{stint: &stint{span: NewSpan(wire.Progress{})}}
	ctx := WithTicket(within(t, tagged(wire.Tags{Total: wire.Progress{Service: 2 * time.Hour}}), time.Hour), ticket)
	for _, tt := range []struct {
		least time.Duration
		want  work.Reason
	}{{0, work.None}, {30 * time.Minute, work.None}, {2 * time.Hour, work.Infeasible}} {
		ticket.stay.Least = tt.least
		h, err := r.Acquire(ctx, 0)
		got := work.None
		if err == nil {
			h.Release()
		} else {
			got = reasonOf(t, err)
		}
		if got != tt.want {
			t.Errorf("with %v for nearly all and an hour left: %v, want %v", tt.least, got, tt.want)
		}
	}
}

func TestHopelessRequestsAreRefused(t *testing.T) {
	r := newResource(t, 1, schedule.LSTF)
	needs := func(d time.Duration) context.Context {
		return within(t, tagged(wire.Tags{Total: wire.Progress{Service: d}}), time.Hour)
	}
	// At once, though it is free: two hours of service do not fit into one.
	if _, err := r.Acquire(needs(2*time.Hour), 0); reasonOf(t, err) != work.Infeasible {
		t.Errorf("got %v, want infeasible", err)
	}
	h := acquire(t, context.Background(), r)
	// It becomes hopeless while it waits, long before its context ends.
	_, err := r.Acquire(needs(time.Hour-50*time.Millisecond), 0)
	if reason := reasonOf(t, err); reason != work.Infeasible {
		t.Errorf("got %v, want infeasible", err)
	}
	h.Release()
	var refusal *Refusal
	if errors.As(err, &refusal); refusal.Pushback >= 0 {
		t.Errorf("%v: it says to try again", err)
	}
	// What was received counts: an hour less 40 minutes of service is left.
	ctx := within(t, tagged(wire.Tags{Total: wire.Progress{Service: 90 * time.Minute}, Elapsed: wire.Progress{Service: 40 * time.Minute}}), time.Hour)
	acquire(t, ctx, r).Release()
}

func TestResourceRefusesWhenFull(t *testing.T) {
	r := newResource(t, 1, schedule.FIFO, func(c *ResourceConfig) { c.Waiting = 1 })
	h := acquire(t, context.Background(), r)
	l := &line{t: t}
	l.join(r, "a", context.Background())
	_, err := r.Acquire(context.Background(), 0)
	var refusal *Refusal
	if reasonOf(t, err) != work.QueueFull || !errors.As(err, &refusal) || refusal.Pushback < 0 {
		t.Errorf("got %v, want queue_full, to be retried", err)
	}
	h.Release()
	l.want("a")
}

func TestCloseRefusesWhoWaits(t *testing.T) {
	r := newResource(t, 1, schedule.FIFO)
	h := acquire(t, context.Background(), r)
	got := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := r.Acquire(context.Background(), 0)
			got <- err
		}()
	}
	until(t, "three to wait", func() bool { return r.Stats().Waiting == 3 })
	r.Close()
	r.Close()
	for range 3 {
		if err := <-got; reasonOf(t, err) != work.Draining {
			t.Errorf("got %v, want draining", err)
		}
	}
	if _, err := r.Acquire(context.Background(), 0); reasonOf(t, err) != work.Draining {
		t.Errorf("got %v, want draining", err)
	}
	h.Release()
	if s := r.Stats(); s.Held != 0 || s.Waiting != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

// rank is a request of a priority, with nothing else to tell it apart.
func rank(p work.Priority) context.Context { return tagged(wire.Tags{Priority: p}) }

// A holder that waits elsewhere stands there like the best of those who wait for
// what it holds.
func TestHolderInherits(t *testing.T) {
	for _, when := range []string{"the waiter comes first", "the holder waits first", "nobody waits for the holder", "through a third resource"} {
		t.Run(when, func(t *testing.T) {
			a, b, c := newResource(t, 1, schedule.FIFO), newResource(t, 1, schedule.FIFO), newResource(t, 1, schedule.EDF)
			holder := acquire(t, rank(100), a)
			busy := acquire(t, context.Background(), b)
			l := &line{t: t}
			var urgent sync.WaitGroup
			wait := func(r *Resource) {
				before := r.Stats().Waiting
				urgent.Go(func() {
					if err := r.Do(rank(0), 0, func(context.Context) error { return nil }); err != nil {
						t.Errorf("urgent: %v", err)
					}
				})
				until(t, "the urgent one to wait", func() bool { return r.Stats().Waiting == before+1 })
			}
			if when == "the waiter comes first" {
				wait(a)
			}
			l.join(b, "other", rank(50))
			l.join(b, "holder", holder.Context(rank(100)))
			want := "holder other"
			switch when {
			case "the waiter comes first":
				// The wait is known a moment before the rank is.
				until(t, "the holder to inherit", func() bool { return next(b) == 100 })
			case "the holder waits first":
				until(t, "the holder to be known", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.stuck == 1 })
				wait(a)
				until(t, "the holder to inherit", func() bool { return next(b) == 100 })
			case "nobody waits for the holder":
				want = "other holder"
			case "through a third resource":
				// far holds c and waits for a; the urgent one waits for c.
				until(t, "the holder to be known", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.stuck == 1 })
				far := acquire(t, rank(110), c)
				urgent.Go(func() {
					defer far.Release()
					if err := a.Do(far.Context(rank(110)), 0, func(context.Context) error { return nil }); err != nil {
						t.Errorf("far: %v", err)
					}
				})
				until(t, "far to be known", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.stuck == 1 })
				wait(c)
				until(t, "the holder to inherit", func() bool { return next(b) == 100 })
			}
			busy.Release()
			l.want(want)
			holder.Release()
			urgent.Wait()
			for _, r := range []*Resource{a, b, c} {
				if s := r.Stats(); s.Held != 0 || s.Waiting != 0 || r.stuck != 0 {
					t.Errorf("left behind: %+v, %d stuck", s, r.stuck)
				}
			}
		})
	}
}

// next returns the own priority of who is next.
func next(r *Resource) work.Priority {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, _ := r.queue.Peek(Now()); t != nil {
		return t.Priority
	}
	return work.MaxPriority
}

// A holder that gives up what others wait for, while a branch of it still waits
// elsewhere, stands there as before.
func TestReleaseTakesTheRankBack(t *testing.T) {
	a, b := newResource(t, 1, schedule.FIFO), newResource(t, 1, schedule.FIFO)
	holder := acquire(t, rank(100), a)
	busy := acquire(t, context.Background(), b)
	l := &line{t: t}
	l.join(b, "other", rank(50))
	l.join(b, "branch", holder.Context(rank(100)))
	until(t, "the branch to be known", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.stuck == 1 })
	urgent := &line{t: t}
	urgent.join(a, "urgent", rank(0))
	until(t, "the branch to inherit", func() bool { return next(b) == 100 })
	holder.Release()
	urgent.want("urgent")
	if p := next(b); p != 50 {
		t.Errorf("the one of priority %d is next, want 50", p)
	}
	busy.Release()
	l.want("other branch")
}

func TestWaitsAreLeftOutOfProgress(t *testing.T) {
	r := newResource(t, 1, schedule.FIFO)
	h := acquire(t, context.Background(), r)
	ctx, span := WithSpan(context.Background())
	got := make(chan error, 1)
	go func() {
		got <- r.Do(ctx, 0, func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil })
	}()
	until(t, "it to wait", func() bool { return r.Stats().Waiting == 1 })
	time.Sleep(20 * time.Millisecond)
	h.Release()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	result := span.End()
	checkResult(t, result)
	if result.Waited < 20*time.Millisecond || result.Own < 10*time.Millisecond {
		t.Errorf("%+v, want 20 ms waited and 10 ms of service at least", result)
	}
}

// What workflows use is told, all of it, and a long use in parts.
func TestUseIsTold(t *testing.T) {
	var mu sync.Mutex
	told := map[string]time.Duration{}
	r := newResource(t, 2, schedule.FIFO, func(c *ResourceConfig) {
		c.OnUse = func(workflow string, busy time.Duration) {
			mu.Lock()
			told[workflow] += busy
			mu.Unlock()
		}
	})
	of := func(workflow string) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return told[workflow]
	}
	long := acquire(t, tagged(wire.Tags{Workflow: "long"}), r)
	until(t, "a part of the long use", func() bool { return of("long") >= 2*chargeEvery })
	for range 3 {
		_ = r.Do(tagged(wire.Tags{Workflow: "short"}), 0, func(context.Context) error { time.Sleep(time.Millisecond); return nil })
	}
	long.Release()
	if s := r.Stats(); of("short") < 3*time.Millisecond || of("long")+of("short") != s.Busy {
		t.Errorf("told %v and %v, held for %v", of("long"), of("short"), s.Busy)
	}
}

func TestResourceConfigSaysAllThatIsWrong(t *testing.T) {
	_, err := NewResource(ResourceConfig{Waiting: -1, Queue: schedule.Config{Aging: -1}})
	for _, part := range []string{"Capacity is 0", "Waiting is -1", "Aging is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// Requests take two resources, give up, panic and release twice, all at once: at
// the end nothing is held, nobody waits, and every unit is there.
func TestResourcesUnderStress(t *testing.T) {
	var used atomic.Int64
	change := func(c *ResourceConfig) {
		c.Queue.Fair = true
		c.Queue.Workflows = 4
		c.Waiting = 20
		c.OnUse = func(_ string, busy time.Duration) { used.Add(int64(busy)) }
	}
	outer, inner := newResource(t, 3, schedule.EDF, change), newResource(t, 2, schedule.LSTF, change)
	var wg sync.WaitGroup
	for i := range 30 {
		chance := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for range 40 {
				once(chance, outer, inner)
			}
		})
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	for _, r := range []*Resource{outer, inner} {
		watch.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					time.Sleep(100 * time.Microsecond)
				}
				r.mu.Lock()
				if wake := r.queue.NextWake(); wake < r.armed || r.free > 0 && r.queue.Len() > 0 || r.queue.Len() > r.waiting {
					t.Errorf("woken at %v, must be at %v; %d free, %d wait", r.armed, wake, r.free, r.queue.Len())
				}
				r.mu.Unlock()
			}
		})
	}
	wg.Wait()
	close(done)
	watch.Wait()
	var busy time.Duration
	for _, r := range []*Resource{outer, inner} {
		s := r.Stats()
		busy += s.Busy
		if s.Held != 0 || s.Waiting != 0 || r.free != r.capacity || r.held != nil || r.stuck != 0 || s.Granted == 0 {
			t.Errorf("left behind: %+v, %d free, %d stuck", s, r.free, r.stuck)
		}
		if n := r.flows.Inside(); n != 0 {
			t.Errorf("%d requests left inside their workflows", n)
		}
	}
	if time.Duration(used.Load()) != busy {
		t.Errorf("told of %v, held for %v", time.Duration(used.Load()), busy)
	}
}

// once is one request of the stress, which ends in one of many ways.
func once(chance *rand.Rand, outer, inner *Resource) {
	defer func() { _ = recover() }()
	ctx := tagged(wire.Tags{Workflow: fmt.Sprint(chance.IntN(6)), Class: work.Class(chance.IntN(2)), Priority: work.Priority(chance.IntN(4)),
		Total: wire.Progress{Service: time.Duration(chance.IntN(2000)) * time.Microsecond}})
	ctx, span := WithSpan(ctx)
	defer span.End()
	if chance.IntN(3) > 0 {
		short, cancel := context.WithTimeout(ctx, time.Duration(chance.IntN(3000))*time.Microsecond)
		defer cancel()
		ctx = short
	}
	stop := chance.IntN(10)
	pause := time.Duration(chance.IntN(300)) * time.Microsecond
	_ = outer.Do(ctx, pause, func(ctx context.Context) error {
		h, err := inner.Acquire(ctx, pause)
		if err != nil {
			return err
		}
		defer h.Release()
		time.Sleep(pause)
		switch stop {
		case 0:
			panic("in a handler")
		case 1:
			h.Release()
		}
		return nil
	})
}

func BenchmarkResource(b *testing.B) {
	r := newResource(b, 1, schedule.LSTF)
	ctx := tagged(wire.Tags{Workflow: "w", Total: wire.Progress{Service: time.Millisecond}})
	b.ReportAllocs()
	for b.Loop() {
		h, err := r.Acquire(ctx, time.Microsecond)
		if err != nil {
			b.Fatal(err)
		}
		h.Release()
	}
}
