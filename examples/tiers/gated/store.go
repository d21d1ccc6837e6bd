package gated

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	pb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/telemetry"
)

// Store is the service behind the edge. Its health check is the one of grpc.
func Store(listener, metrics net.Listener) error {
	gate := spillgate.MustNew(100 * time.Millisecond)
	telemetry.MustRegister(gate, "store")
	server := grpc.NewServer(grpcgate.ServerOptions(gate)...)
	pb.RegisterHealthServer(server, health.NewServer())
	server.RegisterService(&store, nil)
	go http.Serve(metrics, promhttp.Handler())
	return grpcgate.Serve(server, listener)
}

// store is what protoc would generate from
//
//	service Store { rpc Order(google.protobuf.StringValue) returns (google.protobuf.StringValue); }
//
// in package shop.
var store = grpc.ServiceDesc{ServiceName: "shop.Store", Methods: []grpc.MethodDesc{{
	MethodName: "Order",
	Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		id := new(wrapperspb.StringValue)
		if err := decode(id); err != nil {
			return nil, err
		}
		order := func(_ context.Context, id any) (any, error) {
			return wrapperspb.String("order " + id.(*wrapperspb.StringValue).Value), nil
		}
		if intercept == nil {
			return order(ctx, id)
		}
		return intercept(ctx, id, &grpc.UnaryServerInfo{FullMethod: "/shop.Store/Order"}, order)
	},
}}}
