package chains

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/work"
)

// The ledger against the textbook recursion, though it is told the service times
// late.
func TestLedgerFollowsTheRecursion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 3).Draw(t, "workers")
		n := rapid.IntRange(1, 30).Draw(t, "requests")
		base := time.Unix(1000, 0)
		l, free := newLedger(k), make([]time.Duration, k)
		var now time.Duration
		var want [work.NumClasses]time.Duration
		var works []time.Duration
		for range n {
			now += time.Duration(rapid.IntRange(0, 5).Draw(t, "gap")) * ms
			class := work.Class(rapid.IntRange(0, int(work.NumClasses)-1).Draw(t, "class"))
			l.arrive(base.Add(now), class)
			works = append(works, time.Duration(rapid.IntRange(0, 12).Draw(t, "work"))*ms)
			slices.Sort(free)
			want[class] += max(free[0]-now, 0)
			free[0] = max(free[0], now) + works[len(works)-1]
			if rapid.Bool().Draw(t, "tell") {
				for _, w := range works[len(works)-len(l.pending):] {
					l.start(w)
				}
			}
		}
		for _, w := range works[len(works)-len(l.pending):] {
			l.start(w)
		}
		if l.waited != want {
			t.Fatalf("waited %v, want %v", l.waited, want)
		}
	})
}

func TestLawDistance(t *testing.T) {
	for _, c := range []struct {
		what   string
		counts Counts
		want   float64
		ok     bool
	}{
		{"as in FIFO", Counts{Arrived: 2, Finished: 2, Waited: 10, FIFO: 10}, 0, true},
		{"half as much again", Counts{Arrived: 2, Finished: 2, Waited: 15, FIFO: 10}, 0.5, true},
		{"somebody left", Counts{Arrived: 3, Finished: 2, Abandoned: 1, Waited: 10, FIFO: 10}, 0, false},
		{"somebody is still there", Counts{Arrived: 3, Finished: 2, Waited: 10, FIFO: 10}, 0, false},
		{"a Tomcat", Counts{Arrived: 2, Finished: 2, Waited: 10}, 0, false},
	} {
		if got, ok := c.counts.LawDistance(); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v; want %v, %v", c.what, got, ok, c.want, c.ok)
		}
	}
	sum := Counts{1, 2, 3, 4, 5, 6, [work.NumClasses]Waits{{1, 2}, {3, 4}}}.plus(Counts{10, 20, 30, 40, 50, 60, [work.NumClasses]Waits{{10, 20}, {30, 40}}})
	if want := (Counts{11, 22, 33, 44, 55, 66, [work.NumClasses]Waits{{11, 22}, {33, 44}}}); sum != want {
		t.Errorf("sum %+v, want %+v", sum, want)
	}
}

// queue puts requests behind one that has the only turn, in the given order, and
// returns the order in which they get it.
func queue(t *testing.T, l turns, classes []work.Class, gone int) []int {
	t.Helper()
	first, err := l.acquire(t.Context(), work.Default)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	waiting := func() int {
		switch l := l.(type) {
		case *line:
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.queues[0].Len() + l.queues[1].Len()
		case resource:
			return l.Stats().Waiting
		}
		return 0
	}
	for i, class := range classes {
		before := waiting()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		wg.Go(func() {
			release, err := l.acquire(ctx, class)
			if (err != nil) != (i == gone) {
				t.Errorf("request %d: error %v", i, err)
			}
			if err == nil {
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				release()
			}
		})
		for waiting() == before {
			time.Sleep(100 * time.Microsecond)
		}
		if i == gone {
			leave()
			for waiting() != before {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
	first()
	wg.Wait()
	return order
}

func TestOrders(t *testing.T) {
	const d, r = work.Default, work.Interactive
	classes := []work.Class{d, d, r, d, r}
	for _, c := range []struct {
		what string
		line func() (turns, error)
		want []int
	}{
		{"fifo", func() (turns, error) { return newLine(1, -1, 1), nil }, []int{0, 2, 3, 4}},
		{"lottery, all for the interactive", func() (turns, error) { return newLine(1, 1, 1), nil }, []int{2, 4, 0, 3}},
		{"lottery, nothing for them", func() (turns, error) { return newLine(1, 0, 1), nil }, []int{0, 3, 2, 4}},
		{"priority", func() (turns, error) { return newResource(1, 1) }, []int{2, 4, 0, 3}},
		{"the other way round", func() (turns, error) { return newResource(1, 0) }, []int{0, 3, 2, 4}},
	} {
		l, err := c.line()
		if err != nil {
			t.Fatal(err)
		}
		if got := queue(t, l, classes, 1); !slices.Equal(got, c.want) {
			t.Errorf("%s: order %v, want %v: request 1 left", c.what, got, c.want)
		}
		l.close()
	}
}

// Between two queues that never empty, the lottery is won as often as its weight
// says.
func TestLotteryIsFair(t *testing.T) {
	l := newLine(0, 0.7, 1)
	won := 0
	const n = 20_000
	for range n {
		for class := range l.queues {
			for l.queues[class].Len() < 1 {
				l.queues[class].PushBack(make(chan struct{}, 1))
			}
		}
		l.release()
		if l.queues[work.Interactive].Len() == 0 {
			won++
		}
	}
	if share := float64(won) / n; math.Abs(share-0.7) > 0.02 {
		t.Errorf("the interactive queue won %.3f of the draws, want 0.7", share)
	}
}

func TestSettingReportsEveryMistake(t *testing.T) {
	_, err := Setting{Servers: 9, Workers: -1, Mean: time.Microsecond}.withDefaults()
	expect(t, err, "Servers is 9", "Workers is -1", "Mean is 1µs")
	s, err := Setting{}.withDefaults()
	if err != nil || s.Servers != 4 || s.Capacity() != 100 {
		t.Errorf("defaults: %+v, %v", s, err)
	}
	// Spec §3, first row: 100 and 25 ms.
	if l, ok := s.Model(30, 120).FIFO(); !ok || math.Abs(l.Interactive-0.1) > 1e-9 || math.Abs(l.Default-0.025) > 1e-9 {
		t.Errorf("in theory %+v, want 0.1 and 0.025", l)
	}
}

func TestDisciplineIsChecked(t *testing.T) {
	for _, d := range []Discipline{{Kind: "lifo"}, {Kind: Weighted, Weight: 1.1}, {Kind: Lottery, Weight: math.NaN()}, {Kind: Static, Weight: 1}, {}} {
		if _, err := newWorkers(Setting{Workers: 1, Mean: ms}, d); err == nil {
			t.Errorf("%+v was accepted", d)
		}
	}
}
