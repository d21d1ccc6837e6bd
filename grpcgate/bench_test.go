package grpcgate

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/admission"
	"github.com/spillgate/spillgate/wire"
)

// batch is how many calls of one kind run before the other kind's turn: long
// enough to time, short enough that both meet the same machine.
const batch = 256

// contest times two kinds of calls in turn, eight at once, and reports the
// first in ns a call and the second as a ratio to it.
func contest(b *testing.B, plain, other func() error) {
	b.Helper()
	var spent [2]time.Duration
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
			before, start := m.Mallocs, time.Now()
			run(kind, batch)
			spent[kind] += time.Since(start)
			runtime.ReadMemStats(&m)
			allocs[kind] += m.Mallocs - before
		}
		n += batch
	}
	b.ReportMetric(float64(spent[0])/float64(n), "plain-ns/call")
	b.ReportMetric(float64(spent[1])/float64(n), "other-ns/call")
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
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

// TestMemoryPerClient measures what an account costs the server: 10,000 clients
// that obey credits against as many that do not, connections not counted. It
// prints both and fails beyond the bar of 1 KiB a client.
func TestMemoryPerClient(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 connections")
	}
	if raceEnabled {
		t.Skip("the race detector's own memory would be measured")
	}
	const clients, controlled = 10_000, 1024
	gate := newGate(t, admission.Config{})
	s := &server{gate: gate, o: serverOptions{exempt: newExemptions(), counters: new(Counters), controlLimit: controlled}}
	used := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse + m.StackInuse)
	}
	conns := make([]*connection, clients)
	for i := range conns { // exists for plain clients too
		conns[i] = &connection{server: s}
	}
	before := used()
	for _, c := range conns {
		c.open()
	}
	accounts := (used() - before) / clients
	st := gate.Stats()
	if st.Clients != clients {
		t.Fatalf("%d accounts, expected %d", st.Clients, clients)
	}
	t.Logf("account: %.0f B a client", accounts)
	for _, c := range conns {
		c.end()
	}

	// The control streams of those that have one, measured over real
	// connections, of which the server's half is what counts: an idle stream
	// here holds both halves.
	real := serve(t, newGate(t, admission.Config{}), &echo{}, nil)
	var open []*grpc.ClientConn
	const sample = 256
	for range sample {
		conn := dial(t, real.addr)
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	before = used()
	for _, conn := range open {
		ss, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, controlMethod)
		if err != nil {
			t.Fatal(err)
		}
		if err := ss.SendMsg(demandMessage(1)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all streams open", func() bool { return real.gate.Stats().Clients == sample })
	streams := (used() - before) / sample
	t.Logf("control stream: %.0f B, client and server half together", streams)
	all := accounts + streams*controlled/clients
	t.Logf("with %d control streams among %d clients: at most %.0f B a client", controlled, clients, math.Ceil(all))
	if all > 1024 {
		t.Errorf("%.0f B a client, the bar is 1 KiB", all)
	}
}
