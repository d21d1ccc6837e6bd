// The smallest gated gRPC service, with a client that overloads it.
//
//	go run ./examples/grpc
//
// The service takes 10 ms a call and has two workers, so it can do 200 calls a
// second. The client asks for 600. What Spillgate needs is marked (1) and (2) at
// the server and (3) at the client; the rest is any gRPC program.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	pb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/grpcgate"
)

const (
	objective = 100 * time.Millisecond
	method    = "/example.Work/Do"
	seconds   = 3
	rate      = 600 // calls a second
)

func main() {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	gate, err := spillgate.New(objective)
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close()

	srv := grpc.NewServer(grpcgate.ServerOptions(gate)...) // (1)
	register(srv)
	go func() {
		if err := grpcgate.Serve(srv, lis); err != nil { // (2) in place of srv.Serve(lis)
			log.Fatal(err)
		}
	}()
	defer srv.Stop()

	conn, err := grpc.NewClient(lis.Addr().String(), append(grpcgate.DialOptions(), // (3)
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	load(conn)

	s := gate.Stats()
	fmt.Printf("the gate: %d served, %d refused; the limit settled at %d running calls\n", s.Served[0], refused(s), s.Limit)
}

// register adds the service: two workers, 10 ms a call. It borrows the messages
// of the health protocol to do without generated code.
func register(srv *grpc.Server) {
	workers := make(chan struct{}, 2)
	do := func(ctx context.Context, req any) (any, error) {
		select {
		case workers <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		time.Sleep(10 * time.Millisecond)
		<-workers
		return &pb.HealthCheckResponse{}, nil
	}
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "example.Work",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(pb.HealthCheckRequest)
			if err := decode(in); err != nil {
				return nil, err
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: method}, do)
		}}},
	}, nil)
	pb.RegisterHealthServer(srv, health.NewServer()) // passes the gate untouched
}

// load sends calls at a steady rate, each with twice the objective to its deadline, and
// prints what became of them.
func load(conn *grpc.ClientConn) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for second := range seconds {
		good, late, shed := 0, 0, 0
		for range rate {
			<-tick.C
			wg.Add(1)
			go func() {
				defer wg.Done()
				ctx, cancel := context.WithTimeout(context.Background(), 2*objective)
				defer cancel()
				start := time.Now()
				err := conn.Invoke(ctx, method, &pb.HealthCheckRequest{}, &pb.HealthCheckResponse{})
				mu.Lock()
				defer mu.Unlock()
				switch took := time.Since(start); {
				case err != nil:
					shed++
				case took <= objective:
					good++
				default:
					late++
				}
			}()
		}
		wg.Wait()
		fmt.Printf("second %d: %d calls offered, %d in time, %d late, %d refused\n", second+1, rate, good, late, shed)
	}
}

// refused sums the refusals of all reasons at the server. Most calls too many are
// refused by the client's own wallet and never sent.
func refused(s spillgate.Stats) (n uint64) {
	for _, shed := range s.Shed {
		n += shed
	}
	return n
}
