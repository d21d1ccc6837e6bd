package workflowslive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/internal/harness/service"
	"github.com/spillgate/spillgate/internal/live"
)

// tier is a service of the call graph.
type tier string

const (
	front     tier = "FE"
	partition tier = "PS"
	extent    tier = "EN"
)

// tierSize is the number of processes of each tier.
const tierSize = 2

const (
	serviceName = "spillgate.lab.Workflows"
	method      = "/" + serviceName + "/Do"
)

// below marks the refusals that a front end passes on from further down.
const below = "below: "

// process is one server.
type process struct {
	gate      *live.Gate
	sleep     *service.Station // without a limit: workers are elsewhere
	workers   *live.Resource
	semaphore *live.Resource
	next      []*grpc.ClientConn
	do        func(ctx context.Context, body []byte) error
}

// newProcess makes a server of a tier, which calls those at next.
func newProcess(t tier, s *setting, c control, next []string) (p *process, err error) {
	p = &process{}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.gate, err = live.NewGate(s.gate(t, c)); err != nil {
		return p, err
	}
	if p.sleep, err = service.New(service.Config{Kind: service.Sleep, Mean: time.Millisecond}); err != nil {
		return p, err
	}
	for _, addr := range next {
		conn, err := grpc.NewClient("passthrough:///"+addr, append(grpcgate.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			return p, err
		}
		p.next = append(p.next, conn)
	}
	switch t {
	case front:
		p.do = p.front
	case extent:
		p.do = p.extent
	case partition:
		p.do = p.partition
		for name, r := range map[string]struct {
			to       **live.Resource
			capacity int
		}{"workers": {&p.workers, s.Workers}, "semaphore": {&p.semaphore, s.Permits}} {
			if *r.to, err = live.NewResource(live.ResourceConfig{Queue: s.schedule(c), Capacity: r.capacity, Waiting: wide}); err != nil {
				return p, err
			}
			if watched := p.gate.WatchResource(name, *r.to); watched != (c != deadlines) {
				return p, fmt.Errorf("workflowslive: %s watched: %v, with %q", name, watched, c)
			}
		}
	default:
		return p, fmt.Errorf("workflowslive: no tier %q", t)
	}
	return p, nil
}

func (p *process) close() {
	for _, conn := range p.next {
		_ = conn.Close()
	}
	for _, r := range []*live.Resource{p.workers, p.semaphore} {
		if r != nil {
			r.Close()
		}
	}
	if p.sleep != nil {
		p.sleep.Close()
	}
	if p.gate != nil {
		_ = p.gate.Close()
	}
}

// serve serves l until ctx ends.
func (p *process) serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(grpcgate.ServerOptions(p.gate)...)
	server.RegisterService(&grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Do",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			req := new(wrapperspb.BytesValue)
			if err := decode(req); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, _ any) (any, error) {
				if err := p.do(ctx, req.Value); err != nil {
					return nil, toStatus(err)
				}
				return new(emptypb.Empty), nil
			}
			if intercept == nil {
				return handle(ctx, req)
			}
			return intercept(ctx, req, &grpc.UnaryServerInfo{FullMethod: method}, handle)
		},
	}}}, struct{}{})
	defer context.AfterFunc(ctx, server.Stop)()
	return grpcgate.Serve(server, l)
}

// toStatus makes a status of what a resource refused; errors of calls are one.
func toStatus(err error) error {
	var refusal *live.Refusal
	if errors.As(err, &refusal) {
		return status.Error(codes.Unavailable, refusal.Error())
	}
	if ctx := status.FromContextError(err); ctx.Code() != codes.Unknown {
		return ctx.Err()
	}
	return err
}

func call(ctx context.Context, conn *grpc.ClientConn, body []byte) error {
	return conn.Invoke(ctx, method, wrapperspb.Bytes(body), new(emptypb.Empty))
}

// parse takes the body of a request as JSON into v.
func parse(body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return status.Errorf(codes.InvalidArgument, "the body: %v", err)
	}
	return nil
}

func (p *process) to(i int) (*grpc.ClientConn, error) {
	if i < 0 || i >= len(p.next) {
		return nil, status.Errorf(codes.InvalidArgument, "process %d of %d is called", i, len(p.next))
	}
	return p.next[i], nil
}

// front passes a request on.
func (p *process) front(ctx context.Context, body []byte) error {
	var todo plan
	if err := parse(body, &todo); err != nil {
		return err
	}
	conn, err := p.to(todo.PS)
	if err != nil {
		return err
	}
	if err := call(ctx, conn, body); err != nil {
		s := status.Convert(err).Proto()
		s.Message = below + s.Message
		return status.FromProto(s).Err()
	}
	return nil
}

// partition works, and then has extent nodes work.
func (p *process) partition(ctx context.Context, body []byte) error {
	var todo plan
	if err := parse(body, &todo); err != nil {
		return err
	}
	work := func(ctx context.Context) error {
		return p.workers.Do(ctx, 0, func(ctx context.Context) error { return p.sleep.DoFor(ctx, todo.Work) })
	}
	var err error
	if todo.Lock {
		err = p.semaphore.Do(ctx, 0, work)
	} else {
		err = work(ctx)
	}
	for _, r := range todo.Reads {
		if err != nil {
			return err
		}
		var conn *grpc.ClientConn
		if conn, err = p.to(r.EN); err != nil {
			return err
		}
		var body []byte
		if body, err = json.Marshal(r); err != nil {
			return err
		}
		err = call(ctx, conn, body)
	}
	return err
}

// extent works: a slot of its gate is a worker.
func (p *process) extent(ctx context.Context, body []byte) error {
	var todo read
	if err := parse(body, &todo); err != nil {
		return err
	}
	return p.sleep.DoFor(ctx, todo.Work)
}
