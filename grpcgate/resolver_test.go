package grpcgate

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// A resolver may name endpoints and no addresses, as those of service meshes do.
func TestResolverOfEndpoints(t *testing.T) {
	s := serve(t, newGate(t, fixed(4)), &echo{}, nil)
	r := manual.NewBuilderWithScheme("endpoints")
	r.InitialState(resolver.State{Endpoints: []resolver.Endpoint{{Addresses: addresses(s.addr)}}})
	conn, c := dialGated(t, "endpoints:///x", nil, grpc.WithResolvers(r))
	for range 3 {
		if _, err := call1(within(t), conn, "x"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all returned", settled(c, conn, s.gate))
}
