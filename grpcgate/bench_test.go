package grpcgate

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// batch is how many calls of one kind run before the other kind's turn: long
// enough to time, short enough that both meet the same machine.
const batch = 256

// contest times two kinds of calls in turn, eight at once, and reports the
// first in ns a call and the second as a ratio to it.
func contest(b *testing.B, plain, other func() error) {
	b.Helper()
	var spent, used [2]time.Duration // used of processors, which a busy machine hardly changes
	var allocs [2]uint64
	calls := [2]func() error{plain, other}
	run := func(kind, n int) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range n / 8 {
					if err := calls[kind](); err != nil {
						b.Error(err)
						return
					}
				}
			}()
		}
		wg.Wait()
	}
	run(0, batch)
	run(1, batch)
	var m runtime.MemStats
	n := 0
	for b.Loop() {
		for kind := range 2 {
			runtime.ReadMemStats(&m)
			before, start, own := m.Mallocs, time.Now(), machine.Own()
			run(kind, batch)
			spent[kind] += time.Since(start)
			used[kind] += machine.Own() - own
			runtime.ReadMemStats(&m)
			allocs[kind] += m.Mallocs - before
		}
		n += batch
	}
	b.ReportMetric(float64(spent[0])/float64(n), "plain-ns/call")
	b.ReportMetric(float64(spent[1])/float64(n), "other-ns/call")
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
	b.ReportMetric(float64(used[1])/float64(used[0]), "cpu-ratio")
	b.ReportMetric(float64(allocs[0])/float64(n), "plain-allocs/call")
	b.ReportMetric(float64(allocs[1])/float64(n), "other-allocs/call")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkUnary compares calls of a gated client at a gated server with those
// of a plain client at a plain server: time of server and client together.
func BenchmarkUnary(b *testing.B) {
	plainConn := dial(b, serve(b, nil, &echo{}, nil).addr)
	gatedConn, _ := dialGated(b, serve(b, newGate(b, admission.Config{}), &echo{}, nil).addr, nil)
	ctx := context.Background()
	contest(b,
		func() error { _, err := call1(ctx, plainConn, "x"); return err },
		func() error { _, err := call1(ctx, gatedConn, "x"); return err })
}

// BenchmarkRefusal compares being refused with being served by a plain server.
func BenchmarkRefusal(b *testing.B) {
	plainConn := dial(b, serve(b, nil, &echo{}, nil).addr)
	gate := newGate(b, admission.Config{})
	s := serve(b, gate, &echo{}, nil)
	gate.Drain()
	for _, client := range []string{"plain", "credit"} {
		b.Run(client, func(b *testing.B) {
			conn := dial(b, s.addr)
			ctx := context.Background()
			if client == "credit" {
				ctx = withTags(ctx, wire.Tags{Credits: true})
			}
			contest(b,
				func() error { _, err := call1(context.Background(), plainConn, "x"); return err },
				func() error {
					if _, err := call1(ctx, conn, "x"); err == nil {
						return fmt.Errorf("expected a refusal")
					}
					return nil
				})
		})
	}
}

// BenchmarkRefusalStatus is the part of a refusal that makes its status.
func BenchmarkRefusalStatus(b *testing.B) {
	r := &live.Refusal{Reason: work.Delay, Pushback: 12 * time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		if refusalError(r) == nil {
			b.Fatal("no error")
		}
	}
}
