package arena

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// A compared policy stands where Spillgate does, behind the same edges: a
// baseline.Door in a live.Gate, a baseline.Sender in a live.Outlet. What a policy
// says beside what Spillgate's replies carry, a level, is in a trailer of its own.
//
//	call ─ Outlet: send? ─▶ tags: priority, demand ─▶ grpcgate ─ Gate: Door
//	          ▲                                                     │ Feedback.Level
//	          └───── reason, in the reply; level, in a trailer ◀────┘

// levelKey is the trailer with the admission level, in decimal.
const levelKey = "arena-level"

// leveled notes the level that a policy put on its last reply.
type leveled struct {
	baseline.Door
	level atomic.Int64
}

// Feedback implements baseline.Door.
func (d *leveled) Feedback(now mono.Time, t *admission.Ticket) baseline.Feedback {
	f := d.Door.Feedback(now, t)
	d.level.Store(int64(f.Level))
	return f
}

// announce puts the level on each answer. It stands outside of the gate, so the
// answer it writes on is decided.
func (d *leveled) announce(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	resp, err := handle(ctx, req)
	_ = grpc.SetTrailer(ctx, metadata.Pairs(levelKey, strconv.FormatInt(d.level.Load(), 10))) // fails only if the call has ended
	return resp, err
}

// gated installs a policy in a server.
func gated(s Setting, door baseline.Door) Installed {
	d := &leveled{Door: door}
	gate := live.NewGateOf(d, s.Objective)
	options := append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(d.announce)}, grpcgate.ServerOptions(gate)...)
	return Installed{Options: options, Register: grpcgate.RegisterControl, Stop: func() { _ = gate.Close() }}
}

type priorityKey struct{}

// withPriority gives the calls made with the context a priority, for the policies
// that know one.
func withPriority(ctx context.Context, p work.Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

// intercept puts a client's policy behind the unary calls of one ClientConn.
func intercept(o *live.Outlet) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		priority, _ := ctx.Value(priorityKey{}).(work.Priority)
		sending, err := o.Submit(ctx, priority)
		if err != nil {
			if r := (*live.Refusal)(nil); errors.As(err, &r) && r.Unwrap() == nil {
				return status.Error(codes.ResourceExhausted, err.Error())
			}
			return status.FromContextError(ctx.Err()).Err()
		}
		tags := wire.Tags{Priority: priority, Demand: sending.Demand()}
		ctx = metadata.AppendToOutgoingContext(ctx, wire.MetadataKey, string(tags.Append(nil)))
		var trailer metadata.MD
		answered := false
		defer func() {
			if !answered { // also after a panic below
				sending.Lost()
			}
		}()
		err = invoke(ctx, method, req, reply, conn, append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
		if f, ok := feedbackOf(trailer); ok {
			answered = true
			sending.Answered(f)
		}
		return err
	}
}

// feedbackOf reads what the server's policy said, false if no policy has answered.
func feedbackOf(trailer metadata.MD) (f baseline.Feedback, ok bool) {
	level := trailer.Get(levelKey)
	if len(level) != 1 {
		return f, false
	}
	n, err := strconv.ParseUint(level[0], 10, 32)
	if err != nil || n > uint64(work.MaxPriority) {
		return f, false
	}
	f.Level = int(n)
	if msg := trailer.Get(wire.MetadataKey); len(msg) == 1 {
		if r, err := wire.ParseReply([]byte(msg[0])); err == nil && r.HasShed {
			f.Reason = r.Shed.Reason
		}
	}
	return f, true
}
