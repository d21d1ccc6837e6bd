package arena

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/dagor"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// startServer serves one method, whose handler is handle, behind what is installed.
func startServer(t *testing.T, in Installed, handle func()) (addr string) {
	t.Helper()
	server := grpc.NewServer(in.Options...)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Do",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			out := new(emptypb.Empty)
			if err := decode(out); err != nil {
				return nil, err
			}
			do := func(context.Context, any) (any, error) { handle(); return out, nil }
			if intercept == nil {
				return do(ctx, out)
			}
			return intercept(ctx, out, &grpc.UnaryServerInfo{FullMethod: "/test.Echo/Do"}, do)
		},
	}}}, struct{}{})
	if in.Register != nil {
		in.Register(server)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
		if in.Stop != nil {
			in.Stop()
		}
	})
	return l.Addr().String()
}

func callServer(t *testing.T, addr string, opts ...grpc.DialOption) func(context.Context) error {
	t.Helper()
	conn, err := grpc.NewClient(addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func(ctx context.Context) error {
		return conn.Invoke(ctx, "/test.Echo/Do", new(emptypb.Empty), new(emptypb.Empty))
	}
}

// Every contender carries many concurrent calls over real connections: each call
// ends, and each that a handler served is answered.
func TestEveryPolicyCarriesTraffic(t *testing.T) {
	setting := Setting{Name: "patient", Slots: 4, Mean: time.Millisecond, Objective: 10 * time.Second}
	for _, c := range append(Own(), Hand()...) {
		t.Run(c.Name, func(t *testing.T) {
			in, err := c.Server(setting)
			if err != nil {
				t.Fatal(err)
			}
			var handled, answered, refused atomic.Int64
			addr := startServer(t, in, func() { handled.Add(1) })
			var all sync.WaitGroup
			for i := range 4 {
				var opts []grpc.DialOption
				if c.Client != nil {
					more, stop, err := c.Client(setting, i)
					if err != nil {
						t.Fatal(err)
					}
					if opts = more; stop != nil {
						t.Cleanup(stop)
					}
				}
				call := callServer(t, addr, opts...)
				for range 4 {
					all.Go(func() {
						for range 25 {
							ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
							err := call(ctx)
							cancel()
							switch status.Code(err) {
							case codes.OK:
								answered.Add(1)
							case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded:
								refused.Add(1)
							default:
								t.Errorf("call: %v", err)
							}
						}
					})
				}
			}
			all.Wait()
			if answered.Load() != handled.Load() || answered.Load()+refused.Load() != 400 || answered.Load() == 0 {
				t.Errorf("%d answered, %d refused, %d handled; want 400 calls, and each handled one answered", answered.Load(), refused.Load(), handled.Load())
			}
		})
	}
}

// The level rides on the refusal, and the client's next call of that priority is
// not sent.
func TestLevelReachesTheClient(t *testing.T) {
	door, err := dagor.New(dagor.Config{Slots: 4, Law: dagor.Stepwise, Threshold: time.Second, Monitor: time.Millisecond, Window: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var handled atomic.Int64
	addr := startServer(t, gated(Setting{Objective: time.Second}, door), func() { handled.Add(1) })
	outlet := live.NewOutlet(dagor.NewSender(5), nil)
	t.Cleanup(outlet.Close)
	first, err := outlet.Submit(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	first.Answered(feedback(t, "127")) // it sends everything
	call := callServer(t, addr, grpc.WithChainUnaryInterceptor(intercept(outlet)))
	ctx := withPriority(t.Context(), 100) // the server's level is 32
	if err := call(ctx); status.Code(err) != codes.Unavailable {
		t.Errorf("first: %v, want refused by the server", err)
	}
	if err := call(ctx); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("second: %v, want not sent", err)
	}
	if err := call(withPriority(t.Context(), 3)); err != nil {
		t.Errorf("an important call: %v", err)
	}
	if handled.Load() != 1 {
		t.Errorf("%d handled, want 1", handled.Load())
	}
}

// feedback is what a trailer with a level says.
func feedback(t *testing.T, level string) (f baseline.Feedback) {
	t.Helper()
	f, ok := feedbackOf(metadata.Pairs(levelKey, level))
	if !ok {
		t.Fatalf("level %q was not read", level)
	}
	return f
}

func TestFeedbackOfTrailers(t *testing.T) {
	shed := string(wire.Reply{HasShed: true, Shed: wire.Shed{Reason: work.Delay}}.Append(nil))
	if f, ok := feedbackOf(metadata.Pairs(levelKey, "7", wire.MetadataKey, shed)); !ok || f.Level != 7 || f.Reason != work.Delay {
		t.Errorf("%+v, %v", f, ok)
	}
	for _, level := range []string{"", "-1", "x", "100000"} {
		if f, ok := feedbackOf(metadata.Pairs(levelKey, level)); ok {
			t.Errorf("level %q was read as %+v", level, f)
		}
	}
	if f, ok := feedbackOf(nil); ok {
		t.Errorf("no trailer was read as %+v", f)
	}
}
