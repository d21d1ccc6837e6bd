package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// byTurns returns a queue in which senders take turns.
func byTurns(t testing.TB, change func(*Config)) *Queue {
	t.Helper()
	cfg := Config{Senders: 64, Aging: time.Hour}
	if change != nil {
		change(&cfg)
	}
	q, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// push lets a task of a sender wait, that costs a millisecond.
func push(q *Queue, now mono.Time, sender uint64) *Task {
	t := &Task{Sender: sender, Deadline: mono.Never, Cost: ms, Owner: sender}
	q.Push(now, t)
	return t
}

// senders returns whose tasks are served, one after the other, until n were or none waits.
func senders(q *Queue, now mono.Time, n int) (out []uint64) {
	for range n {
		t, _ := q.Next(now)
		if t == nil {
			break
		}
		q.Settle(t, ms)
		out = append(out, t.Sender)
	}
	return out
}

// TestBurstWaitsBehindItself: what comes behind a burst of one sender waits for a round, in every order, and a burst
// goes on where nobody else waits.
func TestBurstWaitsBehindItself(t *testing.T) {
	for order := FIFO; order < numOrders; order++ {
		q := byTurns(t, func(c *Config) { c.Order = order })
		for range 5 {
			push(q, 1, 7)
		}
		push(q, 2, 8)
		push(q, 2, 8)
		push(q, 3, 9)
		got, want := fmt.Sprint(senders(q, 4, 10)), fmt.Sprint([]uint64{7, 8, 9, 7, 8, 7, 7, 7})
		if got != want {
			t.Errorf("%v: served are %v, want %v", order, got, want)
		}
	}
}

// TestNobodyOwesForWhatNobodyElseWanted: a sender that was alone for long, and one that was idle for long, have the
// same turns from then on.
func TestNobodyOwesForWhatNobodyElseWanted(t *testing.T) {
	q := byTurns(t, nil)
	for range 100 {
		push(q, 1, 7)
	}
	senders(q, 1, 99) // it never runs empty
	for range 3 {
		push(q, 2, 7)
		push(q, 2, 8)
	}
	if got, want := fmt.Sprint(senders(q, 3, 10)), fmt.Sprint([]uint64{7, 8, 7, 8, 7, 8, 7}); got != want {
		t.Errorf("served are %v, want %v", got, want)
	}
}

// TestManyUsersOfOneAddress: half of the tasks that come are each of another sender, the others of one that has many
// users. Each takes the place of the one that was served, in a queue of 20, and where the one of many users has four
// there its next is refused. It has a turn in each round, which is as long as the queue, and none of its tasks waits
// for ever behind those of new senders.
func TestManyUsersOfOneAddress(t *testing.T) {
	q := byTurns(t, nil)
	const many, places, services = 1, 20, 2000
	next, inside, served, longest := uint64(many), 0, 0, 0
	since := map[*Task]int{}
	for step := range services {
		now := mono.Time(step + 1)
		for q.Len() < places {
			if next%2 == 0 && inside < 4 {
				since[push(q, now, many)] = step
				inside++
			}
			next++
			since[push(q, now, next)] = step
		}
		task, _ := q.Next(now)
		q.Settle(task, ms)
		longest = max(longest, step-since[task])
		if task.Sender == many {
			served++
			inside--
		}
	}
	if share := float64(served) / services; share < 1.0/places || longest > 5*places {
		t.Errorf("the address of many users has %.3f of what is served, the longest wait is for %d services", share, longest)
	}
}

// TestLongTasksCountAsMany: a sender whose tasks take four times the mean has a quarter of the turns.
func TestLongTasksCountAsMany(t *testing.T) {
	q := byTurns(t, nil)
	served := map[uint64]int{}
	for range 8 {
		push(q, 1, 7)
		push(q, 1, 8)
	}
	for range 1000 {
		task, _ := q.Next(1)
		served[task.Sender]++
		q.Settle(task, ms*time.Duration(1+3*(task.Sender-7)))
		push(q, 1, task.Sender)
	}
	if ratio := float64(served[7]) / float64(served[8]); ratio < 3.6 || ratio > 4.4 {
		t.Errorf("%d and %d were served, want four times as many", served[7], served[8])
	}
}

// TestPriorityAndClassComeBeforeTurns: a burst of the first priority is served before all others of its class, and has
// turns of its own class.
func TestPriorityAndClassComeBeforeTurns(t *testing.T) {
	q := byTurns(t, nil)
	for range 3 {
		q.Push(1, &Task{Sender: 7, Priority: 0, Deadline: mono.Never, Cost: ms})
		q.Push(1, &Task{Sender: 8, Priority: 1, Deadline: mono.Never, Cost: ms})
	}
	q.Push(1, &Task{Sender: 9, Priority: 1, Deadline: mono.Never, Cost: ms})
	if got, want := fmt.Sprint(senders(q, 2, 10)), fmt.Sprint([]uint64{7, 7, 7, 8, 9, 8, 8}); got != want {
		t.Errorf("served are %v, want %v", got, want)
	}
}

// TestRaisedTasksTakeTurnsInTheirNewClass: tasks that inherit a class leave a heap of theirs for one of the other class,
// which may be another heap, and come out once each.
func TestRaisedTasksTakeTurnsInTheirNewClass(t *testing.T) {
	for order := range numOrders {
		for _, there := range []uint64{0, 7, 8} { // who waits in the class that they come to; 0: nobody
			q := byTurns(t, func(c *Config) { c.Order = order })
			add := func(sender uint64, class work.Class) *Task {
				task := &Task{Sender: sender, Class: class, Deadline: mono.Time(time.Hour), Cost: ms}
				q.Push(1, task)
				return task
			}
			low := []*Task{add(7, work.Default), add(7, work.Default), add(8, work.Default)}
			want := len(low)
			waiter := &Task{Sender: 9, Class: work.Interactive, Deadline: mono.Time(time.Hour), Cost: ms}
			for ; there != 0 && want < len(low)+2; want++ {
				add(there, work.Interactive)
			}
			for _, task := range low {
				if !q.Inherit(task, waiter) {
					t.Fatalf("%v: nothing is inherited", order)
				}
			}
			q.Release(low[1])
			out := map[*Task]bool{}
			for task, _ := q.Next(2); task != nil; task, _ = q.Next(2) {
				out[task] = true
				q.Settle(task, ms)
			}
			if len(out) != want || q.Len() != 0 {
				t.Errorf("%v, %d there: %d of %d came out, %d wait", order, there, len(out), want, q.Len())
			}
		}
	}
}

// TestWorkflowsShareBeforeSenders: what a workflow gets does not depend on how many senders it has.
func TestWorkflowsShareBeforeSenders(t *testing.T) {
	q := byTurns(t, func(c *Config) { c.Fair, c.Workflows = true, 3 })
	served := map[int]int{}
	for n := range uint64(40) {
		q.Push(1, &Task{Sender: 100 + n, Workflow: 1, Deadline: mono.Never, Cost: ms})
		q.Push(1, &Task{Sender: 7, Workflow: 2, Deadline: mono.Never, Cost: ms})
	}
	for range 40 {
		task, _ := q.Next(1)
		q.Settle(task, ms)
		served[task.Workflow]++
	}
	if served[1] != 20 || served[2] != 20 {
		t.Errorf("the workflows have %v", served)
	}
}

// TestMoreSendersThanPlaces: with ten times as many senders as places all are served, and the memory stays.
func TestMoreSendersThanPlaces(t *testing.T) {
	q := byTurns(t, func(c *Config) { c.Senders = 16 })
	for n := range uint64(160) {
		push(q, 1, 1+n)
	}
	if got := len(senders(q, 1, 200)); got != 160 {
		t.Fatalf("%d are served", got)
	}
	task, other := &Task{Deadline: mono.Never, Cost: ms}, &Task{Deadline: mono.Never, Cost: ms}
	if n := testing.AllocsPerRun(100, func() {
		task.Sender += 2
		other.Sender = task.Sender + 1
		q.Push(1, task)
		q.Push(1, other)
		q.Settle(must(q.Next(1)), ms)
		q.Settle(must(q.Next(1)), ms)
	}); n > 0 || len(q.rotas) != 1 || len(q.rotas[0].places) != 16 {
		t.Errorf("%v allocations a task, %d rotas", n, len(q.rotas))
	}
}

func must(t *Task, _ bool) *Task { return t }

// rotaModel is what the turns of a class are, with a map and a slice.
type rotaModel struct {
	now     Turn
	ends    map[uint64]Turn
	waiting []*Task
}

func (m *rotaModel) next(sender uint64) Turn {
	if end, ok := m.ends[sender]; ok && sender != 0 {
		return min(max(end, m.now), m.now+(mostSteps-1)*aStep)
	}
	return m.now
}

func (m *rotaModel) push(t *Task) (turn Turn) {
	turn = m.next(t.Sender)
	if t.Sender != 0 {
		m.ends[t.Sender] = turn + ARound
	}
	m.waiting = append(m.waiting, t)
	return turn
}

// active is how many senders wait.
func (m *rotaModel) active() Turn {
	all := map[uint64]bool{}
	for _, t := range m.waiting {
		if t.Sender != 0 {
			all[t.Sender] = true
		}
	}
	return Turn(max(len(all), 1))
}

func (m *rotaModel) leave(t *Task, served bool) {
	if served {
		m.now = max(m.now+ARound/m.active(), t.turn)
	} else if t.Sender != 0 {
		m.ends[t.Sender] -= ARound
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(o *Task) bool { return o == t })
	if len(m.waiting) == 0 {
		clear(m.ends)
		m.now = 0
	}
}

func (m *rotaModel) ahead(sender uint64) (n int) {
	turn, last := m.next(sender), Turn(-1)
	for _, t := range m.waiting {
		if last = max(last, t.turn); t.turn/aStep <= turn/aStep {
			n++
		}
	}
	if turn >= last {
		return len(m.waiting)
	}
	return n
}

// first is the first in the order of q of the tasks whose turns have come, else the one whose turn comes first.
func (m *rotaModel) first(q *Queue) *Task {
	come := slices.DeleteFunc(slices.Clone(m.waiting), func(t *Task) bool { return t.turn > m.now })
	if len(come) == 0 || q.cfg.Order == FIFO {
		return slices.MinFunc(m.waiting, func(a, b *Task) int { return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.seq, b.seq)) })
	}
	return slices.MinFunc(come, func(a, b *Task) int {
		return cmp.Or(cmp.Compare(q.cfg.Order.key(a), q.cfg.Order.key(b)), cmp.Compare(a.turn, b.turn), cmp.Compare(a.seq, b.seq))
	})
}

// TestTurnsAgainstModel compares turns, what is ahead, and what is served with the plain truth.
func TestTurnsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := Order(rapid.IntRange(0, int(numOrders)-1).Draw(t, "order"))
		q := made(t, Config{Senders: 512, Order: order, Aging: time.Hour})
		m := [work.NumClasses]*rotaModel{}
		for class := range m {
			m[class] = &rotaModel{ends: map[uint64]Turn{}}
		}
		var all []*Task
		now := mono.Time(1)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				sender := uint64(rapid.IntRange(0, 6).Draw(t, "asks"))
				for class := range m {
					if m[class].waiting == nil {
						continue
					}
					c := work.Class(class)
					if got, want := q.Turn(c, 0, sender), m[class].next(sender); got != want {
						t.Fatalf("the turn of %d would be %d, want %d", sender, got, want)
					}
					leaf := q.known(c, 0)
					got, want := leaf.waiting, m[class].ahead(sender)
					if leaf.rota != nil {
						got = leaf.rota.ahead(sender, leaf.waiting)
					}
					if got != want {
						t.Fatalf("%d are ahead of %d, want %d", got, sender, want)
					}
				}
				checkShape(t, q)
			},
			"push": func(t *rapid.T) {
				now++
				for range rapid.SampledFrom([]int{1, 1, 1, 3, 700}).Draw(t, "tasks") {
					task := &Task{Sender: uint64(rapid.IntRange(0, 6).Draw(t, "sender")), Class: work.Class(rapid.IntRange(0, 1).Draw(t, "class")),
						Deadline: now.Add(time.Hour + time.Duration(rapid.IntRange(0, 9).Draw(t, "more"))), Cost: ms}
					want := m[task.Class].push(task)
					if q.Push(now, task); task.Turn() != want {
						t.Fatalf("the turn of a task of %d is %d, want %d", task.Sender, task.Turn(), want)
					}
					all = append(all, task)
				}
			},
			"next": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 1, 50}).Draw(t, "tasks") {
					task, run := q.Next(now)
					if task == nil {
						return
					}
					if of := m[task.Class]; !run || task != of.first(q) {
						t.Fatalf("served is one of %d whose turn is %d, at %d", task.Sender, task.turn, of.now)
					}
					m[task.Class].leave(task, true)
				}
			},
			"settle": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				task := rapid.SampledFrom(all).Draw(t, "settled")
				took := time.Duration(rapid.IntRange(0, 20).Draw(t, "took")) * ms
				of, known := m[task.Class], task.place != nil && !task.Waiting() && task.rota != nil && task.era == task.rota.era
				if q.Settle(task, took); known {
					of.ends[task.Sender] += Turn((min(float64(took)/float64(ms), mostCost) - 1) * float64(ARound))
				}
			},
			"remove": func(t *rapid.T) {
				if len(all) == 0 {
					return
				}
				if task := rapid.SampledFrom(all).Draw(t, "gone"); q.Remove(task) {
					m[task.Class].leave(task, false)
				}
			},
		})
	})
}
