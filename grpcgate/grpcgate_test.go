package grpcgate

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/wire"
)

func TestCreditsRideOnTrailers(t *testing.T) {
	gate := newGate(t, admission.Config{})
	s := serve(t, gate, &echo{}, nil)
	conn, c := dialGated(t, s.addr, nil)
	ctx := within(t)
	quiet := 0
	for i := range 10 {
		var trailer metadata.MD
		got, err := call1(ctx, conn, "hello", grpc.Trailer(&trailer))
		if err != nil || got != "hello" {
			t.Fatalf("%q, %v", got, err)
		}
		if i == 0 {
			continue // the ClientConn was not linked to its wallet yet
		}
		if i > 1 && len(trailer[wire.MetadataKey]) == 0 {
			quiet++
			continue // there was nothing new to say
		}
		reply, err := wire.ParseReply([]byte(trailer[wire.MetadataKey][0]))
		if err != nil || !reply.HasGrant || reply.Grant.Window == 0 || !reply.HasProgress || reply.Progress.Service <= 0 {
			t.Fatalf("%+v, %v", reply, err)
		}
	}
	if quiet == 0 {
		t.Error("every answer had a trailer, though all but the first had nothing new to say")
	}
	if got := gate.Stats().Clients; got != 1 {
		t.Errorf("%d accounts, expected 1", got)
	}
	eventually(t, "all returned", settled(c, conn, gate))
	conn.Close()
	eventually(t, "the account closed with the connection", func() bool { return gate.Stats().Clients == 0 })
	if poolOf(c, conn) != nil {
		t.Error("the pool outlived its ClientConn")
	}
}
