package schedule

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// wild draws durations, those at the ends of the range among them.
func wild() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64Range(-5, 60).Draw(t, "ms")) * ms }),
		rapid.SampledFrom([]time.Duration{0, 1, -1, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, 1 << 61, 1 << 62}),
		rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64().Draw(t, "any")) }),
	)
}

func wildTask() *rapid.Generator[*Task] {
	return rapid.Custom(func(t *rapid.T) *Task {
		return &Task{
			Workflow:  rapid.IntRange(-1, 5).Draw(t, "workflow"),
			Class:     work.Class(rapid.IntRange(0, int(work.NumClasses)).Draw(t, "class")),
			Priority:  work.Priority(rapid.SampledFrom([]int{0, 0, 0, 1, 127, 255}).Draw(t, "priority")),
			Arrived:   at(wild().Draw(t, "arrived")),
			Deadline:  at(rapid.OneOf(rapid.Just(time.Duration(mono.Never)), wild()).Draw(t, "deadline")),
			Remaining: wild().Draw(t, "remaining"),
			Total:     wild().Draw(t, "total"),
			Done:      wild().Draw(t, "done"),
			Cost:      wild().Draw(t, "cost"),
		}
	})
}

// model is the plain truth about a queue: a slice, searched from end to end, with
// keys of any size.
type model struct {
	order   Order
	aging   time.Duration
	waiting []*Task // as pushed
	lent    map[*Task][]rank
}

type rank struct {
	class    work.Class
	priority work.Priority
	key      *big.Int
}

func (r rank) compare(s rank) int {
	return cmp.Or(cmp.Compare(r.priority, s.priority), r.key.Cmp(s.key))
}

func exact(d time.Duration) *big.Int { return big.NewInt(int64(d)) }

// key saturates a sum only after it is known.
func (m *model) key(t *Task) *big.Int {
	known := func(d time.Duration) *big.Int {
		if d <= 0 {
			d = max(t.Cost, 0)
		}
		return exact(d)
	}
	switch m.order {
	case EDF:
		return big.NewInt(int64(t.Deadline))
	case LSTF:
		return m.latest(t)
	case SJF:
		return known(t.Total)
	case SRTF:
		return known(t.Remaining)
	case LASF:
		return exact(max(t.Done, 0))
	}
	return big.NewInt(int64(t.Arrived))
}

func (m *model) latest(t *Task) *big.Int {
	at := big.NewInt(int64(t.Deadline))
	if t.Deadline != mono.Never {
		at.Sub(at, exact(max(t.Remaining, 0)))
	}
	if least := big.NewInt(math.MinInt64); at.Cmp(least) < 0 {
		return least
	}
	return at
}

func (m *model) rank(t *Task) rank {
	r := rank{t.Class, t.Priority, m.key(t)}
	if r.class >= work.NumClasses {
		r.class = work.Default
	}
	for _, loan := range m.lent[t] {
		r.class = max(r.class, loan.class)
		if loan.compare(r) < 0 {
			r.priority, r.key = loan.priority, loan.key
		}
	}
	return r
}

func (m *model) infeasible(now mono.Time, t *Task) bool {
	return t.Deadline != mono.Never && (now >= t.Deadline || big.NewInt(int64(now)).Cmp(m.latest(t)) > 0)
}

// oldest compares by arrival, then in the order of the pushes, which is the
// slice's and which a stable search keeps.
func oldest(a, b *Task) int { return cmp.Compare(a.Arrived, b.Arrived) }

// next returns what is first among the given tasks, which are feasible.
func (m *model) next(now mono.Time, of []*Task) *Task {
	if t := slices.MinFunc(of, oldest); now.Sub(t.Arrived) >= m.aging {
		return t
	}
	return slices.MinFunc(of, func(a, b *Task) int { return cmp.Or(m.rank(a).compare(m.rank(b)), oldest(a, b)) })
}

func (m *model) remove(t *Task) bool {
	i := slices.Index(m.waiting, t)
	if i < 0 {
		return false
	}
	m.waiting = slices.Delete(m.waiting, i, i+1)
	return true
}

// leaf names where a task waits.
func (m *model) leaf(q *Queue, t *Task) [2]int {
	if !q.cfg.Fair {
		return [2]int{int(m.rank(t).class), 0}
	}
	if t.Workflow < 0 || t.Workflow >= q.cfg.Workflows {
		return [2]int{int(m.rank(t).class), 0}
	}
	return [2]int{int(m.rank(t).class), t.Workflow}
}

// TestAgainstModel drives a queue at random, with values of any size, and compares
// with the plain model: what comes out is the best of its workflow, nothing is lost
// or comes out twice, nobody runs who cannot be in time or before one who has aged,
// and something runs whenever something can.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Order:     Order(rapid.IntRange(0, int(numOrders)-1).Draw(t, "order")),
			Fair:      rapid.Bool().Draw(t, "fair"),
			Workflows: 4,
			Aging:     rapid.SampledFrom([]time.Duration{1, 20 * ms, time.Hour, math.MaxInt64}).Draw(t, "aging"),
			Quantum:   rapid.SampledFrom([]time.Duration{time.Microsecond, ms, time.Second}).Draw(t, "quantum"),
		}
		q, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		m := &model{order: cfg.Order, aging: cfg.Aging, lent: map[*Task][]rank{}}
		var all, running []*Task
		now := mono.Time(rapid.SampledFrom([]int64{0, 1, math.MinInt64, math.MaxInt64 - 1e9}).Draw(t, "origin"))
		some := func(of []*Task, label string) *Task {
			return of[rapid.IntRange(0, len(of)-1).Draw(t, label)]
		}
		// came checks a task that came out.
		came := func(task *Task, run bool) {
			if task.Waiting() {
				t.Fatal("it came out and waits")
			}
			lost := slices.DeleteFunc(slices.Clone(m.waiting), func(u *Task) bool { return !m.infeasible(now, u) })
			if !run {
				if !slices.Contains(lost, task) {
					t.Fatalf("%+v was dropped at %v", task, now)
				}
			} else {
				if len(lost) > 0 {
					t.Fatalf("one ran before %d who cannot be in time were dropped", len(lost))
				}
				of := slices.DeleteFunc(slices.Clone(m.waiting), func(u *Task) bool { return m.leaf(q, u) != m.leaf(q, task) })
				if len(of) == 0 || m.next(now, of) != task {
					t.Fatalf("%v ran, which is not the first of the %d of its workflow", m.rank(task), len(of))
				}
				running = append(running, task)
			}
			if !m.remove(task) {
				t.Fatal("it came out and did not wait")
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if q.Len() != len(m.waiting) {
					t.Fatalf("%d wait, want %d", q.Len(), len(m.waiting))
				}
				var want *Task
				wake := mono.Never
				if len(m.waiting) > 0 {
					want = slices.MinFunc(m.waiting, oldest)
				}
				for _, task := range m.waiting {
					wake = min(wake, task.lost())
				}
				if q.Oldest() != want || q.NextWake() != wake {
					t.Fatalf("oldest %v, wake %v; want %v, %v", q.Oldest(), q.NextWake(), want, wake)
				}
				checkShape(t, q)
			},
			"push": func(t *rapid.T) {
				task := wildTask().Draw(t, "task")
				all = append(all, task)
				m.waiting = append(m.waiting, task)
				q.Push(now, task)
			},
			"again": func(t *rapid.T) {
				if len(all) == 0 {
					t.SkipNow()
				}
				task := some(all, "again")
				if !task.Waiting() {
					m.waiting = append(m.waiting, task)
				}
				q.Push(now, task)
			},
			"remove": func(t *rapid.T) {
				if len(all) == 0 {
					t.SkipNow()
				}
				task := some(all, "gone")
				if want := m.remove(task); q.Remove(task) != want {
					t.Fatalf("remove is not %v", want)
				}
			},
			"next": func(t *rapid.T) {
				peeked, would := q.Peek(now)
				task, run := q.Next(now)
				if task != peeked || run != would {
					t.Fatalf("Next returned %p, %v; Peek %p, %v", task, run, peeked, would)
				}
				if task == nil {
					if len(m.waiting) > 0 {
						t.Fatalf("nothing runs and %d wait", len(m.waiting))
					}
					return
				}
				came(task, run)
			},
			"expired": func(t *rapid.T) {
				if task := q.Expired(now); task != nil {
					came(task, false)
				}
			},
			"charge": func(t *rapid.T) {
				if len(all) > 0 {
					q.Charge(some(all, "charged"), wild().Draw(t, "used"))
				}
			},
			"settle": func(t *rapid.T) {
				if len(all) > 0 {
					q.Settle(some(all, "settled"), wild().Draw(t, "used"))
				}
			},
			"inherit": func(t *rapid.T) {
				if len(all) == 0 {
					t.SkipNow()
				}
				holder, waiter := some(all, "holder"), some(all, "waiter")
				before := m.rank(holder)
				m.lent[holder] = append(m.lent[holder], m.rank(waiter))
				after := m.rank(holder)
				want := after.class != before.class || after.compare(before) != 0
				if q.Inherit(holder, waiter) != want {
					t.Fatalf("inherit is not %v: from %v to %v", want, before, after)
				}
				if !want {
					m.lent[holder] = m.lent[holder][:len(m.lent[holder])-1]
				}
			},
			"release": func(t *rapid.T) {
				if len(all) == 0 {
					t.SkipNow()
				}
				holder := some(all, "holder")
				if got, want := q.Release(holder), len(m.lent[holder]) > 0; got != want {
					t.Fatalf("release is %v, want %v", got, want)
				}
				delete(m.lent, holder)
			},
			"weight": func(t *rapid.T) {
				w := rapid.SampledFrom([]float64{0, MinWeight, 0.3, 1, MaxWeight, math.NaN()}).Draw(t, "weight")
				q.SetWeight(work.Class(rapid.IntRange(0, 3).Draw(t, "class")), w)
				q.SetShare(rapid.IntRange(-1, 5).Draw(t, "workflow"), w)
			},
			"time": func(t *rapid.T) {
				now = min(now.Add(time.Duration(rapid.Int64Range(0, 30).Draw(t, "dt"))*ms), mono.Never-1)
			},
		})
	})
}

// checkShape checks what holds inside a queue.
func checkShape(t *rapid.T, q *Queue) {
	leaves := []*node{}
	for class := range q.classes {
		if !q.cfg.Fair {
			leaves = append(leaves, &q.classes[class])
		}
		for _, f := range q.flows[class] {
			if f != nil {
				leaves = append(leaves, f)
			}
		}
	}
	total := 0
	for _, n := range leaves {
		count := 0
		for task := n.ages.head; task != nil; task = task.links[ofLeaf].next {
			if after := task.links[ofLeaf].next; after != nil && !task.older(after) || task.leaf != n {
				t.Fatal("the line is out of order")
			}
			count++
		}
		for i, e := range n.order.entries {
			if e.task.places[byOrder] != i || i > 0 && e.before(&n.order.entries[(i-1)/4]) {
				t.Fatal("the heap is no heap")
			}
		}
		heaped := count
		if q.lineOnly() {
			heaped = 0
		}
		if heaped != len(n.order.entries)+len(n.later.entries) || (count > 0) != (n.next != nil) {
			t.Fatalf("%d in line, %d in the heap, in the ring %v", count, len(n.order.entries), n.next != nil)
		}
		total += count
	}
	if total != q.len {
		t.Fatalf("%d in leaves, %d waiting", total, q.len)
	}
	parents := []*node{&q.root}
	for class := range q.classes {
		parents = append(parents, &q.classes[class])
	}
	for _, n := range append(parents, leaves...) {
		ring := 0
		for c := n.turn; c != nil && (ring == 0 || c != n.turn); c = c.next {
			ring++
			if c.parent != n || c.next.prev != c {
				t.Fatal("the ring is broken")
			}
		}
		if ring != n.children {
			t.Fatalf("%d in the ring, %d counted", ring, n.children)
		}
		if n.parent != nil && n.left().Abs() > 65536*n.quantum {
			t.Fatalf("deficit %v with a quantum of %v", n.left(), n.quantum)
		}
	}
}
