package admission

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// bench is a gate in front of something that serves each request by itself for a time.
type bench struct {
	gate    *Gate
	now     mono.Time
	rng     *rand.Rand
	serves  time.Duration // the mean, exponential
	rate    float64       // arrivals per second
	arrival mono.Time     // the next
	inside  []*benched
	shed    int
	held    time.Duration // for which the gate kept victims

	late     func(*benched) bool // counted in tardy when it leaves
	tardy    int
	setAside int
}

type benched struct {
	ticket Ticket
	ends   mono.Time
}

const (
	benchObjective = 100 * time.Millisecond
	benchStep      = time.Millisecond / 4
)

func newBench(t *testing.T, seed uint64) *bench {
	t.Helper()
	g, err := New(Config{Objective: benchObjective, Hold: 3 * benchObjective})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{gate: g, rng: rand.New(rand.NewPCG(seed, 1)), serves: 4 * time.Millisecond, rate: 1000}
}

// run goes on for a time. each, if not nil, is called every half objective.
func (b *bench) run(length time.Duration, each func()) {
	for end := b.now.Add(length); b.now < end; b.now = b.now.Add(benchStep) {
		if each != nil && b.now%mono.Time(benchObjective/2) < mono.Time(benchStep) {
			each()
		}
		b.leave()
		for ; b.arrival <= b.now; b.arrival = b.arrival.Add(time.Duration(b.rng.ExpFloat64() / b.rate * float64(time.Second))) {
			v := &benched{}
			v.ticket.Arrived, v.ticket.Deadline, v.ticket.Owner = b.now, mono.Never, v
			b.verdict(v, b.gate.Arrive(b.now, &v.ticket))
			if v.ticket.aside != nil {
				b.setAside++
			}
		}
		if b.gate.NextWake() <= b.now {
			b.gate.OnWake(b.now)
		}
		for t, verdict := b.gate.Next(b.now); t != nil; t, verdict = b.gate.Next(b.now) {
			b.verdict(t.Owner.(*benched), verdict)
		}
		if b.gate.Holding(b.now) {
			b.held += benchStep
		}
	}
}

func (b *bench) leave() {
	kept := b.inside[:0]
	for _, v := range b.inside {
		if v.ends > b.now {
			kept = append(kept, v)
			continue
		}
		if b.late != nil && b.late(v) {
			b.tardy++
		}
		b.gate.Leave(b.now, &v.ticket, work.Done)
	}
	b.inside = kept
}

func (b *bench) verdict(v *benched, verdict Verdict) {
	switch verdict {
	case Run:
		v.ends = b.now.Add(time.Duration(b.rng.ExpFloat64() * float64(b.serves)))
		b.inside = append(b.inside, v)
	case Shed:
		b.shed++
	}
}

// A service that has become slow for all goes on to end: the doubt that this began is over soon,
// and comes back seldom. It may take a tenth of the time, and takes less.
func TestDoubtEnds(t *testing.T) {
	for seed := range uint64(4) {
		b := newBench(t, seed)
		b.run(2*time.Second, nil)
		b.held, b.serves = 0, 20*b.serves
		b.run(2*time.Second, nil)
		if b.held > 2*benchObjective || b.shed == 0 {
			t.Errorf("seed %d: victims were kept for %v, %d shed; expected at most %v of %v, and some shed", seed, b.held, b.shed, 2*benchObjective, 2*time.Second)
		}
	}
}

// A suspicion opens the hold where far fewer requests end than usual.
func TestSuspicionOpens(t *testing.T) {
	kept, shed := 0, 0
	for seed := range uint64(4) {
		for _, suspects := range []bool{true, false} {
			b := newBench(t, seed)
			suspect := func() {
				if suspects {
					b.gate.OnCulprit(b.now, false)
				}
			}
			b.run(2*time.Second, suspect)
			b.held, b.shed, b.serves = 0, 0, 40*b.serves
			b.run(5*benchObjective, suspect) // patience without a suspicion is over
			switch {
			case !suspects:
				shed += b.shed
			case b.held == 0:
				t.Errorf("seed %d: no victim was kept", seed)
			default:
				kept += b.shed
			}
		}
	}
	if shed == 0 || kept > shed/4 {
		t.Errorf("%d shed with a suspicion, %d without one; expected a quarter of that at most", kept, shed)
	}
}

// In an overload as many end as always, so nobody is kept, whatever is suspected.
func TestSuspicionInOverload(t *testing.T) {
	for seed := range uint64(2) {
		b := newBench(t, seed)
		suspect := func() { b.gate.OnCulprit(b.now, false) }
		b.run(2*time.Second, suspect)
		b.held, b.rate = 0, 30*b.rate
		b.run(time.Second/2, suspect)
		if b.held > 0 || b.shed == 0 {
			t.Errorf("seed %d: kept for %v, %d shed; expected never kept, and some shed", seed, b.held, b.shed)
		}
	}
}

// Once a culprit was cancelled its victims are kept while far fewer end than usual: what it took comes back. Where as many
// end as usual, and more come than that, they are not kept for long.
func TestVictimsAreKeptWhileItRecovers(t *testing.T) {
	for seed := range uint64(4) {
		for _, overloaded := range []bool{false, true} {
			b := newBench(t, seed)
			b.run(2*time.Second, nil)
			b.serves = time.Hour // behind the culprit
			b.run(benchObjective, nil)
			b.gate.OnCulprit(b.now, true)
			b.run(benchObjective/2, nil)
			b.held, b.shed, b.serves = 0, 0, 80*time.Millisecond
			if overloaded {
				b.serves, b.rate = 4*time.Millisecond, 30*b.rate
			}
			for _, v := range b.inside { // it has let go
				v.ends = b.now.Add(time.Duration(b.rng.ExpFloat64() * float64(b.serves)))
			}
			b.run(5*benchObjective, nil)
			if !overloaded {
				b.serves = 4 * time.Millisecond // as before
			}
			b.run(4*benchObjective, nil)
			if kept := b.held >= 5*benchObjective && b.shed == 0; kept == overloaded {
				t.Errorf("seed %d, overloaded %v: kept for %v, %d shed", seed, overloaded, b.held, b.shed)
			}
		}
	}
}
