package spillgate_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/fastrpc"
	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
)

// patience is how long a test waits for what must happen; only a failure reaches it.
const patience = time.Minute

// edges are the ways into a gate: each starts a server that has handle called in every request,
// and returns a client's call.
var edges = []struct {
	name  string
	start func(t *testing.T, gate *spillgate.Gate, trusts bool, handle func(context.Context)) (call func(context.Context) error)
}{
	{"grpcgate", overGRPC},
	{"httpgate", overHTTP},
	{"fastrpc", overFastRPC},
}

func overGRPC(t *testing.T, gate *spillgate.Gate, trusts bool, handle func(context.Context)) func(context.Context) error {
	var opts []grpcgate.Option
	if trusts {
		opts = append(opts, grpcgate.WithTrust(grpcgate.Everyone))
	}
	server := grpc.NewServer(grpcgate.ServerOptions(gate, opts...)...)
	do := func(ctx context.Context, _ any) (any, error) {
		handle(ctx)
		return &emptypb.Empty{}, nil
	}
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Tell", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Do",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			if err := decode(in); err != nil {
				return nil, err
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/test.Tell/Do"}, do)
		},
	}}}, nil)
	l := listen(t)
	go func() { _ = grpcgate.Serve(server, l) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), append(grpcgate.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func(ctx context.Context) error {
		return conn.Invoke(ctx, "/test.Tell/Do", &emptypb.Empty{}, &emptypb.Empty{})
	}
}

func overHTTP(t *testing.T, gate *spillgate.Gate, trusts bool, handle func(context.Context)) func(context.Context) error {
	var opts []httpgate.Option
	if trusts {
		opts = append(opts, httpgate.Trust(httpgate.Everyone))
	}
	server := httptest.NewUnstartedServer(httpgate.Handler(gate, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { handle(r.Context()) }), opts...))
	httpgate.Track(server.Config)
	server.Start()
	t.Cleanup(server.Close)
	client := &http.Client{Transport: httpgate.Transport(&http.Transport{})}
	t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/tell", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}

func overFastRPC(t *testing.T, gate *spillgate.Gate, trusts bool, handle func(context.Context)) func(context.Context) error {
	cfg := fastrpc.ServerConfig{Gate: gate}
	if trusts {
		cfg.Trust = fastrpc.Everyone
	}
	server, err := fastrpc.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server.Handle("tell", func(ctx context.Context, _, out []byte) ([]byte, error) {
		handle(ctx)
		return out, nil
	})
	l := listen(t)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Close)
	client, err := fastrpc.Dial(t.Context(), fastrpc.ClientConfig{}, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	tell := client.Method("tell")
	return func(ctx context.Context) error {
		_, err := tell.Call(ctx, nil, nil)
		return err
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Every edge believes the same of a client that it was not told to trust: nothing that puts a
// request before those of others.
func TestTrustIsTheSameOnAllEdges(t *testing.T) {
	claimed := wire.Tags{Workflow: "checkout", Class: spillgate.Interactive, Priority: 3, Attempt: 2}
	for _, edge := range edges {
		for _, trusts := range []bool{false, true} {
			gate := newGate(t, spillgate.Config{})
			told := make(chan wire.Tags, 1)
			call := edge.start(t, gate, trusts, func(ctx context.Context) { told <- live.TagsFrom(ctx) })
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if err := call(live.WithTags(ctx, claimed)); err != nil {
				t.Fatalf("%s: %v", edge.name, err)
			}
			cancel()
			got, want := <-told, wire.Tags{Attempt: claimed.Attempt}
			if trusts {
				want = claimed
			}
			if rank := (wire.Tags{Workflow: got.Workflow, Class: got.Class, Priority: got.Priority, Attempt: got.Attempt}); rank != want {
				t.Errorf("%s, trusted %v: believed %+v, want %+v", edge.name, trusts, rank, want)
			}
		}
	}
}

// Where the earliest deadline goes first, a client that is not trusted gains nothing from a
// deadline that is earlier than the objective.
func TestShortBudgetsOfStrangersGainNothing(t *testing.T) {
	for _, edge := range edges {
		for _, trusts := range []bool{false, true} {
			gate := newGate(t, spillgate.Config{Config: spillgate.Admission{
				Schedule: spillgate.Schedule{Order: schedule.EDF}, Slots: slots.Config{Min: 1, Max: 1, Initial: 1},
			}})
			began, order, goOn := make(chan struct{}, 3), make(chan time.Time, 3), make(chan struct{})
			handle := func(ctx context.Context) {
				due, _ := ctx.Deadline()
				order <- due
				began <- struct{}{}
				<-goOn
			}
			call := edge.start(t, gate, trusts, handle)
			ended := make(chan error, 3)
			begin := func(budget time.Duration) {
				ctx, cancel := context.WithTimeout(t.Context(), budget)
				go func() {
					defer cancel()
					ended <- call(ctx)
				}()
			}
			begin(objective * 3 / 4)
			<-began
			begin(objective * 2 / 3)
			waitFor(t, func() bool { return gate.Stats().Waiting == 1 })
			begin(objective / 2) // later, and due earlier
			waitFor(t, func() bool { return gate.Stats().Waiting == 2 })
			close(goOn)
			for range 3 {
				if err := <-ended; err != nil {
					t.Fatalf("%s: %v", edge.name, err)
				}
			}
			due := []time.Time{<-order, <-order, <-order}
			if inOrder := slices.IsSortedFunc(due[1:], time.Time.Compare); inOrder != trusts {
				t.Errorf("%s, trusted %v: the request that is due first went first: %v", edge.name, trusts, inOrder)
			}
		}
	}
}

const objective = time.Minute // on a busy machine nothing is late either

func newGate(t *testing.T, cfg spillgate.Config) *spillgate.Gate {
	t.Helper()
	cfg.Objective = objective
	gate, err := spillgate.NewWith(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	return gate
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what must happen did not")
		}
	}
}
