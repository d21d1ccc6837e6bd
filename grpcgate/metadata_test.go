package grpcgate

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// TestMetadataOfCalls: a call has the caller's metadata and what interceptors further in add, whether its
// tags come in a context of their own or in that of the call, and its tags once.
func TestMetadataOfCalls(t *testing.T) {
	if outgoingMetadata == nil {
		t.Error("package metadata does not say where it puts metadata: each call pays a context more")
	}
	var got metadata.MD
	s := serve(t, newGate(t, fixed(1)), &echo{handle: func(ctx context.Context, req string) (string, error) {
		got, _ = metadata.FromIncomingContext(ctx)
		return req, nil
	}}, nil)
	adds := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, "inner", "i"), method, req, reply, cc, opts...)
	}
	conn, _ := dialGated(t, s.addr, nil, grpc.WithChainUnaryInterceptor(adds))
	warm(t, conn)
	for _, outer := range []string{"", "o"} {
		ctx := within(t)
		if outer != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "outer", outer)
		}
		if _, err := call1(ctx, conn, "x"); err != nil {
			t.Fatal(err)
		}
		if in := got["inner"]; len(in) != 1 || in[0] != "i" {
			t.Errorf("outer %q: inner %q, want i", outer, in)
		}
		if out := got["outer"]; outer == "" && out != nil || outer != "" && (len(out) != 1 || out[0] != outer) {
			t.Errorf("outer %q: got %q", outer, out)
		}
		if tags := got["spillgate-bin"]; len(tags) != 1 {
			t.Errorf("outer %q: tags come %d times, want once", outer, len(tags))
		}
	}
}

// TestOffPasses: with mode Off, a call that says nothing about itself is served without a ticket, and knows all
// the same that calls made for it are not at the edge; one with tags is served with them.
func TestOffPasses(t *testing.T) {
	gate := newGate(t, fixed(1))
	var ticket *live.Ticket
	var serving, tagged bool
	s := serve(t, gate, &echo{
		handle: func(ctx context.Context, req string) (string, error) {
			ticket, serving, tagged = live.TicketFrom(ctx), live.Serving(ctx), live.TagsFrom(ctx).Workflow == "w"
			return req, nil
		},
	}, []Option{WithTrust(Everyone)})
	for _, mode := range []live.Mode{live.Enforce, live.Off, live.Enforce} {
		gate.SetMode(mode)
		for _, workflow := range []string{"", "w"} {
			ctx := within(t)
			if workflow != "" {
				ctx = withTags(ctx, wire.Tags{Workflow: workflow})
			}
			if _, err := call1(ctx, dial(t, s.addr), "x"); err != nil {
				t.Fatal(err)
			}
			if passes := mode == live.Off && workflow == ""; (ticket == nil) != passes || !serving || tagged != (workflow != "") {
				t.Errorf("%v, workflow %q: ticket %v, serving %v, tagged %v", mode, workflow, ticket != nil, serving, tagged)
			}
		}
	}
}
