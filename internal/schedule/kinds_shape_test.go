package schedule

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Whatever waiters lend, whoever ages, expires or gives up, in whatever class and workflow: each task is in the line of its group, and
// counted there and among the turns.
func TestKindsKeepTheirShape(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		q := byTurns(t, func(c *Config) {
			c.Senders, c.Fair, c.Workflows = int(seed%2)*16, seed%4 < 2, 3
			c.Aging = []time.Duration{20 * ms, time.Hour}[rnd.IntN(2)]
		})
		var all []*Task
		now := mono.Time(1)
		for range 1000 {
			some := func() *Task { return all[rnd.IntN(len(all))] }
			switch op := rnd.IntN(16); {
			case op < 6 || len(all) == 0:
				task := ofKind(uint64(rnd.IntN(4)), rnd.IntN(4))
				task.Class, task.Workflow, task.Priority = work.Class(rnd.IntN(2)), rnd.IntN(3), work.Priority(rnd.IntN(8)/7)
				if rnd.IntN(4) == 0 {
					task.Deadline = now.Add(time.Duration(rnd.IntN(50)) * ms)
				}
				all = append(all, task)
				q.Push(now, task)
			case op == 6:
				q.Remove(some())
			case op == 7:
				q.Inherit(some(), some())
			case op == 8:
				q.Release(some())
			case op == 9:
				if task := some(); !task.Waiting() {
					task.Arrived = now
					q.Push(now, task)
				}
			case op == 10:
				q.Settle(some(), time.Duration(rnd.IntN(100))*ms)
			default:
				peeked, would := q.Peek(now)
				if task, run := q.Next(now); task != peeked || run != would || task == nil && q.Len() > 0 {
					t.Fatalf("seed %d: Next returned %p, %v; Peek %p, %v; %d wait", seed, task, run, peeked, would, q.Len())
				}
			}
			now = now.Add(time.Duration(rnd.IntN(3)) * ms)
			for class := range q.classes {
				checkKinds(t, q, &q.classes[class])
				for _, f := range q.flows[class] {
					if f != nil {
						checkKinds(t, q, f)
					}
				}
			}
		}
	}
}

// checkKinds checks what a leaf knows of kinds, and of turns.
func checkKinds(t *testing.T, q *Queue, n *node) {
	t.Helper()
	var waiting [MaxGroup + 1]int
	var length [MaxGroup + 1]time.Duration
	all := 0
	for task := n.ages.head; task != nil; task = task.links[ofLeaf].next {
		waiting[task.group]++
		length[task.group] += task.length
		all++
		if at := task.places[byOrder]; q.lineOnly() != (at == nowhere) || at != nowhere && n.lineOf(task).entries[at].task != task {
			t.Fatalf("a task is at %d, or another one is", at)
		}
		if !n.several && task.group != n.group {
			t.Fatalf("a task of group %d waits where all are of group %d", task.group, n.group)
		}
	}
	if n.rota != nil {
		steps := n.rota.due
		for _, s := range n.rota.steps {
			steps += int(s)
		}
		if steps != all {
			t.Fatalf("%d have turns, %d wait", steps, all)
		}
	}
	if !n.several {
		return
	}
	for g := range n.kinds.lines {
		l := &n.kinds.lines[g]
		if len(l.order.entries) != waiting[g] || l.waiting != waiting[g] || l.time != length[g] || len(n.order.entries) > 0 {
			t.Fatalf("of group %d %d wait for %v; %d are in its line, counted are %d for %v", g, waiting[g], length[g], len(l.order.entries), l.waiting, l.time)
		}
		for i, e := range l.order.entries {
			if i > 0 && e.before(&l.order.entries[(i-1)/4]) {
				t.Fatal("the heap is no heap")
			}
		}
	}
}
