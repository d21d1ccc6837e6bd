package gated

import (
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	pb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/telemetry"
)

// Store is the service behind the edge. It borrows the messages of the health protocol, to do
// without generated code, and its health check is the one of grpc.
func Store(listener, metrics net.Listener) error {
	gate := spillgate.MustNew(100 * time.Millisecond)
	telemetry.MustRegister(gate, "store")
	server := grpc.NewServer(grpcgate.ServerOptions(gate)...)
	checks := health.NewServer()
	checks.SetServingStatus("orders", pb.HealthCheckResponse_SERVING)
	pb.RegisterHealthServer(server, checks)
	go http.Serve(metrics, promhttp.Handler())
	return grpcgate.Serve(server, listener)
}
