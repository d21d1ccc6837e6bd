package cost

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// scale times decisions of one gate on one processor and on two, with about a microsecond of work to each,
// which two processors do in half the time.
type scale struct {
	calls []func() error // of two clients of one gate
	// What a request took, in ns, by round: at the gate, by one goroutine and by two; and without the gate, by
	// one, and by two right before and right after those at the gate.
	one, two             []float64
	alone, before, after []float64
	// The same at the gate without any work, so that the goroutines do nothing but wait for its lock.
	bareOne, bareTwo []float64
}

const (
	// scaleBatch requests take about a millisecond: two processors are often left alone for so long.
	scaleBatch = 500
	scaleWork  = 1_000 // steps of a nanosecond
	// bareBatch requests without work take about as long.
	bareBatch = 2_000
	// leftAlone is the gain by a second processor without a gate from which on a round counts. If fewer than half
	// of the rounds do, others use the machine, and a goroutine that sleeps for the lock may wait for a processor
	// for milliseconds: the rounds that count by chance then say nothing either.
	leftAlone = 1.9
)

// round times a batch of each.
func (s *scale) round() error {
	if runtime.GOMAXPROCS(0) < 2 {
		return nil
	}
	for range 5 {
		for _, k := range []struct {
			to        *[]float64
			processes int
			gated     bool
			work      int
		}{{&s.alone, 1, false, scaleWork}, {&s.one, 1, true, scaleWork}, {&s.bareOne, 1, true, 0}, {&s.before, 2, false, scaleWork},
			{&s.two, 2, true, scaleWork}, {&s.bareTwo, 2, true, 0}, {&s.after, 2, false, scaleWork}} {
			each, err := s.batch(k.processes, k.gated, k.work)
			if err != nil {
				return err
			}
			*k.to = append(*k.to, each)
		}
	}
	return nil
}

// batch returns what a request took of the time, of so many goroutines at once, with work of so many steps.
func (s *scale) batch(goroutines int, gated bool, work int) (each float64, err error) {
	size := scaleBatch
	if work == 0 {
		size = bareBatch
	}
	var all, ready sync.WaitGroup
	failed := make(chan error, goroutines)
	start := make(chan struct{})
	for i := range goroutines {
		call := func() error { return nil }
		if gated {
			call = s.calls[i]
		}
		ready.Add(1)
		all.Go(func() {
			ready.Done()
			<-start
			for range size {
				if err := call(); err != nil {
					failed <- err
					return
				}
				if spin(work) == 0 {
					panic("cost: not reached, so that the work is not left out")
				}
			}
		})
	}
	ready.Wait()
	began := time.Now()
	close(start)
	all.Wait()
	each = float64(time.Since(began)) / float64(goroutines*size)
	select {
	case err = <-failed:
	default:
	}
	return each, err
}

// spin takes about so many nanoseconds, and returns an odd number.
func spin(n int) uint32 {
	x := uint32(1)
	for range n {
		x = x*1664525 + 1013904222
	}
	return x
}

// judge states the bars, of the rounds in which nobody else used the processors.
func (s *scale) judge(r *experiment.Result) {
	if len(s.one) == 0 {
		return // there is one processor
	}
	var counts []int // rounds
	for i := range s.one {
		if s.alone[i]/max(s.before[i], s.after[i]) >= leftAlone {
			counts = append(counts, i)
		}
	}
	rounds := fmt.Sprintf("%d of %d", len(counts), len(s.one))
	var machine experiment.Machine
	if n := len(counts); 2*n < len(s.one) {
		machine.Ours = []string{fmt.Sprintf("both processors were left alone, so that they did %.1f times as much work as one, in %d of %d rounds; half of them are needed",
			leftAlone, n, len(s.one))}
		counts = counts[:0]
		for i := range s.one {
			counts = append(counts, i)
		}
	}
	r.On(machine, func() {
		r.Floor("throughput of decisions, with 1 µs of work each, on two processors beside one", "", 1.6, 0.05, median(gains(s.one, s.two, counts)))
		r.Floor("throughput of decisions, without any work, on two processors beside one", "", 1, 0.05, median(gains(s.bareOne, s.bareTwo, counts)))
	})
	t := &table.Table{Title: "Processors", Columns: []table.Column{{Name: "a decision and"}, {Name: "one", Unit: "ns", Format: "%.0f"},
		{Name: "two", Unit: "ns", Format: "%.0f"}, {Name: "gain", Format: "%.2f"}, {Name: "rounds"}, {Name: "bar"}}}
	add := func(what string, one, two []float64, bar string) {
		t.Add(what, median(pick(one, counts)), median(pick(two, counts)), median(gains(one, two, counts)), rounds, bar)
	}
	add("1 µs of work", s.one, s.two, "≥ 1.6")
	add("no work", s.bareOne, s.bareTwo, "≥ 1")
	r.Table = append(r.Table, t, s.model(counts))
}

// model says how many processors one gate is enough for: those whose requests follow each other at its lock
// without a pause. Without any work two processors do nothing else, so what a request takes there is for how
// long the lock is held for it, and for the next processor to get it. With more processors the lock is no
// faster, so this is a bound, and no measurement.
func (s *scale) model(rounds []int) *table.Table {
	one, two := median(pick(s.bareOne, rounds)), median(pick(s.bareTwo, rounds))
	t := &table.Table{Title: "Model: processors that one gate is enough for", Columns: []table.Column{{Name: "work of a request", Unit: "µs", Format: "%.0f"},
		{Name: "processors", Format: "%.0f"}, {Name: "decisions in a microsecond", Format: "%.1f"}}}
	for _, us := range []float64{1, 10, 100} {
		t.Add(us, (1000*us+one)/two, 1000/two)
	}
	return t
}

// pick returns those of a list that belong to some rounds.
func pick(list []float64, rounds []int) (of []float64) {
	for _, i := range rounds {
		of = append(of, list[i])
	}
	return of
}

// gains returns by how much two processors do more than one, in some rounds.
func gains(one, two []float64, rounds []int) (list []float64) {
	for _, i := range rounds {
		list = append(list, one[i]/two[i])
	}
	return list
}
