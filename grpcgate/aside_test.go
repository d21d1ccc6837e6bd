package grpcgate

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// A handler that calls a method of its own process with the context of the call that it serves has two tickets, and both come
// back.
func TestCallsInsideTheProcess(t *testing.T) {
	gate := newGate(t, fixed(2))
	_, s := newServer(gate, nil)
	info := &grpc.UnaryServerInfo{FullMethod: echoMethod}
	inner := func(ctx context.Context, req any) (any, error) { return req, nil }
	outer := func(ctx context.Context, req any) (any, error) {
		if n := gate.Stats().Running; n != 1 {
			t.Errorf("%d run, expected the outer call", n)
		}
		return s.unary(ctx, req, info, inner)
	}
	for range 5 { // with a ticket lost each time, the third would wait for ever
		if _, err := s.unary(within(t), "x", info, outer); err != nil {
			t.Fatal(err)
		}
	}
	if st := gate.Stats(); st.Running != 0 || st.Served[work.Done] != 10 {
		t.Errorf("%d run and %d were served, expected 0 and 10", st.Running, st.Served[work.Done])
	}
}

// trailers is what a call has for its trailers.
type trailers struct {
	grpc.ServerTransportStream
	md metadata.MD
}

func (s *trailers) SetTrailer(md metadata.MD) error {
	s.md = metadata.Join(s.md, md)
	return nil
}

// Such a call says nothing in the trailer of the call around it: the client would find two words of the server, and believe none.
func TestCallsInsideTheProcessHaveNoTrailer(t *testing.T) {
	gate := newGate(t, fixed(2))
	_, s := newServer(gate, trusting)
	info := &grpc.UnaryServerInfo{FullMethod: echoMethod}
	outer := func(ctx context.Context, req any) (any, error) {
		gate.Drain()
		return s.unary(ctx, req, info, func(context.Context, any) (any, error) { return nil, nil })
	}
	said := &trailers{}
	ctx := grpc.NewContextWithServerTransportStream(within(t), said)
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(wire.MetadataKey, string(wire.Tags{Workflow: "w"}.Append(nil))))
	if _, err := s.unary(ctx, "x", info, outer); status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
	if len(said.md[wire.MetadataKey]) != 1 || len(said.md[pushbackKey]) != 1 {
		t.Fatalf("the trailer is %v, expected one reply and one pushback", said.md)
	}
	if r, err := wire.ParseReply([]byte(said.md[wire.MetadataKey][0])); err != nil || r.Shed.Reason != work.Downstream {
		t.Errorf("it says %+v, %v, expected a refusal further down", r, err)
	}
}

// An exempt call that is made with the context of another one, or of a request that is served, carries none of its tags.
func TestExemptCallsCarryNoTags(t *testing.T) {
	tags := metadata.Pairs(wire.MetadataKey, "x", "other", "y")
	served := &incoming{Context: metadata.NewOutgoingContext(t.Context(), tags)}
	another := &outgoing{Context: t.Context(), said: &said{value: metadata.NewOutgoingContext(t.Context(), tags).Value(outgoingMetadata)}}
	for name, ctx := range map[string]context.Context{"served": served, "another": another, "another's metadata": metadata.NewOutgoingContext(&outgoing{Context: t.Context()}, tags)} {
		ctx = alone(ctx)
		md, _ := metadata.FromOutgoingContext(ctx)
		if len(md[wire.MetadataKey]) != 0 || len(md["other"]) != 1 || outgoingFrom(ctx) != nil {
			t.Errorf("%s: the call carries %v", name, md)
		}
	}
	if ctx := metadata.NewOutgoingContext(t.Context(), tags); alone(ctx) != ctx {
		t.Error("a call of its own loses what its caller said")
	}
}

// A server may have several listeners, served at once.
func TestSeveralListeners(t *testing.T) {
	gate := newGate(t, fixed(2))
	for range 50 { // grpc ends the process if a service is registered twice or too late
		s := grpc.NewServer(ServerOptions(gate)...)
		var serving sync.WaitGroup
		for range 4 {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			serving.Go(func() { _ = Serve(s, lis) })
		}
		s.Stop()
		serving.Wait()
	}
}

// A call that fails because no server is connected is counted as failed.
func TestCallsToNobodyAreCounted(t *testing.T) {
	var calls live.Calls
	conn := dial(t, "127.0.0.1:1", DialOptions(WithCalls(&calls))...)
	failed := func() (n uint64) {
		calls.Target(conn.Target()).Counts(func(fate live.Fate, _ work.Reason, k uint64) {
			if fate == live.Failed {
				n += k
			}
		})
		return n
	}
	if _, err := call1(within(t), conn, "x"); status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
	if ss, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, watchMethod); err == nil {
		t.Fatal(ss)
	}
	if n := failed(); n != 2 {
		t.Errorf("%d calls count as failed, expected 2", n)
	}
}

// A call that an interceptor further in answers, as from a cache, was sent by no other balancer.
func TestCachedAnswersAreNotUncredited(t *testing.T) {
	s := serve(t, newGate(t, fixed(2)), &echo{}, nil)
	cached := false
	cache := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if cached {
			return nil
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	var counters Counters
	conn, c := dialGated(t, s.addr, []ClientOption{WithCounters(&counters)}, grpc.WithChainUnaryInterceptor(cache))
	warm(t, conn)
	cached = true
	for range 5 {
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if n := counters.Uncredited.Load(); n != 0 {
		t.Errorf("%d answers of a cache count as calls without credits", n)
	}
	eventually(t, "no credit is out", settled(c, conn))
}

// A refusal is found in the error of a stream, however long the stream keeps its credit.
func TestRefusalsOfStreams(t *testing.T) {
	gate := newGate(t, fixed(2))
	s := serve(t, gate, &echo{chat: func(grpc.ServerStream) error { return nil }}, nil)
	gate.Drain()
	for _, hold := range []time.Duration{time.Second, -1} {
		conn, c := dialGated(t, s.addr, []ClientOption{WithStreamHold(hold)})
		ss, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chatMethod)
		if err != nil {
			t.Fatal(err)
		}
		err = ss.RecvMsg(new(wrapperspb.StringValue))
		var refusal *live.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != work.Draining {
			t.Errorf("hold %v: %v, expected a refusal", hold, err)
		}
		eventually(t, "no credit is out", settled(c, conn))
	}
}

// A handler that returns the refusal of its own client's wallet has run: its caller does not hear that its call was not sent.
func TestRefusalsOfOtherWallets(t *testing.T) {
	s := newScript(t, false)
	conn, _ := dialGated(t, s.addr, nil)
	for _, reason := range []work.Reason{work.WalletFull, work.WalletExpired, work.RetryBudget, work.Delay} {
		err := refusalError(&live.Refusal{Reason: reason, Pushback: time.Second})
		s.fail.Store(&err)
		want := work.Downstream
		if reason == work.Delay {
			want = reason
		}
		_, err = call1(within(t), conn, "x")
		var refusal *live.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != want || refusal.Pushback != time.Second {
			t.Errorf("%v further down: %+v", reason, refusal)
		}
	}
}
