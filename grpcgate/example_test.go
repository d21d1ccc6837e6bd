package grpcgate_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/grpcgate"
)

// A server takes two lines, and a client one.
func Example() {
	gate, err := spillgate.New(100 * time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(grpcgate.ServerOptions(gate)...)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer()) // never refused
	go func() { _ = grpcgate.Serve(server, listener) }()            // in place of server.Serve
	defer server.Stop()

	creds := grpc.WithTransportCredentials(insecure.NewCredentials())
	conn, err := grpc.NewClient(listener.Addr().String(), append(grpcgate.DialOptions(), creds)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(answer.GetStatus(), err)
	// Output:
	// SERVING <nil>
}

// Exports may take longer than other methods, and a client may send refused calls again.
func ExampleServerOptions() {
	gate, err := spillgate.New(100 * time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()
	server := grpc.NewServer(grpcgate.ServerOptions(gate,
		grpcgate.WithObjectives(map[string]time.Duration{"/shop.Orders/Export": 5 * time.Second}),
		grpcgate.WithExempt("shop.Events"), // streams that are open for as long as a client is
	)...)
	defer server.Stop()

	_ = grpcgate.DialOptions(grpcgate.WithRetries(2)) // within a tenth of what succeeds
}
