package plain

import (
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	pb "google.golang.org/grpc/health/grpc_health_v1"
)

// Store is the service behind the edge. It borrows the messages of the health protocol, to do
// without generated code, and its health check is the one of grpc.
func Store(listener, metrics net.Listener) error {
	server := grpc.NewServer()
	checks := health.NewServer()
	checks.SetServingStatus("orders", pb.HealthCheckResponse_SERVING)
	pb.RegisterHealthServer(server, checks)
	go http.Serve(metrics, promhttp.Handler())
	return server.Serve(listener)
}
