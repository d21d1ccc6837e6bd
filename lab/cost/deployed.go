package cost

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/harness/proc"
)

// role is that of the processes of bench/edges.
const role = proc.Role[order]("SPILLGATE_COST")

// order is the task of a child: to serve over a protocol, with a gate or without, or,
// with ways, to call by each of them in turn.
type order struct {
	Web  bool   `json:"web,omitempty"` // over net/http, else over gRPC
	Gate string `json:"gate,omitempty"`

	Ways   []way         `json:"ways,omitempty"`
	Rounds int           `json:"rounds,omitempty"`
	Batch  time.Duration `json:"batch,omitempty"`
}

// The gates of servers, none if empty: as spillgate.New makes it, or with mode Off; or none, and
// a plain gRPC server that keeps as many goroutines for handlers as grpcgate's.
const (
	usualGate      = "usual"
	offGate        = "off"
	keptGoroutines = "kept"
)

// Child does a child's work and ends the process, if this process is one that bench/edges
// started, and returns otherwise.
func Child() {
	role.Play("cost", func(o order) error {
		if len(o.Ways) > 0 {
			return o.call()
		}
		return o.serve()
	})
}

const (
	echoService = "spillgate.cost.Echo"
	echoMethod  = "/" + echoService + "/Echo"
	// echoSize is the size of an answer, and over gRPC of a request, in bytes.
	echoSize = 32
	// echoObjective is the objective of the gates: no request comes near it, not even on a machine that
	// stands still for a moment.
	echoObjective = time.Second
)

// serve answers with what it is sent, until the parent ends.
func (o order) serve() error {
	var gate *spillgate.Gate
	if o.Gate == usualGate || o.Gate == offGate {
		cfg := spillgate.Config{Config: spillgate.Admission{Objective: echoObjective}}
		if o.Gate == offGate {
			cfg.Mode = spillgate.Off
		}
		var err error
		if gate, err = spillgate.NewWith(cfg); err != nil {
			return err
		}
		defer gate.Close()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	if o.Web {
		return serveWeb(l, gate)
	}
	if o.Gate == keptGoroutines {
		return serveGRPC(l, nil, grpc.NumStreamWorkers(64))
	}
	return serveGRPC(l, gate)
}

func serveWeb(l net.Listener, gate *spillgate.Gate) error {
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, echoSize))
	}))
	s := &http.Server{Handler: handler}
	if gate != nil {
		s.Handler = httpgate.Handler(gate, handler)
		httpgate.Track(s)
	}
	return s.Serve(l)
}

func serveGRPC(l net.Listener, gate *spillgate.Gate, options ...grpc.ServerOption) error {
	if gate != nil {
		options = grpcgate.ServerOptions(gate)
	}
	s := grpc.NewServer(options...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: echoService, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}}}, struct{}{})
	if gate != nil {
		return grpcgate.Serve(s, l)
	}
	return s.Serve(l)
}

func echo(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.BytesValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	handle := func(context.Context, any) (any, error) { return in, nil }
	if intercept == nil {
		return handle(ctx, in)
	}
	return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: echoMethod}, handle)
}
