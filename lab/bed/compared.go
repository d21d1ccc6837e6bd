package bed

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
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/worlds"
)

// A compared policy stands where Spillgate does, behind the same edge: a
// baseline.Door in a live.Gate, a baseline.Sender in a live.Outlet. What it says beside
// what Spillgate's replies carry, a level, is in a trailer of its own.
//
//	call ─ Outlet: send? ─▶ tags: priority, demand ─▶ grpcgate ─ Gate: Door
//	          ▲                                                     │ Feedback.Level
//	          └───── reason, in the reply; level, in a trailer ◀────┘

// levelKey is the trailer with the admission level, in decimal.
const levelKey = "bed-level"

// leveled notes the level that a policy put on its last reply.
type leveled struct {
	baseline.Door
	level atomic.Int64
}

// newLeveled makes a compared policy in front of a replica.
func newLeveled(o *order, p *plan, s *world.Service, name string) (*leveled, error) {
	at := mesh.Place{Service: s.Name, Process: o.Replica - 1, Workers: s.Workers, Objective: s.Objective}
	door, err := worlds.Peer(p.World, name, true).Door(o.Seed, at)
	return &leveled{Door: door}, err
}

// Feedback implements baseline.Door.
func (d *leveled) Feedback(now mono.Time, t *admission.Ticket) baseline.Feedback {
	f := d.Door.Feedback(now, t)
	d.level.Store(int64(f.Level))
	return f
}

// options puts the policy in front of a server. The level is written outside of the gate,
// where what the answer is has been decided.
func (d *leveled) options(g *live.Gate) []grpc.ServerOption {
	announce := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		resp, err := handle(ctx, req)
		_ = grpc.SetTrailer(ctx, metadata.Pairs(levelKey, strconv.FormatInt(d.level.Load(), 10))) // fails only if the call has ended
		return resp, err
	}
	return append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(announce)}, grpcgate.ServerOptions(g, grpcgate.WithTrust(grpcgate.Everyone))...)
}

// outlet returns what holds calls to a service back under a compared policy, nil if nothing
// does, and whether it needs ranks. A policy that grants credits has Spillgate's own
// wallet.
func (c *connection) outlet(service string) (o *live.Outlet, ranked bool, err error) {
	if !c.policy.compared || !c.obeys {
		return nil, false, nil
	}
	control := worlds.Peer(c.plan.World, c.policy.kind, true)
	policy, err := control.Sender(c.seed, mesh.Place{Process: c.number}, mesh.Place{Service: service})
	if err != nil {
		return nil, false, err
	}
	if _, credits := policy.(*baseline.Wallet); credits {
		c.wallet = true
		return nil, false, nil
	}
	return live.NewOutlet(policy, nil), control.Ranked, nil
}

// rank is the priority of a request where a policy needs ranks.
func rank(id uint64) work.Priority { return work.Priority(mix(id^1) % uint64(work.MaxPriority+1)) }

// hold puts a client's policy behind the unary calls of one ClientConn.
func hold(o *live.Outlet) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		tags := live.Onward(ctx)
		sending, err := o.Submit(ctx, tags.Priority)
		if err != nil {
			if r := (*live.Refusal)(nil); errors.As(err, &r) && r.Unwrap() == nil {
				return status.Error(codes.ResourceExhausted, err.Error())
			}
			return status.FromContextError(ctx.Err()).Err()
		}
		tags.Demand = sending.Demand()
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
