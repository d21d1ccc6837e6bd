package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

const ms = time.Millisecond

func at(d time.Duration) mono.Time { return mono.Time(d) }

func mustNew(t testing.TB, cfg Config) *Queue {
	t.Helper()
	q, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// drain returns the names of what runs and what is dropped at now, in order.
func drain(q *Queue, now mono.Time) (ran, dropped []string) {
	for {
		task, run := q.Next(now)
		switch {
		case task == nil:
			return ran, dropped
		case run:
			ran = append(ran, fmt.Sprint(task.Owner))
		default:
			dropped = append(dropped, fmt.Sprint(task.Owner))
		}
	}
}

// The keys of Wisp §4.3 and its peers, and what an unknown value counts as.
func TestOrders(t *testing.T) {
	tasks := []Task{
		{Owner: "a", Arrived: 1, Deadline: at(90 * ms), Remaining: 10 * ms, Total: 30 * ms, Done: 20 * ms, Cost: 3 * ms},
		{Owner: "b", Arrived: 2, Deadline: at(80 * ms), Remaining: 5 * ms, Total: 55 * ms, Done: 50 * ms, Cost: 3 * ms},
		{Owner: "c", Arrived: 3, Deadline: at(99 * ms), Remaining: 60 * ms, Total: 60 * ms, Cost: 3 * ms},
		{Owner: "d", Arrived: 4, Deadline: mono.Never, Cost: 7 * ms},
		{Owner: "e", Arrived: 5, Deadline: mono.Never, Remaining: -1, Total: -1, Done: -1, Cost: -1},
	}
	for _, c := range []struct {
		order Order
		want  string
	}{
		{FIFO, "a b c d e"},
		{EDF, "b a c d e"},
		{LSTF, "c b a d e"}, // slack 39, 75, 80, none
		{SJF, "e d a b c"},  // 0, 7, 30, 55, 60
		{SRTF, "e b d a c"}, // 0, 5, 7, 10, 60
		{LASF, "c d e a b"}, // 0, 0, 0, 20, 50
	} {
		for _, fair := range []bool{false, true} {
			q := mustNew(t, Config{Order: c.order, Fair: fair})
			for _, i := range []int{3, 1, 4, 0, 2} {
				task := tasks[i]
				q.Push(at(ms), &task)
			}
			if ran, dropped := drain(q, at(ms)); strings.Join(ran, " ") != c.want || dropped != nil {
				t.Errorf("%v, fair %v: ran %v, dropped %v; want %v", c.order, fair, ran, dropped, c.want)
			}
		}
	}
}

func TestPriorityGoesBeforeOrderAndTiesByArrivalThenPush(t *testing.T) {
	q := mustNew(t, Config{Order: EDF})
	for _, task := range []Task{
		{Owner: "late", Arrived: 9, Deadline: 100},
		{Owner: "first", Arrived: 5, Deadline: 100},
		{Owner: "second", Arrived: 5, Deadline: 100},
		{Owner: "unimportant", Arrived: 1, Deadline: 50, Priority: 1},
		{Owner: "least", Arrived: 1, Deadline: 20, Priority: 255},
	} {
		q.Push(10, &task)
	}
	if ran, _ := drain(q, 10); strings.Join(ran, " ") != "first second late unimportant least" {
		t.Errorf("ran %v", ran)
	}
}

// Every row is a task pushed at 10 ms and looked at then.
func TestInfeasible(t *testing.T) {
	for _, c := range []struct {
		name                string
		deadline, remaining time.Duration
		run                 bool
	}{
		{"just enough time", 30 * ms, 20 * ms, true},
		{"a nanosecond short", 30 * ms, 20*ms + 1, false},
		{"remainder unknown", 10*ms + 1, 0, true},
		{"deadline now", 10 * ms, 0, false},
		{"deadline passed", 9 * ms, 0, false},
		{"remainder below zero is unknown", 10*ms + 1, math.MinInt64, true},
		{"no remainder fits", math.MaxInt64 - 1, math.MaxInt64, false},
		{"no deadline", math.MaxInt64, math.MaxInt64, true},
		{"the earliest deadline", math.MinInt64, math.MaxInt64, false},
	} {
		for order := range numOrders {
			q := mustNew(t, Config{Order: order})
			task := &Task{Deadline: at(c.deadline), Remaining: c.remaining, Owner: c.name}
			q.Push(at(10*ms), task)
			peeked, would := q.Peek(at(10 * ms))
			got, run := q.Next(at(10 * ms))
			if got != task || run != c.run || peeked != got || would != run || q.Len() != 0 {
				t.Errorf("%v, %v: run is %v, peeked %v, %d left; want %v", order, c.name, run, would, q.Len(), c.run)
			}
		}
	}
}

func TestExpiredWakesAndComesOutFirst(t *testing.T) {
	q := mustNew(t, Config{})
	good := &Task{Owner: "good", Deadline: mono.Never}
	soon := &Task{Owner: "soon", Deadline: at(50 * ms), Remaining: 20 * ms}
	later := &Task{Owner: "later", Deadline: at(60 * ms), Remaining: 20 * ms}
	for _, task := range []*Task{good, later, soon} {
		q.Push(0, task)
	}
	if got, want := q.NextWake(), at(30*ms+1); got != want {
		t.Fatalf("wake at %v, want %v", got, want)
	}
	if task := q.Expired(at(30 * ms)); task != nil {
		t.Fatalf("%v expired while it could still end in time", task.Owner)
	}
	ran, dropped := drain(q, at(45*ms))
	if !slices.Equal(ran, []string{"good"}) || !slices.Equal(dropped, []string{"soon", "later"}) {
		t.Errorf("ran %v, dropped %v", ran, dropped)
	}
	if q.NextWake() != mono.Never || q.Oldest() != nil {
		t.Errorf("an empty queue wakes at %v, oldest %v", q.NextWake(), q.Oldest())
	}
}

func TestAgingGoesAheadOfPriorityAndOrder(t *testing.T) {
	q := mustNew(t, Config{Order: SJF, Aging: 100 * ms})
	starved := &Task{Owner: "long", Priority: 9, Deadline: mono.Never, Total: time.Hour}
	q.Push(at(ms), starved)
	for now := 2 * ms; ; now += 2 * ms {
		q.Push(at(now), &Task{Deadline: mono.Never, Total: ms})
		if task, _ := q.Next(at(now)); task == starved {
			if now != 102*ms {
				t.Errorf("it ran at %v, want at the first turn after 101 ms", now)
			}
			return
		} else if task == nil || now > time.Second {
			t.Fatal("starved")
		}
	}
}

func TestOldestIsExact(t *testing.T) {
	q := mustNew(t, Config{Order: LSTF, Fair: true})
	a := &Task{Arrived: at(5 * ms), Deadline: mono.Never}
	b := &Task{Arrived: at(3 * ms), Deadline: mono.Never, Workflow: 1, Class: work.Interactive}
	c := &Task{Arrived: mono.Never, Deadline: mono.Never, Workflow: 2}
	for _, task := range []*Task{c, a, b} {
		q.Push(at(7*ms), task)
	}
	for _, want := range []*Task{b, a, c} {
		if got := q.Oldest(); got != want {
			t.Fatalf("oldest arrived at %v, want %v", got.Arrived, want.Arrived)
		}
		if !q.Remove(want) || q.Remove(want) {
			t.Fatal("removed not once")
		}
	}
	if c.Arrived != at(7*ms) {
		t.Errorf("arrived %v, after its push", c.Arrived)
	}
}

func TestWhatIsOutOfRangeHasAPlace(t *testing.T) {
	q := mustNew(t, Config{Fair: true, Workflows: 4})
	for _, workflow := range []int{-1, 4, math.MaxInt, math.MinInt, 0} {
		q.Push(1, &Task{Workflow: workflow, Class: 200, Priority: 255, Deadline: mono.Never})
	}
	if q.classes[work.Default].children != 1 || q.flows[work.Default][0].children != 0 || q.root.children != 1 {
		t.Error("not all in the default workflow of the default class")
	}
	for n := 5; n > 0; n-- {
		if task, run := q.Next(1); task == nil || !run {
			t.Fatal("lost")
		}
	}
}

func TestWaitingTaskIsNotPushedTwiceNorRemovedElsewhere(t *testing.T) {
	q, other := mustNew(t, Config{}), mustNew(t, Config{})
	task := &Task{Deadline: mono.Never}
	q.Push(1, task)
	q.Push(2, task)
	other.Push(2, task)
	if q.Len() != 1 || other.Len() != 0 || other.Remove(task) || !task.Waiting() {
		t.Errorf("%d here, %d there", q.Len(), other.Len())
	}
	q.Settle(task, ms) // it has not run: nothing to settle
	if got, run := q.Next(2); got != task || !run || task.Waiting() {
		t.Error("not dispatched")
	}
	if q.Remove(task) {
		t.Error("a running task was removed")
	}
}

// Of every waiter the best counts: the class of one, the key of another.
func TestLoansAddUp(t *testing.T) {
	q := mustNew(t, Config{Order: EDF})
	holder := &Task{Owner: "holder", Deadline: 900}
	q.Push(1, holder)
	for _, name := range []string{"a", "b"} {
		q.Push(1, &Task{Owner: name, Deadline: 500, Class: work.Interactive})
	}
	person := &Task{Deadline: 950, Class: work.Interactive}
	batch := &Task{Deadline: 100}
	if !q.Inherit(holder, person) || !q.Inherit(holder, batch) || q.Inherit(holder, person) {
		t.Fatal("helped not twice")
	}
	if ran, _ := drain(q, 1); strings.Join(ran, " ") != "holder a b" {
		t.Errorf("ran %v", ran)
	}
	q.Release(holder)
	holder.Arrived = 0
	q.Push(1, holder)
	if q.classes[work.Default].order.first() != holder {
		t.Error("released, it does not wait in its own class")
	}
}

// What has come out can be collected.
func TestNothingIsKept(t *testing.T) {
	q := mustNew(t, Config{})
	for range 9 {
		q.Push(1, &Task{Deadline: 5})
	}
	drain(q, 3)
	for _, h := range []heap{q.losses, q.classes[work.Default].order} {
		for i, e := range h.entries[:cap(h.entries)] {
			if e.task != nil {
				t.Errorf("entry %d keeps its task", i)
			}
		}
	}
}

func TestParseOrder(t *testing.T) {
	for o := range numOrders {
		for _, text := range []string{o.String(), strings.ToUpper(o.String())} {
			if got, err := ParseOrder(text); err != nil || got != o {
				t.Errorf("ParseOrder(%q) = %v, %v", text, got, err)
			}
		}
	}
	_, err := ParseOrder("lifo")
	if err == nil || !strings.Contains(err.Error(), `"lifo"`) || !strings.Contains(err.Error(), "fifo, edf, lstf, sjf, srtf, lasf") {
		t.Errorf("error %v names not what was given and expected", err)
	}
	if got := Order(200).String(); got != "unknown" {
		t.Errorf("Order(200) = %q", got)
	}
}

func TestConfigReportsEveryMistake(t *testing.T) {
	_, err := New(Config{Order: 99, Workflows: -1, Quantum: 1, Aging: -1, Weights: [work.NumClasses]float64{math.NaN(), -1}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Order is 99", "Workflows is -1", "Quantum is 1ns", "Aging is -1ns", "Weights[default] is NaN", "Weights[interactive] is -1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestWeightsAndSharesAreBounded(t *testing.T) {
	q := mustNew(t, Config{Fair: true, Workflows: 2})
	for _, w := range []float64{0, -1, math.NaN(), math.Inf(1), MinWeight / 2, MaxWeight * 2} {
		if q.SetWeight(work.Default, w) || q.SetShare(1, w) {
			t.Errorf("%v was taken", w)
		}
	}
	if q.SetWeight(work.NumClasses, 1) || q.SetShare(2, 1) || q.SetShare(-1, 1) {
		t.Error("what does not exist was given a weight")
	}
	if !q.SetWeight(work.Interactive, MaxWeight) || !q.SetShare(1, MinWeight) {
		t.Error("a bound was refused")
	}
	if mustNew(t, Config{}).SetShare(0, 1) {
		t.Error("a share without Fair")
	}
}

// TestLeastDecidesWhatIsLost: a task counts as lost by what it surely needs, while
// its order goes by what it is expected to need.
func TestLeastDecidesWhatIsLost(t *testing.T) {
	q, err := New(Config{Order: LSTF})
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	doubtful := &Task{Deadline: mono.Time(20 * ms), Remaining: 50 * ms, Least: 5 * ms}
	sure := &Task{Deadline: mono.Time(20 * ms), Remaining: 50 * ms}
	easy := &Task{Deadline: mono.Time(20 * ms), Remaining: 10 * ms, Least: ms}
	q.Push(1, easy)
	q.Push(1, doubtful)
	q.Push(1, sure)
	if got, run := q.Next(1); got != sure || run {
		t.Errorf("want the one that surely needs more than is left out first, not to run")
	}
	if at := q.NextWake(); at != mono.Time(15*ms+1) {
		t.Errorf("the next is lost at %v, want just after 15 ms", at)
	}
	if got, run := q.Next(1); got != doubtful || !run {
		t.Errorf("want the one with the least slack run first, in doubt or not")
	}
	if got, run := q.Next(mono.Time(19*ms + 1)); got != easy || run {
		t.Errorf("want the last lost a millisecond before its deadline")
	}
}
