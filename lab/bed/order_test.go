package bed

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/schedule"
	_ "github.com/spillgate/spillgate/internal/seeded"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// The ledger against the textbook recursion, though it is told the work late.
func TestLedgerFollowsTheRecursion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 3).Draw(t, "workers")
		n := rapid.IntRange(1, 30).Draw(t, "requests")
		base := time.Unix(1000, 0)
		l, free := newLedger(k), make([]time.Duration, k)
		var now time.Duration
		var want [work.NumClasses]time.Duration
		var works []time.Duration
		tell := func() {
			for _, w := range works[len(works)-len(l.pending):] {
				l.start(work.Default, 0, w)
			}
		}
		for range n {
			now += time.Duration(rapid.IntRange(0, 5).Draw(t, "gap")) * ms
			class := work.Class(rapid.IntRange(0, int(work.NumClasses)-1).Draw(t, "class"))
			l.arrive(base.Add(now), class)
			works = append(works, time.Duration(rapid.IntRange(0, 12).Draw(t, "work"))*ms)
			slices.Sort(free)
			want[class] += max(free[0]-now, 0)
			free[0] = max(free[0], now) + works[len(works)-1]
			if rapid.Bool().Draw(t, "tell") {
				tell()
			}
		}
		tell()
		for class, w := range want {
			if got := l.law.Class[class].FIFO; got != w {
				t.Fatalf("class %d: %v, want %v", class, got, w)
			}
		}
	})
}

func TestLawDistance(t *testing.T) {
	waits := func(waited, fifo time.Duration) [work.NumClasses]Waits {
		return [work.NumClasses]Waits{{Waited: waited, FIFO: 4}, {FIFO: fifo - 4}}
	}
	for _, c := range []struct {
		what string
		law  Law
		want float64
		ok   bool
	}{
		{"as in order of arrival", Law{Arrived: 2, Finished: 2, Class: waits(10, 10)}, 0, true},
		{"half as much again", Law{Arrived: 2, Finished: 2, Class: waits(15, 10)}, 0.5, true},
		{"somebody left", Law{Arrived: 3, Finished: 2, Abandoned: 1, Class: waits(10, 10)}, 0, false},
		{"somebody is still there", Law{Arrived: 3, Finished: 2, Class: waits(10, 10)}, 0, false},
		{"nobody waited", Law{Arrived: 2, Finished: 2}, 0, false},
	} {
		if got, ok := c.law.Distance(); math.Abs(got-c.want) > 1e-9 || ok != c.ok {
			t.Errorf("%s: %v, %v; want %v, %v", c.what, got, ok, c.want, c.ok)
		}
	}
	sum := Law{1, 2, 3, 4, [work.NumClasses]Waits{{1, 2}, {3, 4}}}
	sum.Add(&Law{10, 20, 30, 40, [work.NumClasses]Waits{{10, 20}, {30, 40}}})
	if want := (Law{11, 22, 33, 44, [work.NumClasses]Waits{{11, 22}, {33, 44}}}); sum != want {
		t.Errorf("sum %+v, want %+v", sum, want)
	}
}

func of(class work.Class) context.Context {
	return live.WithTags(context.Background(), wire.Tags{Class: class})
}

// queue puts requests behind one that has the only turn, in the given order, and
// returns the order in which they get it.
func queue(t *testing.T, l turns, classes []work.Class, gone int) []int {
	t.Helper()
	_, first, err := l.acquire(of(work.Default))
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
		ctx, leave := context.WithCancel(of(class))
		defer leave()
		wg.Go(func() {
			_, done, err := l.acquire(ctx)
			if (err != nil) != (i == gone) {
				t.Errorf("request %d: error %v", i, err)
			}
			if err == nil {
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				done()
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

func TestTurns(t *testing.T) {
	const d, r = work.Default, work.Interactive
	weighed := func(weight float64) turns {
		l, err := newResource(1, schedule.Config{})
		if err != nil {
			t.Fatal(err)
		}
		l.weigh(weight)
		return l
	}
	for _, c := range []struct {
		what string
		line turns
		want []int
	}{
		{"in order of arrival", newLine(1, -1, 1), []int{0, 2, 3, 4}},
		{"lottery, all for the interactive", newLine(1, 1, 1), []int{2, 4, 0, 3}},
		{"lottery, nothing for them", newLine(1, 0, 1), []int{0, 3, 2, 4}},
		{"priority", weighed(1), []int{2, 4, 0, 3}},
		{"the other way round", weighed(0), []int{0, 3, 2, 4}},
	} {
		if got := queue(t, c.line, []work.Class{d, d, r, d, r}, 1); !slices.Equal(got, c.want) {
			t.Errorf("%s: order %v, want %v: request 1 left", c.what, got, c.want)
		}
		c.line.close()
	}
}

// Between two queues that never empty, the lottery is won as often as its weight says.
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

// A crew draws work by turn or by request, in a static part of a worker it takes as much
// longer, and who leaves while waiting is counted.
func TestCrew(t *testing.T) {
	s := &world.Service{Workers: 1, Methods: []world.Method{{Steps: []world.Step{{Wait: &world.Draw{Mean: ms}}}}}}
	d := &world.Draw{Shape: world.Exponential, Mean: ms}
	work2 := func(o Order, class work.Class, id uint64) time.Duration {
		c, err := newCrew(s, o, 7, punctual)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		p, err := c.wait(of(class), d, id, 0)
		if err != nil {
			t.Fatal(err)
		}
		if l := c.look(); l.Arrived != 1 || l.Finished != 1 || l.Abandoned != 0 {
			t.Errorf("%+v", l)
		}
		gone, leave := context.WithCancel(of(class))
		_, done, _ := c.lines[len(c.lines)-1].acquire(of(work.Interactive))
		leave()
		if _, err := c.wait(gone, d, id, 0); err == nil || c.look().Abandoned != 1 {
			t.Errorf("left while waiting: %v, %+v", err, c.look())
		}
		done()
		return p.service()
	}
	if a, b := work2(Order{}, work.Default, 1), work2(Order{}, work.Default, 2); a == b || a != draw(d, 1, 0) {
		t.Errorf("by request: %v and %v, the first expected %v", a, b, draw(d, 1, 0))
	}
	turn := work2(Order{InTurn: true}, work.Default, 1)
	if again := work2(Order{InTurn: true}, work.Default, 2); turn != again {
		t.Errorf("in turn: %v and %v", turn, again)
	}
	if got := work2(Order{Kind: Static, Weight: 0.25, InTurn: true}, work.Interactive, 1); (got - 4*turn).Abs() > 4 {
		t.Errorf("with a quarter of the worker %v, of all of it %v", got, turn)
	}
	for _, o := range []Order{{Kind: Weighted, Weight: 1.1}, {Kind: Lottery, Weight: math.NaN()}, {Kind: Static, Weight: 1}, {Kind: Shared + 1}} {
		if _, err := newCrew(s, o, 1, punctual); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// Each visit is its arrival, start and end in milliseconds, and its class.
func TestVisitsAreReplayed(t *testing.T) {
	const single, chain = int(work.Default), int(work.Interactive)
	for _, c := range []struct {
		what         string
		workers      int
		visits       [][4]int
		waited, fifo time.Duration
		of           [work.NumClasses]time.Duration // fifo, by class
	}{
		{"in order", 1, [][4]int{{0, 0, 10, single}, {1, 10, 20, single}, {2, 20, 30, chain}}, 27 * ms, 27 * ms, [...]time.Duration{single: 9 * ms, chain: 18 * ms}},
		// The chain goes first; those who are served in turn take as long as they did.
		{"by class", 1, [][4]int{{0, 0, 10, single}, {1, 20, 26, single}, {2, 10, 20, chain}}, 27 * ms, 27 * ms, [...]time.Duration{single: 9 * ms, chain: 18 * ms}},
		{"two workers", 2, [][4]int{{0, 0, 10, single}, {0, 0, 4, single}, {1, 4, 9, chain}, {2, 9, 12, single}}, 10 * ms, 10 * ms, [...]time.Duration{single: 7 * ms, chain: 3 * ms}},
		{"idle in between", 1, [][4]int{{0, 0, 10, single}, {1, 15, 20, single}}, 14 * ms, 9 * ms, [...]time.Duration{single: 9 * ms, chain: 0}},
	} {
		v := new(visits)
		log := func(at int, msg, decision string, class, queued, served int) {
			r := slog.NewRecord(time.Unix(0, 0).Add(time.Duration(at)*ms), slog.LevelDebug, msg, 0)
			r.AddAttrs(slog.String("decision", decision), slog.String("class", work.Class(class).String()),
				slog.Duration("queued", time.Duration(queued)*ms), slog.Duration("service", time.Duration(served)*ms))
			if err := v.Handle(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		log(0, "started", "admit", single, 0, 0)
		log(1, "request", "refuse", single, 5, 0)
		for _, x := range c.visits {
			log(x[2], "request", "admit", x[3], x[1]-x[0], x[2]-x[1])
		}
		got := v.replay(c.workers)
		if _, ok := got.Distance(); !ok || got.Arrived != len(c.visits) || got.Wasted() != c.waited-c.fifo {
			t.Errorf("%s: %+v, expected waits of %v, in order of arrival %v", c.what, got, c.waited, c.fifo)
		}
		for class, want := range c.of {
			if got.Class[class].FIFO != want {
				t.Errorf("%s: %v would have waited %v in order of arrival, expected %v", c.what, work.Class(class), got.Class[class].FIFO, want)
			}
		}
	}
}

func TestStretch(t *testing.T) {
	var requests []Request
	for i := range 100 {
		requests = append(requests, Request{At: time.Second + time.Duration(i)*ms, Took: time.Duration(100-i) * ms, How: How(i / 50)}) // in time, late
	}
	requests = append(requests, Request{0, time.Hour, Good}, Request{2 * time.Second, ms, Expired}, Request{2 * time.Second, ms, Refused}, Request{2500 * ms, ms, RefusedBelow}, Request{9 * time.Second, ms, Failed})
	p := &Played{Requests: [][]Request{nil, requests}}
	got, want := p.Stretch(1, time.Second, 9*time.Second), Stretch{Offered: 103, By: [numHow]int{50, 50, 1, 1, 1, 0}, Mean: 50*ms + ms/2, P50: 50 * ms, P95: 95 * ms, P99: 99 * ms}
	if got != want || got.Answered() != 100 || math.Abs(got.Share(Late)-50./103) > 1e-9 {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if none := p.Stretch(0, 0, time.Hour); none != (Stretch{}) || none.Share(Good) != 0 {
		t.Errorf("of nobody: %+v", none)
	}
	if both := StretchOf([]*Played{p, p}, 0, time.Hour, 1); both.Offered != 210 {
		t.Errorf("two runs offered %d", both.Offered)
	}
}
