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
}

const (
	// scaleBatch requests take about a millisecond: two processors are often left alone for so long.
	scaleBatch = 500
	scaleWork  = 1_000 // steps of a nanosecond
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
		}{{&s.alone, 1, false}, {&s.one, 1, true}, {&s.before, 2, false}, {&s.two, 2, true}, {&s.after, 2, false}} {
			each, err := s.batch(k.processes, k.gated)
			if err != nil {
				return err
			}
			*k.to = append(*k.to, each)
		}
	}
	return nil
}

// batch returns what a request took of the time, of so many goroutines at once.
func (s *scale) batch(goroutines int, gated bool) (each float64, err error) {
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
			for range scaleBatch {
				if err := call(); err != nil {
					failed <- err
					return
				}
				if spin(scaleWork) == 0 {
					panic("cost: not reached, so that the work is not left out")
				}
			}
		})
	}
	ready.Wait()
	began := time.Now()
	close(start)
	all.Wait()
	each = float64(time.Since(began)) / float64(goroutines*scaleBatch)
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

// judge states the bar, of the rounds in which nobody else used the processors.
func (s *scale) judge(r *experiment.Result) {
	if len(s.one) == 0 {
		return // there is one processor
	}
	var gains, one, two []float64
	take := func(all bool) {
		gains, one, two = nil, nil, nil
		for i := range s.one {
			if all || s.alone[i]/max(s.before[i], s.after[i]) >= leftAlone {
				gains, one, two = append(gains, s.one[i]/s.two[i]), append(one, s.one[i]), append(two, s.two[i])
			}
		}
	}
	take(false)
	var machine experiment.Machine
	if n := len(gains); 2*n < len(s.one) {
		machine.Ours = []string{fmt.Sprintf("both processors were left alone, so that they did %.1f times as much work as one, in %d of %d rounds; half of them are needed",
			leftAlone, n, len(s.one))}
		take(true)
	}
	r.On(machine, func() {
		r.Floor("throughput of decisions, with 1 µs of work each, on two processors beside one", "", 1.6, 0.05, median(gains))
	})
	t := &table.Table{Title: "Processors: a decision and 1 µs of work", Columns: []table.Column{{Name: "one", Unit: "ns", Format: "%.0f"},
		{Name: "two", Unit: "ns", Format: "%.0f"}, {Name: "gain", Format: "%.2f"}, {Name: "rounds"}, {Name: "bar"}}}
	t.Add(median(one), median(two), median(gains), fmt.Sprintf("%d of %d", len(gains), len(s.one)), "≥ 1.6")
	r.Table = append(r.Table, t)
}
