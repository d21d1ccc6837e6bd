package schedule

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// ofKind is a task of a sender that holds the resource for as long as the group says.
func ofKind(sender uint64, group int) *Task {
	length := time.Duration(1<<(2*max(group, 0))) * ms
	return &Task{Sender: sender, Deadline: mono.Never, Cost: 34 * ms, Kind: Kind{Group: group, Length: length}}
}

// serveFor serves tasks for so long, one after the other, and has another one like it wait for each that is served. It returns
// for how long each group had the resource, and each sender, and how many tasks of each sender were served.
func serveFor(t *testing.T, q *Queue, span time.Duration) (had map[int]time.Duration, own map[uint64]time.Duration, served map[uint64]int) {
	t.Helper()
	had, own, served = map[int]time.Duration{}, map[uint64]time.Duration{}, map[uint64]int{}
	now, mean := mono.Time(1), 34*ms
	for now < mono.Time(span) {
		task, run := q.Next(now)
		if task == nil || !run {
			t.Fatalf("the resource is idle at %v with %d waiting", now, q.Len())
		}
		now = now.Add(task.Kind.Length)
		had[task.Kind.Group] += task.Kind.Length
		own[task.Sender] += task.Kind.Length
		served[task.Sender]++
		q.Settle(task, task.Kind.Length)
		mean += (task.Kind.Length - mean) / 64
		again := *ofKind(task.Sender, task.Kind.Group)
		again.Arrived, again.Cost = now, mean
		q.Push(now, &again)
	}
	return had, own, served
}

// A group of longer tasks has no more than an equal part of the resource's time, and what it would have in the order of arrival
// where that is less: with as many tasks of each group waiting, and with few of the longer one.
func TestLongerKindsHaveNoMoreThanAnEqualPart(t *testing.T) {
	for _, senders := range []uint64{1, 10} {
		for _, c := range []struct {
			short, long int
			least, most float64
		}{{20, 20, 0.45, 0.55}, {40, 10, 0.45, 0.55}, {400, 10, 0.25, 0.35}, {0, 10, 1, 1}} {
			q := byTurns(t, func(c *Config) { c.Senders = 1024 })
			for i := range max(c.short, c.long) {
				if i < c.short {
					q.Push(1, ofKind(1+uint64(i)%senders, 1))
				}
				if i < c.long {
					q.Push(1, ofKind(1+uint64(i)%senders, 3))
				}
			}
			had, _, _ := serveFor(t, q, 200*time.Second)
			if part := float64(had[3]) / float64(had[1]+had[3]); part < c.least || part > c.most {
				t.Errorf("%d senders, %d short and %d long: the long ones have %.2f of the time, want %.2f to %.2f", senders, c.short, c.long, part, c.least, c.most)
			}
		}
	}
}

// One that asks in many ways has no more than each of the others, whatever they ask for: as many turns, or as much time.
func TestManyWaysAreNoMoreTurns(t *testing.T) {
	for others := 1; others <= 4; others++ {
		q := byTurns(t, nil)
		for range 25 {
			for group := 1; group <= 4; group++ {
				q.Push(1, ofKind(7, group))
			}
		}
		for sender := range uint64(5) {
			q.Push(1, ofKind(100+sender, others))
		}
		_, own, served := serveFor(t, q, 400*time.Second)
		for sender := range uint64(5) {
			turns, time := float64(served[100+sender])/float64(served[7]), float64(own[100+sender])/float64(own[7])
			if turns < 0.8 && time < 0.8 {
				t.Errorf("kind %d: one that waits once has %.2f of the turns and %.2f of the time of the one that asks in many ways", others, turns, time)
			}
		}
	}
}

// Tasks of an unknown kind are in the order of arrival, whatever else waits.
func TestUnknownKindsAreNotPutBehind(t *testing.T) {
	q := byTurns(t, func(c *Config) { c.Senders = 0 })
	for i := range 200 {
		task := ofKind(0, i%4)
		task.Arrived = mono.Time(1 + i)
		q.Push(mono.Time(200), task)
	}
	before := 0 // tasks of known kinds that came later and were served earlier, for each of an unknown one
	late := mono.Time(0)
	for task, _ := q.Next(200); task != nil; task, _ = q.Next(200) {
		if task.Kind.Group == 0 && task.Arrived < late {
			before++
		}
		late = max(late, task.Arrived)
		q.Settle(task, task.Kind.Length)
	}
	if before > 0 {
		t.Errorf("%d of an unknown kind were overtaken", before)
	}
}

// Whatever is pushed, removed and served, of any kind, each task comes out once, where senders take no turns in the order of its
// group, and the queue is never idle.
func TestKindsLoseNothing(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		q := byTurns(t, func(c *Config) { c.Senders = int(seed%2) * 16 })
		in, last := map[*Task]bool{}, map[[2]uint64]uint64{}
		for step := range 2000 {
			now := mono.Time(step + 1)
			switch {
			case rnd.IntN(2) == 0:
				task := ofKind(uint64(rnd.IntN(4)), rnd.IntN(1+rnd.IntN(MaxGroup+3))-1)
				q.Push(now, task)
				in[task] = true
			case len(in) > 0 && rnd.IntN(8) == 0:
				for task := range in {
					q.Remove(task)
					delete(in, task)
					break
				}
			default:
				peeked, _ := q.Peek(now)
				task, run := q.Next(now)
				if (task == nil) != (len(in) == 0) || task != peeked || task != nil && !(run && in[task]) {
					t.Fatalf("seed %d: %v came out, %v was to be next, %d wait", seed, task, peeked, len(in))
				}
				if task == nil {
					continue
				}
				line := [2]uint64{task.Sender, uint64(task.group)}
				if seed%2 == 0 && task.seq < last[line] {
					t.Fatalf("seed %d: one of sender %d and group %d came out before an earlier one", seed, task.Sender, task.group)
				}
				last[line] = task.seq
				delete(in, task)
				if rnd.IntN(2) == 0 {
					q.Settle(task, ms)
				}
			}
			if q.Len() != len(in) {
				t.Fatalf("seed %d: %d wait, want %d", seed, q.Len(), len(in))
			}
			for _, k := range []Kind{{}, {1, ms}, {3, 9 * ms}, {MaxGroup, time.Hour}} {
				if n := q.Ahead(0, 0, 0, uint64(rnd.IntN(4)), k); n < 0 {
					t.Fatalf("seed %d: %d are ahead", seed, n)
				}
			}
		}
	}
}

// A short request waits for no more of the long ones than have their part meanwhile, though twenty of them wait; a long one waits
// for all that are there.
func TestAheadKnowsKinds(t *testing.T) {
	q := byTurns(t, func(c *Config) { c.Senders = 0 })
	for range 20 {
		q.Push(1, ofKind(0, 3))
	}
	if got := q.Ahead(0, 0, 0, 0, Kind{Group: 1, Length: 4 * ms}); got > 1 {
		t.Errorf("%d are ahead of the first short one, want at most 1", got)
	}
	if got := q.Ahead(0, 0, 0, 0, Kind{Group: 3, Length: 64 * ms}); got != 20 {
		t.Errorf("%d are ahead of another long one, want 20", got)
	}
	for range 20 {
		q.Push(1, ofKind(0, 1))
	}
	mean := float64(20*64+20*4) / 40
	if got := float64(q.Ahead(0, 0, 0, 0, Kind{Group: 1, Length: 4 * ms})) * mean; got < 2*80 || got > 3*80 {
		t.Errorf("%.0f ms are ahead of another short one, want 20 of 4 ms and as much of the long ones", got)
	}
	if got := float64(q.Ahead(0, 0, 0, 0, Kind{Group: 3, Length: 64 * ms})) * mean; got < 2*1280 || got > 2.2*1280 {
		t.Errorf("%.0f ms are ahead of another long one, want 20 of 64 ms and as much of the short ones", got)
	}
}
