package fastrpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate"
)

// inFlight calls at once, of body bytes, in rounds of batch: long enough to time, short enough that all
// kinds meet the same machine.
const (
	inFlight = 64
	batch    = 20_000
	body     = 32
)

// kind is one way to call, and what it took.
type kind struct {
	name  string
	call  func() error
	spent time.Duration
	used  time.Duration // of processors, by both sides

	refused atomic.Int64 // calls that were made again
}

// round makes batch calls.
func (k *kind) round(b *testing.B) {
	b.Helper()
	var all sync.WaitGroup
	start, before := time.Now(), processors(b)
	for range inFlight {
		all.Go(func() {
			for range batch / inFlight {
				err := k.call()
				for refusal := (*spillgate.Refusal)(nil); errors.As(err, &refusal); err = k.call() {
					k.refused.Add(1) // on a machine that stands still for long; it costs, and counts
				}
				if err != nil {
					b.Errorf("%s: %v", k.name, err)
					return
				}
			}
		})
	}
	all.Wait()
	k.spent += time.Since(start)
	k.used += processors(b) - before
}

// processors returns the processor time that this process has used.
func processors(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCalls times an echo of 32 bytes, client and server in one process, with 64 calls in flight, in turn: grpc-go's
// unary call, and ours inline and on a goroutine a request, without a gate, with one that
// refuses only, and with credits. It reports thousands of calls a second, how many times as many as grpc-go, and how
// many times grpc-go's processor time a call takes less, which a busy machine hardly changes.
func BenchmarkCalls(b *testing.B) {
	ctx := context.Background()
	call := func(gated, credits bool, method string) func() error {
		var cfg ServerConfig
		if gated {
			cfg.Gate = newGate(b, roomy())
		}
		_, address := serve(b, cfg, echoes)
		m := dial(b, ClientConfig{WithoutCredits: !credits}, address).Method(method)
		in := make([]byte, body)
		buffers := sync.Pool{New: func() any { return new([body]byte) }}
		return func() error {
			out := buffers.Get().(*[body]byte)
			_, err := m.Call(ctx, in, out[:0])
			buffers.Put(out)
			return err
		}
	}
	kinds := []*kind{
		{name: "grpc", call: grpcCall(b)},
		{name: "inline", call: call(false, false, "inline")},
		{name: "inline-gate", call: call(true, false, "inline")},
		{name: "inline-credits", call: call(true, true, "inline")},
		{name: "goroutine", call: call(false, false, "echo")},
		{name: "goroutine-gate", call: call(true, false, "echo")},
		{name: "goroutine-credits", call: call(true, true, "echo")},
	}
	for _, k := range kinds {
		for range 12 { // stacks, buffers and windows grow
			k.round(b)
		}
		k.spent, k.used = 0, 0
	}
	n := 0
	for b.Loop() {
		for _, k := range kinds {
			k.round(b)
		}
		n += batch / inFlight * inFlight
	}
	for _, k := range kinds {
		b.ReportMetric(float64(n)/k.spent.Seconds()/1000, k.name+"-kcalls/s")
		b.ReportMetric(kinds[0].spent.Seconds()/k.spent.Seconds(), k.name+"/grpc")
		b.ReportMetric(kinds[0].used.Seconds()/k.used.Seconds(), k.name+"-cpu/grpc")
		if n := k.refused.Load(); n > 0 {
			b.Logf("%s: %d calls were refused and made again", k.name, n)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// grpcCall returns a unary call of grpc-go to an echo.
func grpcCall(b *testing.B) func() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			return in, decode(in)
		}}},
	}, nil)
	go func() { _ = server.Serve(l) }()
	b.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	in := wrapperspb.Bytes(make([]byte, body))
	return func() error {
		return conn.Invoke(context.Background(), "/test.Echo/Echo", in, new(wrapperspb.BytesValue))
	}
}

// roomy describes a gate that refuses next to nothing here, and whose windows soon let all calls out.
func roomy() spillgate.Config {
	var cfg spillgate.Config
	cfg.Objective = 200 * time.Millisecond
	return cfg
}
