package grpcgate

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// What a handler passes on as it came, as proxies do, brings the tags of its own client: the service below gets those of the
// call that it is sent, once, and the rest of the metadata.
func TestPassedOnMetadata(t *testing.T) {
	for _, first := range []bool{true, false} { // the first call of a ClientConn, which has no tags if its request has none that count
		var got metadata.MD
		below := serve(t, nil, &echo{handle: func(ctx context.Context, req string) (string, error) {
			got, _ = metadata.FromIncomingContext(ctx)
			return req, nil
		}}, nil)
		down, _ := dialGated(t, below.addr, nil)
		if !first {
			warm(t, down)
		}
		front := serve(t, newGate(t, fixed(4)), &echo{handle: func(ctx context.Context, req string) (string, error) {
			if req == "warm" {
				return req, nil
			}
			md, _ := metadata.FromIncomingContext(ctx)
			return call1(metadata.NewOutgoingContext(ctx, md), down, req)
		}}, []Option{WithTrust(func(context.Context, string) bool { return !first })})
		up, _ := dialGated(t, front.addr, nil)
		warm(t, up)
		ctx := metadata.AppendToOutgoingContext(within(t), "user", "u")
		if _, err := call1(live.WithTags(ctx, wire.Tags{Workflow: "w"}), up, "x"); err != nil {
			t.Fatal(err)
		}
		if user := got["user"]; len(user) != 1 || user[0] != "u" {
			t.Errorf("user %q, expected u", user)
		}
		var malformed atomic.Int64
		tags := tagsOf(got, nil, &malformed)
		if n := len(got[wire.MetadataKey]); first && n > 0 || !first && (n != 1 || tags.Workflow != "w" || !tags.Credits) {
			t.Errorf("first %v: tags come %d times, and say %+v", first, n, tags)
		}
	}
}

// So does a call that is made for another one, as by an interceptor with that one's context.
func TestCallsInsideOfCalls(t *testing.T) {
	auth, main := newScript(t, false), newScript(t, false)
	toAuth, _ := dialGated(t, auth.addr, nil)
	warm(t, toAuth)
	asks := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if _, err := call1(ctx, toAuth, "token"); err != nil {
			return err
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	conn, c := dialGated(t, main.addr, nil, grpc.WithChainUnaryInterceptor(asks))
	warm(t, conn)
	for len(auth.tags)+len(main.tags) > 0 {
		select {
		case <-auth.tags:
		case <-main.tags:
		}
	}
	if _, err := call1(within(t), conn, "x"); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*script{"the inner call": auth, "the outer call": main} {
		if tags := <-s.tags; !tags.Credits || tags.Client == 0 {
			t.Errorf("%s says %+v", name, tags)
		}
	}
	eventually(t, "no credit is out", settled(c, conn))
}

// An exempt call that is made for another one has nothing to do with its credit, nor its ClientConn with the other's.
func TestExemptCallsInsideOfCalls(t *testing.T) {
	lookups := serve(t, newGate(t, fixed(4)), &echo{}, nil)
	other := serve(t, newGate(t, fixed(4)), &echo{}, nil)
	c, options := newClient(nil)
	toLookups := dial(t, lookups.addr, options...)
	asks := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		_, _ = grpc_health_v1.NewHealthClient(toLookups).Check(ctx, &grpc_health_v1.HealthCheckRequest{}) // to be sent is enough
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	conn := dial(t, other.addr, append(options, grpc.WithChainUnaryInterceptor(asks))...)
	warm(t, conn)
	warm(t, toLookups)
	if a, b := poolOf(c, conn), poolOf(c, toLookups); a == nil || b == nil || a == b || a.conn != conn || b.conn != toLookups {
		t.Errorf("the pools are mixed up: %v and %v", a, b)
	}
	eventually(t, "no credit is out", settled(c, conn))
}

// A stream handler that passes on the trailer of the service below, as a proxy does, does not pass on its credits: the client
// would take them for those of the server that it calls.
func TestPassedOnTrailers(t *testing.T) {
	below := wire.Reply{HasGrant: true, Grant: wire.Grant{Epoch: 1, Seq: 9, Window: 12345}}
	s := serve(t, newGate(t, fixed(4)), &echo{chat: func(ss grpc.ServerStream) error {
		ss.SetTrailer(metadata.Pairs(wire.MetadataKey, string(below.Append(nil)), "from", "below"))
		return nil
	}}, nil)
	var counters Counters
	conn, c := dialGated(t, s.addr, []ClientOption{WithCounters(&counters)})
	warm(t, conn)
	for range 3 {
		ss, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chatMethod)
		if err != nil {
			t.Fatal(err)
		}
		if err := ss.RecvMsg(new(wrapperspb.StringValue)); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if from := ss.Trailer()["from"]; len(from) != 1 || from[0] != "below" {
			t.Errorf("the trailer has %q, expected below", from)
		}
	}
	if n := counters.Malformed.Load(); n != 0 {
		t.Errorf("%d replies were malformed", n)
	}
	if state := poolOf(c, conn).clientState(); state.Window == 12345 {
		t.Error("the client has the credits of the service below")
	}
}
