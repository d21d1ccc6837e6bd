package bed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// serveRPC serves a service over gRPC until ctx ends.
func (x *process) serveRPC(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(x.options()...)
	desc := &grpc.ServiceDesc{ServiceName: url.PathEscape(x.service.Name), HandlerType: (*any)(nil)}
	for i := range x.service.Methods {
		desc.Methods = append(desc.Methods, x.method(&x.service.Methods[i]))
	}
	server.RegisterService(desc, struct{}{})
	defer context.AfterFunc(ctx, server.Stop)()
	var err error
	if x.gate != nil {
		err = grpcgate.Serve(server, l)
	} else {
		err = server.Serve(l)
	}
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// options returns what puts the control in front of the server.
func (x *process) options() []grpc.ServerOption {
	switch {
	case x.compared != nil:
		return x.compared.options(x.gate)
	case x.gate != nil:
		return grpcgate.ServerOptions(x.gate, grpcgate.WithTrust(grpcgate.Everyone))
	case x.semaphore != nil:
		return []grpc.ServerOption{grpc.ChainUnaryInterceptor(x.semaphore.intercept)}
	case x.peer != nil && x.peer.Options != nil:
		return x.peer.Options()
	}
	return nil
}

func (x *process) method(m *world.Method) grpc.MethodDesc {
	full := rpcMethod(x.service.Name, m.Name)
	return grpc.MethodDesc{MethodName: url.PathEscape(m.Name),
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			req := new(wrapperspb.UInt64Value)
			if err := decode(req); err != nil {
				return nil, err
			}
			handle := func(ctx context.Context, _ any) (any, error) {
				if x.gate == nil {
					ctx = claimed(ctx)
				}
				if err := x.serve(ctx, m, req.Value); err != nil {
					return nil, statusOf(err)
				}
				if size := answerSize(m, req.Value); size > 0 {
					return wrapperspb.Bytes(make([]byte, size)), nil
				}
				return new(emptypb.Empty), nil
			}
			if intercept == nil {
				return handle(ctx, req)
			}
			return intercept(ctx, req, &grpc.UnaryServerInfo{FullMethod: full}, handle)
		}}
}

func rpcMethod(service, method string) string {
	return "/" + url.PathEscape(service) + "/" + url.PathEscape(method)
}

// claimed returns a context with what a request says of itself, to go on with the calls
// that are made for it.
func claimed(ctx context.Context) context.Context {
	if values := metadata.ValueFromIncomingContext(ctx, wire.MetadataKey); len(values) == 1 {
		if tags, err := wire.ParseTags([]byte(values[0])); err == nil {
			return live.WithTags(ctx, tags)
		}
	}
	return ctx
}

// passedOnMark begins the message of what a service that was called says.
const passedOnMark = "from below: "

// statusOf is what a caller is told of an error: what a service called says, marked as
// that, what workers or locks refused, or the context's.
func statusOf(err error) error {
	var mine *live.Refusal
	switch {
	case isPassedOn(err):
		s := status.Convert(err).Proto()
		s.Message = passedOnMark + s.Message
		return status.FromProto(s).Err()
	case errors.As(err, &mine):
		return refusalStatus(mine.Reason, mine.Error())
	}
	return err
}

// refusalStatus is the status of a refusal whose reason is said.
func refusalStatus(reason work.Reason, message string) error {
	st, err := status.New(codes.ResourceExhausted, message).WithDetails(
		&errdetails.ErrorInfo{Reason: strings.ToUpper(reason.String()), Domain: reasonDomain})
	if err != nil {
		return err
	}
	return st.Err()
}

// reasonDomain is the domain of ErrorInfo in what is refused without a gate.
const reasonDomain = "bed"

func (s *semaphore) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	err = s.do(ctx, func() error {
		resp, err = handle(ctx, req)
		return err
	})
	var no *shed
	if errors.As(err, &no) {
		return nil, refusalStatus(no.reason, no.Error())
	}
	return resp, err
}

// endOfStatus reads a gRPC status; ok is false if err is none.
func endOfStatus(err error) (e end, ok bool) {
	st, ok := status.FromError(err)
	if !ok {
		return end{}, false
	}
	e = end{kind: failed, pushback: -1, below: strings.HasPrefix(st.Message(), passedOnMark)}
	switch st.Code() {
	case codes.DeadlineExceeded, codes.Canceled:
		e.kind = expired
	case codes.ResourceExhausted, codes.PermissionDenied: // a peer says no more than that; the latter is gRPC's word for a tap handle's error
		e.kind = refused
	}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if reason, known := reasonNamed(strings.ToLower(d.Reason)); known {
				e.kind, e.reason = refused, reason
			}
		case *errdetails.RetryInfo:
			e.pushback = d.RetryDelay.AsDuration()
		}
	}
	return e, true
}

// rpcCaller calls over gRPC, by one connection to each replica.
type rpcCaller struct {
	conn    *grpc.ClientConn
	service string
	c       connection
	outlet  *live.Outlet // nil: none
	ranked  bool
	header  string // tags of a caller without a wallet, "" if it has none
}

func newRPCCaller(service string, addrs []string, c connection) (*rpcCaller, error) {
	replicas := manual.NewBuilderWithScheme("bed")
	var state resolver.State
	for _, addr := range addrs {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: addr})
	}
	replicas.InitialState(state)
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithResolvers(replicas), grpc.WithStatsHandler(sentCounter{})}
	options = append(options, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return c.dial(ctx, "tcp", addr) }))
	outlet, ranked, err := c.outlet(service)
	if err != nil {
		return nil, err
	}
	if outlet != nil {
		options = append(options, grpc.WithChainUnaryInterceptor(hold(outlet)))
	}
	if c.wallet {
		options = append(options, grpcgate.DialOptions(grpcgate.WithServiceConfig(serviceConfig(c.retry, "")))...)
	} else {
		options = append(options, grpc.WithDefaultServiceConfig(serviceConfig(c.retry, "round_robin")))
	}
	conn, err := grpc.NewClient("bed:///"+url.PathEscape(service), options...)
	if err != nil {
		return nil, fmt.Errorf("bed: %s: %w", service, err)
	}
	conn.Connect()
	r := &rpcCaller{conn: conn, service: service, c: c, outlet: outlet, ranked: ranked && c.entry}
	if outlet == nil {
		r.header = c.strangersTags()
	}
	return r, nil
}

// strangersTags returns what a caller without a wallet says of its requests.
func (c *connection) strangersTags() string {
	tags := c.tags
	if c.greedy {
		tags.Credits, tags.Demand = true, 100
	}
	if c.wallet || tags == (wire.Tags{}) {
		return ""
	}
	return string(tags.Append(nil))
}

// serviceConfig writes gRPC's own retry policy, if there is one, and the balancer.
func serviceConfig(r *world.Retry, balancer string) string {
	config := map[string]any{}
	if balancer != "" {
		config["loadBalancingConfig"] = []any{map[string]any{balancer: struct{}{}}}
	}
	if r != nil {
		first := max(r.Backoff, time.Millisecond)
		config["methodConfig"] = []any{map[string]any{"name": []any{struct{}{}}, "retryPolicy": map[string]any{
			"maxAttempts": r.Attempts, "backoffMultiplier": 2,
			"initialBackoff":       fmt.Sprintf("%.6fs", first.Seconds()),
			"maxBackoff":           fmt.Sprintf("%.6fs", first.Seconds()*float64(int(1)<<r.Attempts)),
			"retryableStatusCodes": []string{"UNAVAILABLE", "RESOURCE_EXHAUSTED"},
		}}}
	}
	text, _ := json.Marshal(config) // maps of strings, numbers and lists
	return string(text)
}

func (r *rpcCaller) call(ctx context.Context, method string, id uint64) error {
	tags := r.c.tags
	if r.ranked {
		tags.Priority = rank(id)
	}
	switch {
	case r.header != "":
		ctx = metadata.AppendToOutgoingContext(ctx, wire.MetadataKey, r.header)
	case tags != (wire.Tags{}):
		ctx = live.WithTags(ctx, tags)
	case !r.c.wallet && r.outlet == nil: // these two say themselves what they go on with
		if tags := live.Onward(ctx); tags != (wire.Tags{}) {
			ctx = metadata.AppendToOutgoingContext(ctx, wire.MetadataKey, string(tags.Append(nil)))
		}
	}
	return r.conn.Invoke(ctx, rpcMethod(r.service, method), wrapperspb.UInt64(id), new(emptypb.Empty))
}

func (r *rpcCaller) connect(ctx context.Context) error {
	for state := r.conn.GetState(); state != connectivity.Ready; state = r.conn.GetState() {
		if !r.conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("bed: no connection to %s, state %v: %w", r.service, state, ctx.Err())
		}
	}
	return nil
}

func (r *rpcCaller) close() {
	_ = r.conn.Close()
	if r.outlet != nil {
		r.outlet.Close()
	}
}

// sentCounter counts the attempts that go out.
type sentCounter struct{}

func (sentCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (sentCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sentCounter) HandleConn(context.Context, stats.ConnStats)                       {}
func (sentCounter) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, out := s.(*stats.OutHeader); out {
		countSent(ctx)
	}
}
