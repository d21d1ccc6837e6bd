package etcd

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/tracer"
)

// Guard stands in front of one etcd. Its methods may be called from any goroutine.
type Guard struct {
	gate   *live.Gate
	tracer *tracer.Tracer // nil: nothing is recorded
	index  tracer.Resource
	widths widths
}

// New returns a Guard whose requests go through gate. The error is that of tracer.Of: the
// gate looks for no culprits or has a tracer, or the system has no task files. The Guard
// that comes with it works all the same, and finds no more culprits than those who hold
// the gate's slots. Close ends a goroutine.
func New(gate *live.Gate) (*Guard, error) {
	g := &Guard{gate: gate}
	tr, err := tracer.Of(gate, tracer.Config{})
	if err != nil {
		return g, err
	}
	g.tracer = tr
	g.index, err = tr.Resource("etcd index", tracer.Lock)
	return g, err
}

// Close lets go of what New made, and returns once the requests inside have ended. The
// gate stays open.
func (g *Guard) Close() error { return g.tracer.Close() }

// exempt are the methods that pass without the gate: see the comment of the package.
var exempt = []string{"etcdserverpb.Watch", "etcdserverpb.Lease/LeaseKeepAlive", "etcdserverpb.Maintenance",
	"etcdserverpb.Cluster", "v3electionpb.Election", "v3lockpb.Lock"}

// ServerOptions returns the options for etcd's gRPC servers. opts are further options of
// grpcgate; etcd's own interceptors run before.
func (g *Guard) ServerOptions(opts ...grpcgate.Option) []grpc.ServerOption {
	own := []grpcgate.Option{grpcgate.WithExempt(exempt...), grpcgate.WithContent(g.content)}
	return append(grpcgate.ServerOptions(g.gate, append(own, opts...)...), grpc.ChainUnaryInterceptor(g.record))
}

// content says of a wide range how wide it is. Its work is in proportion to its width, so
// it cannot have the objective of a get or a put. What writes is not cancelled: once it is proposed,
// etcd does it whether or not its caller waits.
func (g *Guard) content(method string, req any) grpcgate.Content {
	w, writes := g.look(method, req)
	if !w.wide() {
		return grpcgate.Content{NoCancel: writes}
	}
	return grpcgate.Content{Kind: method + w.suffix(), Background: true, NoCancel: writes}
}

// record tells the gate what the call does to the index while etcd works on it.
func (g *Guard) record(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	task := tracer.From(ctx)
	switch {
	case task == nil || !contends(info.FullMethod):
	case g.wide(info.FullMethod, req):
		task.SetShared(g.index, true)
		task.Acquire(g.index, 1)
		defer task.Release(g.index, 1)
	default:
		task.WaitBegin(g.index)
		defer task.WaitEnd(g.index)
	}
	resp, err := handle(ctx, req)
	if err == nil {
		g.learn(info.FullMethod, req, resp)
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, live.ErrCancelled) {
		return nil, cause // whatever etcd makes of it
	}
	return resp, err
}

// contends reports whether a method of etcd needs the index: reads and writes do, and so
// does what is applied in the order of writes.
func contends(method string) bool {
	return strings.HasPrefix(method, "/etcdserverpb.KV/") || strings.HasPrefix(method, "/etcdserverpb.Lease/")
}
