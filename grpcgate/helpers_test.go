package grpcgate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
)

func TestMain(m *testing.M) {
	leaks.Verify(m)
}

// patience is how long a test waits for what must happen; it is only reached by
// a failure.
const patience = time.Minute

// echo is a service without generated code: Echo is unary, Watch streams from
// the server, Chat both ways.
type echo struct {
	handle func(ctx context.Context, req string) (string, error)
	chat   func(ss grpc.ServerStream) error
}

const (
	echoMethod  = "/test.Echo/Echo"
	watchMethod = "/test.Echo/Watch"
	chatMethod  = "/test.Echo/Chat"
)

func (e *echo) desc() *grpc.ServiceDesc {
	stream := func(_ any, ss grpc.ServerStream) error { return e.chat(ss) }
	return &grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: func(_ any, ctx context.Context, dec func(any) error, mw grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := dec(in); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, req any) (any, error) {
				out, err := e.handle(ctx, req.(*wrapperspb.StringValue).Value)
				if err != nil {
					return nil, err
				}
				return wrapperspb.String(out), nil
			}
			if mw == nil {
				return handle(ctx, in)
			}
			return mw(ctx, in, &grpc.UnaryServerInfo{FullMethod: echoMethod}, handle)
		}}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Watch", Handler: stream, ServerStreams: true},
			{StreamName: "Chat", Handler: stream, ServerStreams: true, ClientStreams: true},
		},
	}
}

// testServer is a gated (or, without a gate, plain) server on TCP loopback.
type testServer struct {
	*grpc.Server
	gate *live.Gate
	addr string
	lis  *countingListener
	done chan struct{}
}

// newGate returns a gate that refuses nothing for delay, unless cfg says so: this machine may
// be so busy that a call waits for long.
func newGate(t testing.TB, cfg admission.Config) *live.Gate {
	t.Helper()
	if cfg.Objective == 0 {
		cfg.Objective = 10 * time.Second
	}
	gate, err := live.NewGate(live.GateConfig{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	return gate
}

// fixed returns a configuration with n slots.
func fixed(n int) admission.Config {
	return admission.Config{Slots: slots.Config{Min: n, Max: n, Initial: n}}
}

// trusting are the options of a server that only services of its own system call.
var trusting = []Option{WithTrust(Everyone)}

func serve(t testing.TB, gate *live.Gate, e *echo, opts []Option, more ...grpc.ServerOption) *testServer {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", gate, e, opts, more...)
}

func serveAt(t testing.TB, addr string, gate *live.Gate, e *echo, opts []Option, more ...grpc.ServerOption) *testServer {
	t.Helper()
	inner, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	lis := &countingListener{Listener: inner, conns: map[net.Conn]struct{}{}}
	if gate != nil {
		more = append(ServerOptions(gate, opts...), more...)
	}
	s := &testServer{Server: grpc.NewServer(more...), gate: gate, addr: inner.Addr().String(), lis: lis, done: make(chan struct{})}
	if e.handle == nil {
		e.handle = func(_ context.Context, req string) (string, error) { return req, nil }
	}
	s.RegisterService(e.desc(), struct{}{})
	go func() {
		defer close(s.done)
		if gate != nil {
			Serve(s.Server, lis)
		} else {
			s.Server.Serve(lis)
		}
	}()
	t.Cleanup(func() {
		s.Stop()
		await.Value(t, s.done, "the server to stop")
	})
	return s
}

// countingListener lets a test cut connections as a crash would.
type countingListener struct {
	net.Listener
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns[c] = struct{}{}
		l.mu.Unlock()
	}
	return c, err
}

func (l *countingListener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	clear(l.conns)
}

func dial(t testing.TB, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func call1(ctx context.Context, conn *grpc.ClientConn, msg string, opts ...grpc.CallOption) (string, error) {
	out := new(wrapperspb.StringValue)
	err := conn.Invoke(ctx, echoMethod, wrapperspb.String(msg), out, opts...)
	return out.Value, err
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until what is true, or fails.
func eventually(t testing.TB, why string, what func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !what(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, why)
		}
	}
}

// watchProcessor returns what tells for how long, at most, this process had no
// processor to itself since: a server that gets none can do less than it is said to.
func watchProcessor(t testing.TB) (away func() time.Duration) {
	t.Helper()
	var longest atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); await.Value(t, done, "the server to stop") })
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			now := time.Now()
			longest.Store(max(longest.Load(), int64(now.Sub(last))))
			last = now
		}
	}()
	return func() time.Duration { return time.Duration(longest.Load()) }
}

// poolOf returns the pool of a ClientConn made with DialOptions of c.
func poolOf(c *client, conn *grpc.ClientConn) *pool {
	p, ok := c.pools.Load(conn)
	if !ok {
		return nil
	}
	return p.(*pool)
}

// dialGated is dial with the options of DialOptions and the client behind them.
func dialGated(t testing.TB, target string, opts []ClientOption, more ...grpc.DialOption) (*grpc.ClientConn, *client) {
	t.Helper()
	c, dialOpts := newClient(opts)
	return dial(t, target, append(dialOpts, more...)...), c
}

// settled reports whether no permit and no ticket is out.
func settled(c *client, conn *grpc.ClientConn, gates ...*live.Gate) func() bool {
	return func() bool {
		if p := poolOf(c, conn); p != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.wallet != nil && p.wallet.Waiting() > 0 {
				return false
			}
			for _, b := range p.backends {
				if b.account != nil && b.account.Outstanding() > 0 {
					return false
				}
			}
		}
		for _, g := range gates {
			if s := g.Stats(); s.Running > 0 || s.Waiting > 0 {
				return false
			}
		}
		return true
	}
}

func insecureCreds() grpc.DialOption {
	return grpc.WithTransportCredentials(insecure.NewCredentials())
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	return lis
}

// addrForLater returns an address at which nobody listens, of a port that no system gives to a
// connection by itself, so that it is free when a server is to have it.
func addrForLater(t testing.TB) string {
	t.Helper()
	for tries := 0; ; tries++ {
		lis, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20_000+rand.IntN(12_000)))
		switch {
		case err == nil:
			lis.Close()
			return lis.Addr().String()
		case tries > 1000:
			t.Fatal(err)
		}
	}
}

func demandMessage(n int) *wrapperspb.BytesValue {
	return wrapperspb.Bytes(wire.Tags{Credits: true, Demand: n}.Append(nil))
}
