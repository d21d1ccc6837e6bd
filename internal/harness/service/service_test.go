package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/leaks"
	_ "github.com/spillgate/spillgate/internal/seeded"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

const ms = time.Millisecond

func newStation(t testing.TB, cfg Config) *Station {
	t.Helper()
	st, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	return st
}

func TestConfigReportsEveryMistake(t *testing.T) {
	_, err := New(Config{Workers: -1, Dist: 9, Kind: 9, MaxQueue: -1})
	for _, want := range []string{"Workers is -1", "Mean is 0s", "Dist is Dist(9)", "Kind is Kind(9)", "MaxQueue is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestServiceTimesHaveTheirMeanAndVariation(t *testing.T) {
	for d, wantCV := range map[Dist]float64{
		Constant:    0,
		Exponential: 1,
		Bimodal:     1.5, // sqrt(0.2*16 + 0.8/16 - 1)
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		const n = 200_000
		var sum, squares float64
		for range n {
			x := d.draw(rng, ms).Seconds() * 1e3
			sum += x
			squares += x * x
		}
		mean := sum / n
		cv := math.Sqrt(max(squares/n-mean*mean, 0)) / mean
		if math.Abs(mean-1) > 0.02 || math.Abs(cv-wantCV) > 0.03 {
			t.Errorf("%v: mean %.3f, CV %.3f; want 1, %.3f", d, mean, cv, wantCV)
		}
	}
}

func TestPlan(t *testing.T) {
	p := plan{}.with(change{10 * ms, 4}).with(change{50 * ms, 0.5}).with(change{30 * ms, 2})
	for _, c := range []struct{ start, work, want time.Duration }{
		{0, 5 * ms, 5 * ms},                  // over before anything changes
		{0, 10 * ms, 10 * ms},                // over at the change
		{0, 11 * ms, 14 * ms},                // the last 1 ms takes 4
		{10 * ms, 5 * ms, 30 * ms},           // all of it at 4
		{10 * ms, 6 * ms, 32 * ms},           // the last 1 ms at 2
		{0, 10*ms + 5*ms + 10*ms, 50 * ms},   // every speed before 50 ms
		{0, 10*ms + 5*ms + 12*ms, 51 * ms},   // the last 2 ms at half
		{100 * ms, 10 * ms, 105 * ms},        // after all changes
		{20 * ms, 0, 20 * ms},                // nothing to do
		{0, 25*ms + 1000*ms, 50*ms + 500*ms}, // long work
		{5 * ms, 5*ms + 1*ms, 10*ms + 4*ms},  // begun at one speed, ended at another
	} {
		if got := p.finish(c.start, c.work); got != c.want {
			t.Errorf("work of %v begun at %v ends at %v, want %v", c.work, c.start, got, c.want)
		}
	}
	for at, want := range map[time.Duration]float64{0: 1, 10 * ms: 4, 29 * ms: 4, 30 * ms: 2, 50 * ms: 0.5, time.Hour: 0.5} {
		if got := p.at(at); got != want {
			t.Errorf("slowness at %v = %v, want %v", at, got, want)
		}
	}
	if len((plan{}).with(change{1, 2})) != 1 || len(p) != 3 {
		t.Error("with changed the plan it was called on")
	}
}

// The station's arithmetic against the textbook recursion of a FIFO queue with
// k servers, whenever advance happens to be called.
func TestServersFollowTheRecursion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 4).Draw(t, "k")
		s := servers{k: k}
		n := rapid.IntRange(1, 40).Draw(t, "jobs")
		free := make([]time.Duration, k) // when each server is free
		var now time.Duration
		var jobs []*job
		var wantFinish []time.Duration
		for range n {
			now += time.Duration(rapid.IntRange(0, 5).Draw(t, "gap")) * ms
			work := time.Duration(rapid.IntRange(0, 12).Draw(t, "work")) * ms
			j := &job{ctx: t.Context(), work: work, done: make(chan error, 1)}
			s.advance(now)
			s.arrive(now, j)
			jobs = append(jobs, j)
			slices.Sort(free)
			free[0] = max(free[0], now) + work
			wantFinish = append(wantFinish, free[0])
		}
		for range rapid.IntRange(0, 3).Draw(t, "extra calls") {
			now += time.Duration(rapid.IntRange(0, 50).Draw(t, "later")) * ms
			s.advance(now)
		}
		s.advance(time.Hour) // very late: finish times must not care
		for i, j := range jobs {
			if j.finish != wantFinish[i] {
				t.Fatalf("job %d finished at %v, want %v", i, j.finish, wantFinish[i])
			}
			if len(j.done) != 1 {
				t.Fatalf("job %d was not told once", i)
			}
		}
		if s.counts.Started != uint64(n) || s.counts.Finished != uint64(n) {
			t.Fatalf("%+v, want %d started and finished", s.counts, n)
		}
	})
}

func TestReplanMovesRunningWork(t *testing.T) {
	s := servers{k: 1}
	first := &job{ctx: t.Context(), work: 10 * ms, done: make(chan error, 1)}
	second := &job{ctx: t.Context(), work: 10 * ms, done: make(chan error, 1)}
	s.arrive(0, first)
	s.arrive(0, second)
	s.advance(4 * ms)
	s.replan(s.plan.with(change{4 * ms, 4}))
	if next, _ := s.next(); next != 28*ms { // 6 ms left, times 4
		t.Errorf("first finishes at %v, want 28ms", next)
	}
	s.advance(28 * ms)
	if next, _ := s.next(); next != 68*ms {
		t.Errorf("second finishes at %v, want 68ms", next)
	}
}

// occupy starts a request on a station's only server that ends when it is told to, and
// slows all others down until then.
func occupy(t *testing.T, st *Station, ctx context.Context) (end func() error) {
	t.Helper()
	slowness := func(by float64) {
		if err := st.SetSlowness(by); err != nil {
			t.Fatal(err)
		}
	}
	slowness(1e6) // a quarter of an hour for its millisecond
	done := make(chan error, 1)
	go func() { done <- st.DoFor(ctx, ms) }()
	awaitCounts(t, st, func(c Counts) bool { return c.Running == 1 })
	return func() error { slowness(1); return <-done }
}

func awaitCounts(t *testing.T, st *Station, ok func(Counts) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(ms) { // which only ends a hang
		if ok(st.Counts()) {
			return
		}
	}
	t.Fatalf("counts stay at %+v", st.Counts())
}

// Requests that wait for a Spin station get its server in the order of their
// arrival. (For Sleep stations the recursion above says so.)
func TestSpinHandsOverInOrder(t *testing.T) {
	st := newStation(t, Config{Workers: 1, Mean: ms, Kind: Spin})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var jobs []*job
	for i := range 5 {
		j := &job{ctx: t.Context(), done: make(chan error, 1)}
		if i == 2 {
			j.ctx = gone
		}
		j.waiting = st.s.queue.PushBack(j)
		jobs = append(jobs, j)
	}
	var order []int
	for range jobs {
		st.handOver()
		for i, j := range jobs {
			select {
			case err := <-j.done:
				if (err != nil) != (i == 2) {
					t.Errorf("job %d: error %v", i, err)
				}
				if err == nil {
					order = append(order, i)
				}
			default:
			}
		}
	}
	if want := []int{0, 1, 3, 4}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v: the caller of 2 has gone", order, want)
	}
}

// Everything that was queued is served, and the counts say so.
func TestCountsAddUp(t *testing.T) {
	for _, kind := range []Kind{Sleep, Spin} {
		t.Run(kind.String(), func(t *testing.T) {
			st := newStation(t, Config{Workers: 1, Mean: 100 * time.Microsecond, Kind: kind})
			end := occupy(t, st, t.Context())
			var wg sync.WaitGroup
			const n = 20
			for range n {
				wg.Go(func() {
					if err := st.Do(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			awaitCounts(t, st, func(c Counts) bool { return c.Waiting == n })
			if err := end(); err != nil {
				t.Error(err)
			}
			wg.Wait()
			if got := st.Counts(); got != (Counts{Arrived: n + 1, Started: n + 1, Finished: n + 1}) {
				t.Errorf("counts %+v", got)
			}
		})
	}
}

// A request whose context ends while it waits leaves at once and never starts;
// one whose context ends while it is served runs to its end and is wasted.
func TestContextEnds(t *testing.T) {
	for _, kind := range []Kind{Sleep, Spin} {
		t.Run(kind.String(), func(t *testing.T) {
			st := newStation(t, Config{Workers: 1, Mean: ms, Kind: kind})
			ctx, cancel := context.WithCancelCause(t.Context())
			end := occupy(t, st, ctx)
			queued := make(chan error, 1)
			go func() { queued <- st.DoFor(ctx, time.Hour) }()
			awaitCounts(t, st, func(c Counts) bool { return c.Waiting == 1 })
			cancel(nil)
			if err := <-queued; !errors.Is(err, context.Canceled) {
				t.Errorf("error %v of the one that waited, want context canceled", err)
			}
			if err := end(); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v of the one that was served, want context canceled", err)
			}
			if err := st.DoFor(ctx, time.Hour); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v of a request that was dead on arrival", err)
			}
			if got, want := st.Counts(), (Counts{Arrived: 3, Abandoned: 2, Started: 1, Finished: 1, Wasted: 1}); got != want {
				t.Errorf("counts %+v, want %+v", got, want)
			}
			if err := st.DoFor(t.Context(), ms); err != nil {
				t.Errorf("the station is stuck: %v", err)
			}
		})
	}
}

func TestQueueLimit(t *testing.T) {
	for _, kind := range []Kind{Sleep, Spin} {
		t.Run(kind.String(), func(t *testing.T) {
			st := newStation(t, Config{Workers: 1, Mean: ms, Kind: kind, MaxQueue: 1})
			end := occupy(t, st, t.Context())
			second := make(chan error, 1)
			go func() { second <- st.DoFor(t.Context(), 0) }()
			awaitCounts(t, st, func(c Counts) bool { return c.Waiting == 1 })
			if err := st.Do(t.Context()); !errors.Is(err, ErrFull) {
				t.Errorf("error %v, want ErrFull", err)
			}
			if err := errors.Join(end(), <-second); err != nil {
				t.Error(err)
			}
			if got := st.Counts(); got.Refused != 1 || got.Finished != 2 {
				t.Errorf("counts %+v", got)
			}
		})
	}
}

func TestClose(t *testing.T) {
	st := newStation(t, Config{Workers: 1, Mean: time.Hour, Dist: Constant})
	ends := make(chan error, 2)
	for range 2 {
		go func() { ends <- st.Do(context.Background()) }()
	}
	awaitCounts(t, st, func(c Counts) bool { return c.Running == 1 && c.Waiting == 1 })
	st.Close()
	st.Close()
	for range 2 {
		if err := <-ends; !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	}
	if err := st.Do(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v after Close, want ErrClosed", err)
	}
}

// A station that takes an hour is told to be fast: the request under way ends.
func TestSpeedChangeReachesWorkUnderWay(t *testing.T) {
	for _, kind := range []Kind{Sleep, Spin} {
		t.Run(kind.String(), func(t *testing.T) {
			st := newStation(t, Config{Workers: 1, Mean: time.Second, Dist: Constant, Kind: kind})
			if err := st.SetSlowness(1e6); err != nil { // some eleven days a request
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- st.Do(t.Context()) }()
			awaitCounts(t, st, func(c Counts) bool { return c.Running == 1 })
			if err := st.SlowAt(time.Now().Add(10*ms), 0.001); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
				if err := st.SetSlowness(bad); err == nil {
					t.Errorf("slowness %v was accepted", bad)
				}
			}
		})
	}
}

// A response never comes before the service time is over, and never more than
// k run at once.
func TestNeverEarlyNeverMoreThanK(t *testing.T) {
	for _, kind := range []Kind{Sleep, Spin} {
		t.Run(kind.String(), func(t *testing.T) {
			st := newStation(t, Config{Workers: 2, Mean: ms, Kind: kind})
			stop := make(chan struct{})
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				for {
					select {
					case <-stop:
						return
					case <-time.After(ms / 4):
						if c := st.Counts(); c.Running > 2 || (c.Waiting > 0 && c.Running < 2) {
							t.Errorf("counts %+v with 2 servers", c)
						}
					}
				}
			}()
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					for range 5 {
						began := time.Now()
						if err := st.DoFor(t.Context(), ms); err != nil {
							t.Error(err)
						}
						if took := time.Since(began); took < ms {
							t.Errorf("1ms of work took %v", took)
						}
					}
				})
			}
			wg.Wait()
			close(stop)
			<-watched
		})
	}
}

// BenchmarkCapacity prints a saturated station's throughput as a share of its
// nominal capacity.
func BenchmarkCapacity(b *testing.B) {
	for _, cfg := range []Config{
		{Workers: 2, Mean: ms, Dist: Constant},
		{Workers: 2, Mean: ms, Dist: Exponential},
		{Workers: 8, Mean: 400 * time.Microsecond, Dist: Bimodal},
		{Workers: 1, Mean: 100 * time.Microsecond, Dist: Exponential, Kind: Spin},
	} {
		b.Run(fmt.Sprintf("%v/%v/k=%d/%v", cfg.Kind, cfg.Dist, cfg.Workers, cfg.Mean), func(b *testing.B) {
			st := newStation(b, cfg)
			began, used := time.Now(), cpuTime()
			var wg sync.WaitGroup
			each := b.N/(4*max(cfg.Workers, 1)) + 1
			for range 4 * max(cfg.Workers, 1) {
				wg.Go(func() {
					for range each {
						_ = st.Do(b.Context())
					}
				})
			}
			wg.Wait()
			served := float64(st.Counts().Finished)
			rate := served / time.Since(began).Seconds()
			b.ReportMetric(float64((cpuTime()-used).Microseconds())/served, "cpu-µs/served")
			b.ReportMetric(rate, "served/s")
			b.ReportMetric(rate/st.Capacity(), "of-nominal")
		})
	}
}

// cpuTime returns the processor time that this process has used.
func cpuTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkSleepPrecision prints how long a lone 1 ms request takes beyond
// its millisecond.
func BenchmarkSleepPrecision(b *testing.B) {
	st := newStation(b, Config{Workers: 2, Mean: ms, Dist: Constant})
	over := make([]time.Duration, 0, b.N)
	for range b.N {
		began := time.Now()
		_ = st.Do(b.Context())
		over = append(over, time.Since(began)-ms)
	}
	slices.Sort(over)
	b.ReportMetric(float64(over[len(over)/2])/1e3, "p50-late-µs")
	b.ReportMetric(float64(over[len(over)*99/100])/1e3, "p99-late-µs")
}
