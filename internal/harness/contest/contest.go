// Package contest measures two kinds of calls beside each other, in benchmarks.
//
//	plain × batch ─▶ other × batch ─▶ plain × batch ─▶ …     time, processor time and memory of each
//
// Invariants: both kinds take turns that are short enough that both meet the same machine, and what is reported is
// of one of them, or a ratio.
//
// What this package does not do: it says nothing of which of two sides of a call takes what it takes.
package contest

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
)

const (
	// batch is how many calls of one kind run before the other kind's turn: long enough to time.
	batch = 256
	// atOnce is how many calls are in flight.
	atOnce = 8
)

// kind is what one kind of calls took.
type kind struct {
	call          func() error
	spent, used   time.Duration // used of processors, which a busy machine hardly changes
	allocs, bytes uint64
}

// run makes a batch of calls.
func (k *kind) run(b *testing.B) {
	b.Helper()
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for range batch / atOnce {
				if err := k.call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// turn is run, measured.
func (k *kind) turn(b *testing.B) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, own := time.Now(), machine.Own()
	k.run(b)
	k.spent += time.Since(start)
	k.used += machine.Own() - own
	runtime.ReadMemStats(&after)
	k.allocs += after.Mallocs - before.Mallocs
	k.bytes += after.TotalAlloc - before.TotalAlloc
}

// Run times two kinds of calls in turn, eight at once, and reports what one of each takes: both sides of it, as far
// as both are in this process.
func Run(b *testing.B, plain, other func() error) {
	b.Helper()
	kinds := [2]kind{{call: plain}, {call: other}}
	for i := range kinds {
		kinds[i].run(b)
	}
	n := 0
	for b.Loop() {
		for i := range kinds {
			kinds[i].turn(b)
		}
		n += batch
	}
	for i, name := range [...]string{"plain", "other"} {
		k := &kinds[i]
		b.ReportMetric(float64(k.spent)/float64(n), name+"-ns/call")
		b.ReportMetric(float64(k.allocs)/float64(n), name+"-allocs/call")
		b.ReportMetric(float64(k.bytes)/float64(n), name+"-B/call")
	}
	b.ReportMetric(float64(kinds[1].spent)/float64(kinds[0].spent), "ratio")
	b.ReportMetric(float64(kinds[1].used)/float64(kinds[0].used), "cpu-ratio")
	b.ReportMetric(0, "ns/op")
}
