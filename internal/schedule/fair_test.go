package schedule

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	_ "github.com/spillgate/spillgate/internal/seeded"
	"github.com/spillgate/spillgate/internal/work"
)

// While all workflows have tasks waiting, no two are ever further apart than what
// one may use in a round and the largest task, per share; whatever was estimated.
func TestSharesWithinOneQuantum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "workflows")
		q, err := New(Config{Fair: true, Workflows: n, Quantum: rapid.SampledFrom([]time.Duration{ms / 8, ms, 40 * ms}).Draw(t, "quantum")})
		if err != nil {
			t.Fatal(err)
		}
		const largest = 10 * ms
		shares, used := make([]float64, n), make([]float64, n)
		for w := range n {
			shares[w] = float64(rapid.IntRange(1, 16).Draw(t, "share")) / 4
			q.SetShare(w, shares[w])
			q.Push(1, &Task{Workflow: w, Deadline: mono.Never})
			q.Push(1, &Task{Workflow: w, Deadline: mono.Never})
		}
		estimates, uses := rapid.Int64Range(-1, int64(3*largest)), rapid.Int64Range(0, int64(largest))
		for range rapid.IntRange(1, 300).Draw(t, "tasks") {
			task, _ := q.Next(2)
			use := time.Duration(uses.Draw(t, "use"))
			q.Settle(task, use)
			used[task.Workflow] += float64(use)
			task.Cost = time.Duration(estimates.Draw(t, "estimate"))
			q.Push(2, task)
			for a := range n {
				for b := range n {
					apart := used[a]/shares[a] - used[b]/shares[b]
					if most := float64(q.cfg.Quantum) + float64(largest)/shares[a]; apart > most+1 {
						t.Fatalf("workflow %d of share %v had %v, %d of share %v had %v: %v apart, want at most %v", a, shares[a], time.Duration(used[a]),
							b, shares[b], time.Duration(used[b]), time.Duration(apart), time.Duration(most))
					}
				}
			}
		}
	})
}

// station is a resource of several workers in virtual time.
type station struct {
	q       *Queue
	now     mono.Time
	running []running
	used    map[[2]int]time.Duration
}

type running struct {
	task *Task
	from mono.Time
	end  mono.Time
}

// start lets the next task run for as long as serve says.
func (s *station) start(serve func(*Task) time.Duration) {
	if task, run := s.q.Next(s.now); run {
		s.running = append(s.running, running{task, s.now, s.now.Add(serve(task))})
	}
}

// finish waits for the first to end and returns it.
func (s *station) finish() *Task {
	first := 0
	for i := range s.running {
		if s.running[i].end < s.running[first].end {
			first = i
		}
	}
	r := s.running[first]
	s.running = append(s.running[:first], s.running[first+1:]...)
	s.now = r.end
	s.q.Settle(r.task, r.end.Sub(r.from))
	s.used[[2]int{int(r.task.Class), r.task.Workflow}] += r.end.Sub(r.from)
	return r.task
}

// Eight workers, two classes of 3 to 1, in each workflows with shares of 1, 2 and 4,
// estimates that are wrong by up to ten times: in the long run everybody has his
// part to 2 %.
func TestLongRunShares(t *testing.T) {
	for _, quantum := range []time.Duration{100 * time.Microsecond, ms, 10 * ms} {
		rng := rand.New(rand.NewPCG(1, 2))
		q := mustNew(t, Config{Fair: true, Quantum: quantum})
		q.SetWeight(work.Interactive, 3)
		for w := range 3 {
			q.SetShare(w, float64(int(1)<<w))
		}
		s := &station{q: q, used: map[[2]int]time.Duration{}}
		push := func(class work.Class, workflow int) {
			mean := float64(workflow+1) * float64(ms)
			use := mean * rng.ExpFloat64()
			cost := use * math.Pow(10, 2*rng.Float64()-1)
			q.Push(s.now, &Task{Class: class, Workflow: workflow, Deadline: mono.Never, Cost: time.Duration(cost), Owner: time.Duration(use)})
		}
		serve := func(task *Task) time.Duration { return task.Owner.(time.Duration) }
		for class := range work.NumClasses {
			for w := range 3 {
				for range 30 {
					push(class, w)
				}
			}
		}
		for range 8 {
			s.start(serve)
		}
		var total time.Duration
		for total < 400*time.Second {
			task := s.finish()
			total += task.Owner.(time.Duration)
			push(task.Class, task.Workflow)
			s.start(serve)
		}
		for class := range work.NumClasses {
			for w := range 3 {
				want := []float64{1, 3}[class] / 4 * float64(int(1)<<w) / 7
				got := s.used[[2]int{int(class), w}].Seconds() / total.Seconds()
				if math.Abs(got/want-1) > 0.02 {
					t.Errorf("quantum %v: workflow %d of class %v had %.4f, want %.4f", quantum, w, class, got, want)
				}
			}
		}
	}
}

// A workflow that sends one request after the other, and is therefore never seen
// waiting when its own ends, gets the same as one with a thousand in the queue.
func TestOneAtATimeGetsItsShare(t *testing.T) {
	q := mustNew(t, Config{Fair: true})
	s := &station{q: q, used: map[[2]int]time.Duration{}}
	push := func(workflow int, use time.Duration) {
		q.Push(s.now, &Task{Workflow: workflow, Deadline: mono.Never, Cost: use})
	}
	for range 1000 {
		push(1, 5*ms)
	}
	push(2, 5*ms)
	serve := func(task *Task) time.Duration { return task.Cost }
	s.start(serve)
	thinking := false
	for range 1000 {
		task := s.finish()
		if thinking { // its next request comes a moment after somebody else was started
			push(2, 5*ms)
		}
		thinking = task.Workflow == 2
		if task.Workflow == 1 {
			push(1, 5*ms)
		}
		s.start(serve)
	}
	if a, b := s.used[[2]int{0, 1}], s.used[[2]int{0, 2}]; b < a*49/100 {
		t.Errorf("one at a time had %v, the flood %v", b, a)
	}
}

// A class that was idle while the other used the resource for long has no credit
// for it when it comes, whatever was estimated and however many ran at once.
func TestIdleGainsNoCredit(t *testing.T) {
	for _, estimate := range []time.Duration{0, ms, 10 * ms, 100 * ms} {
		q := mustNew(t, Config{})
		s := &station{q: q, used: map[[2]int]time.Duration{}}
		const use = 10 * ms
		push := func(class work.Class) {
			q.Push(s.now, &Task{Class: class, Deadline: mono.Never, Cost: estimate})
		}
		serve := func(*Task) time.Duration { return use }
		for range 20 {
			push(work.Default)
		}
		for range 4 {
			s.start(serve)
		}
		for range 5000 {
			push(s.finish().Class)
			s.start(serve)
		}
		for range 2000 {
			push(work.Interactive)
		}
		s.used = map[[2]int]time.Duration{}
		for range 400 {
			push(s.finish().Class)
			s.start(serve)
		}
		a, b := s.used[[2]int{0, 0}], s.used[[2]int{1, 0}]
		// Four of the idle time still ran when the other class came, and four may
		// be under way; one of the eight may be estimated wrongly when it counts.
		if apart := (b - a).Abs(); apart > 8*use+estimate+2*ms {
			t.Errorf("estimate %v: default had %v, interactive %v", estimate, a, b)
		}
	}
}

// Who owes and is away is forgiven by the rounds that pass, and only by those; what
// it gets back while it is away is no credit.
func TestAwayIsForgivenByRounds(t *testing.T) {
	for _, c := range []struct {
		name     string
		estimate time.Duration
		settled  time.Duration // before the others are served
		others   int           // tasks of 1 ms of each of the others meanwhile
		final    time.Duration // after
		late     bool          // when it is waiting again
		ahead    int           // of the others, before it is served again
	}{
		{"nothing passed", 10 * ms, 10 * ms, 0, 10 * ms, false, 20},
		{"part of it passed", 10 * ms, 10 * ms, 4, 10 * ms, false, 12},
		{"all of it passed", 10 * ms, 10 * ms, 50, 10 * ms, false, 2},
		{"it cost nothing after all", 10 * ms, 0, 50, 0, false, 2},
		{"which was known after others were served", time.Hour, -1, 50, 0, false, 2},
		{"which was known later still", 10 * ms, -1, 50, 0, true, 2},
		{"which was known at the end, as less than nothing", 10 * ms, -1, 0, math.MinInt64, false, 2},
	} {
		q := mustNew(t, Config{Fair: true})
		push := func(workflow int, cost time.Duration, n int) {
			for range n {
				q.Push(1, &Task{Workflow: workflow, Deadline: mono.Never, Cost: cost})
			}
		}
		serve := func() int {
			task, _ := q.Next(1)
			q.Settle(task, task.Cost)
			return task.Workflow
		}
		push(1, c.estimate, 1)
		debtor, _ := q.Next(1)
		push(2, ms, 200)
		push(3, ms, 200)
		if c.settled >= 0 {
			q.Settle(debtor, c.settled)
		}
		for range 2 * c.others {
			serve()
		}
		if !c.late {
			q.Settle(debtor, c.final)
		}
		push(1, ms, 200)
		q.Settle(debtor, c.final)
		ahead := 0
		for serve() != 1 {
			ahead++
		}
		mine := 0
		for range 30 {
			if serve() == 1 {
				mine++
			}
		}
		if ahead < c.ahead-2 || ahead > c.ahead+2 || mine < 9 || mine > 11 {
			t.Errorf("%s: %d were ahead of it, want about %d; %d of the next 30 were its own, want 10", c.name, ahead, c.ahead, mine)
		}
	}
}

// Coming and going again forgives nothing twice, and neither does using the resource
// oneself; somebody else's use does, while nobody waits for it.
func TestWhatForgives(t *testing.T) {
	q := mustNew(t, Config{Fair: true})
	task := func(workflow int) *Task {
		task := &Task{Workflow: workflow, Deadline: mono.Never, Cost: ms}
		q.Push(1, task)
		return task
	}
	next := func() *Task {
		task, _ := q.Next(1)
		return task
	}
	deficit := func() time.Duration { return q.flows[work.Default][1].left() }
	task(1)
	debtor := next()
	task(2)
	q.Settle(debtor, 101*ms) // while somebody waits
	if got := deficit(); got != -100*ms {
		t.Fatalf("deficit %v after 101 ms of 1", got)
	}
	q.Settle(next(), ms)
	for range 5 {
		task(2)
		q.Settle(next(), ms)
	}
	for range 10 {
		q.Remove(task(1))
	}
	if got := deficit(); got < -96*ms || got > -93*ms {
		t.Errorf("deficit %v after coming and going", got)
	}
	task(1)
	q.Remove(task(2)) // it waited while the other did
	alone := next()   // which needs all the rounds
	if got := deficit(); got < -ms || got > ms {
		t.Errorf("deficit %v of one who waits alone", got)
	}
	task(2)
	q.Charge(alone, 51*ms)
	q.Remove(next())
	before := deficit()
	q.Settle(alone, 81*ms) // nobody waits: free, but no way to pay
	q.Remove(task(1))
	if got := deficit(); got < before || got > before+2*ms {
		t.Errorf("deficit %v after its own use, was %v", got, before)
	}
	task(2)
	long := next()
	q.Settle(long, 21*ms)
	q.Remove(task(1))
	if got := deficit(); got < before+20*ms || got > before+24*ms {
		t.Errorf("deficit %v after 21 ms of another's, was %v", got, before)
	}
}

// So many rounds pass for a tiny share that, in quanta of a large one, they are more
// than there is time.
func TestForgivingDoesNotOverflow(t *testing.T) {
	q := mustNew(t, Config{Fair: true, Quantum: time.Second})
	q.SetShare(1, MaxWeight)
	q.SetShare(2, MinWeight)
	q.Push(1, &Task{Workflow: 1, Deadline: mono.Never, Cost: time.Hour})
	debtor, _ := q.Next(1)
	for range 200 {
		q.Push(1, &Task{Workflow: 2, Deadline: mono.Never, Cost: ms})
		task, _ := q.Next(1)
		q.Settle(task, time.Hour)
	}
	q.Push(1, debtor)
	if got := q.flows[work.Default][1].left(); got != 0 {
		t.Errorf("deficit %v, want 0", got)
	}
}

// Turns go round in the order in which workflows came, whoever drops out.
func TestTurns(t *testing.T) {
	for _, c := range []struct{ pushed, want string }{
		{"aaabbbccc", "abcabcabc"},
		{"aaabccc", "abcacac"},
		{"abbbccc", "abcbcbc"},
		{"aaabbbc", "abcabab"},
		{"aaabbb-ccc", "abcabcabc"},
	} {
		q := mustNew(t, Config{Fair: true})
		got := ""
		next := func() {
			task, _ := q.Next(1)
			q.Settle(task, ms)
			got += task.Owner.(string)
		}
		for _, name := range c.pushed {
			if name == '-' {
				next()
				continue
			}
			q.Push(1, &Task{Workflow: int(name - 'a'), Deadline: mono.Never, Owner: string(name)})
		}
		for q.Len() > 0 {
			next()
		}
		if got != c.want {
			t.Errorf("pushed %s: %s, want %s", c.pushed, got, c.want)
		}
	}
}

// What costs nobody knows what counts as a quantum, also before it is settled.
func TestUnknownCostsTakeTurns(t *testing.T) {
	q := mustNew(t, Config{Fair: true})
	for w := range 2 {
		for range 10 {
			q.Push(1, &Task{Workflow: w, Deadline: mono.Never})
		}
	}
	for i := range 20 {
		if task, _ := q.Next(1); task.Workflow != i%2 {
			t.Fatalf("task %d is of workflow %d", i, task.Workflow)
		}
	}
}

// Who leaves most of every turn unused saves nothing for later.
func TestUnusedTurnsAreLost(t *testing.T) {
	q := mustNew(t, Config{Fair: true, Quantum: ms})
	push := func(workflow int, cost time.Duration) {
		q.Push(1, &Task{Workflow: workflow, Deadline: mono.Never, Cost: cost})
	}
	for range 500 {
		push(1, ms)
	}
	push(2, ms/10)
	for range 200 {
		task, _ := q.Next(1)
		q.Settle(task, task.Cost)
		if task.Workflow == 2 {
			push(2, ms/10)
			if d := q.flows[work.Default][2].left(); d > 0 {
				t.Fatalf("it came back with %v to use", d)
			}
		}
	}
	for range 100 {
		push(2, ms)
	}
	mine := 0
	for range 40 {
		task, _ := q.Next(1)
		q.Settle(task, task.Cost)
		mine += task.Workflow - 1
	}
	if mine < 18 || mine > 22 {
		t.Errorf("%d of 40, want 20", mine)
	}
}

// Looking ahead changes nothing that comes.
func TestPeekChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	peeked, plain := mustNew(t, Config{Fair: true}), mustNew(t, Config{Fair: true})
	for i := range 20_000 {
		now := mono.Time(i)
		if n := rng.IntN(6); n < 3 {
			task := Task{Workflow: rng.IntN(5), Class: work.Class(rng.IntN(2)), Deadline: mono.Never, Cost: time.Duration(rng.IntN(int(10 * ms))), Owner: i}
			other := task
			peeked.Push(now, &task)
			plain.Push(now, &other)
		} else {
			a, _ := peeked.Next(now)
			b, _ := plain.Next(now)
			if (a == nil) != (b == nil) || a != nil && a.Owner != b.Owner {
				t.Fatalf("step %d: %v after looking, %v without", i, a, b)
			}
			if a != nil && rng.IntN(2) == 0 {
				use := time.Duration(rng.IntN(int(20 * ms)))
				peeked.Settle(a, use)
				plain.Settle(b, use)
			}
		}
		peeked.Peek(now)
	}
}
