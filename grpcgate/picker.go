package grpcgate

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/spanevent"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// picker sends each attempt to the server that its permit names.
type picker struct {
	pool  *pool
	subs  []balancer.SubConn // for calls without permit: exempt ones
	byAcc map[*live.Server]*backend
	turn  atomic.Uint32
}

// picker returns a picker for the servers connected now.
func (p *pool) picker() balancer.Picker {
	p.mu.Lock()
	defer p.mu.Unlock()
	pk := &picker{pool: p, byAcc: make(map[*live.Server]*backend, len(p.backends))}
	for sub, b := range p.backends {
		pk.subs = append(pk.subs, sub)
		if b.account != nil {
			pk.byAcc[b.account] = b
		}
	}
	return pk
}

// Pick does not block. An attempt without a permit (the first call of a
// ClientConn, a retry, a call whose server went away) takes a free credit or is
// picked again when one was found for it.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if len(p.subs) == 0 {
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	}
	o := outgoingFrom(info.Ctx)
	if o == nil {
		return balancer.PickResult{SubConn: p.subs[int(p.turn.Add(1)%uint32(len(p.subs)))]}, nil
	}
	permit, err, coming := o.take(p.pool)
	switch {
	case err != nil:
		return balancer.PickResult{}, err
	case permit == nil && coming:
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
	case permit != nil:
		if b := p.byAcc[permit.Server()]; b != nil {
			return p.send(o, permit, b), nil
		}
		permit.Return(0) // its server is gone
	}
	wallet := p.pool.link(o)
	if wallet == nil {
		return balancer.PickResult{}, balancer.ErrNoSubConnAvailable // closing
	}
	if permit := wallet.TryAcquire(info.Ctx); permit != nil {
		if b := p.pool.behind(permit.Server()); b != nil {
			return p.send(o, permit, b), nil
		}
		permit.Return(0)
	}
	o.fetch(info.Ctx, p.pool, wallet)
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

// fetch waits for a credit on behalf of an attempt and has it picked again. It does nothing if
// what an earlier one found is not taken yet: that came after the pick had looked, and the pick
// that follows it takes it. Nor does it if no server is connected any more: grpc is about to have a picker that says so, and
// waits or fails by its own rules.
func (o *outgoing) fetch(ctx context.Context, p *pool, wallet *live.Wallet) {
	lost := p.untilLost()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fetching == p.number || o.permit != nil || o.err != nil || lost.Err() != nil {
		return
	}
	o.fetching = p.number
	attempt := o.attempts
	go func() {
		permit := new(live.Permit)
		ok, err := wallet.AcquireOr(ctx, lost.Done(), permit)
		spanevent.Waited(ctx, spanevent.CreditWait, permit.Waited())
		if !ok {
			permit = nil
		}
		if lost.Err() != nil && ctx.Err() == nil {
			err = nil // whichever was heard of first
		}
		o.mu.Lock()
		if o.attempts != attempt || o.fetching != p.number { // it was sent with another one, found by a pick, or has another balancer
			o.mu.Unlock()
			if permit != nil {
				permit.Return(0)
			}
			return
		}
		o.fetching = 0
		if err != nil {
			spanevent.Refused(ctx, err)
			live.UnsentBelow(ctx, err)
			if !o.counted {
				o.counted = true
				o.client.o.calls.Target(o.conn.Target()).NotSent(err)
			}
			o.err = refusalError(err)
		}
		o.permit = permit
		o.mu.Unlock()
		context.AfterFunc(ctx, o.giveBack) // it may end before it is picked again
		p.refresh(false)
	}()
}

// plainForGood is after how many answers in a row without a grant a server is asked whether it
// grants any more, as one whose gate was turned off does not: four times as many as come between two
// grants of one that does, as answers overtake each other.
const plainForGood = 64

// attempt is one attempt of a call, from its pick to its end.
type attempt struct {
	call   *outgoing
	pool   *pool
	on     *backend
	permit *live.Permit
	sent   mono.Time
}

func (p *picker) send(o *outgoing, permit *live.Permit, b *backend) balancer.PickResult {
	o.mu.Lock()
	a := &o.first
	if o.attempts > 0 {
		a = new(attempt)
	}
	o.attempts++
	o.fetching = 0
	o.reply = nil
	o.holds = permit
	o.mu.Unlock()
	*a = attempt{call: o, pool: p.pool, on: b, permit: permit, sent: live.Now()}
	return balancer.PickResult{SubConn: b.sub, Done: a.done}
}

// done reads what the server said and gives the credit back.
func (a *attempt) done(info balancer.DoneInfo) {
	if !info.BytesSent && info.Err == nil { // its connection had just ended: grpc picks again
		a.permit.Return(0)
		return
	}
	o, server := a.call, a.permit.Server()
	var reply wire.Reply
	said := len(info.Trailer[wire.MetadataKey]) > 0
	if said {
		reply = replyOf(info.Trailer, &o.client.o.counters.Malformed)
	}
	code := codes.OK
	if info.Err != nil {
		code = status.Code(info.Err)
	}
	switch {
	case reply.HasGrant:
		a.on.plain.Store(0)
	case o.told && !reply.HasShed && info.BytesReceived && answered(code):
		if a.on.plain.Add(1)%plainForGood == 0 {
			if _, credited := server.Window(); credited {
				server.Reset() // the next request asks
			}
		}
		if a.permit.Asks() {
			server.OnPlainReply()
		}
	}
	if said && reply != (wire.Reply{}) {
		o.sent.Answered(a.on.callee, reply)
		kept := reply
		o.mu.Lock()
		o.reply = &kept
		o.mu.Unlock()
	}
	if o.stream {
		o.sent.End(&reply)
	}
	if reply.HasShed {
		live.RefusedBelow(o.Context)
		if reply.Shed.Reason == work.Draining {
			a.pool.drained(server, reply.Shed.Pushback)
		}
	}
	now, served := live.Now(), time.Duration(0)
	executed := !reply.HasShed && info.BytesReceived && answered(code)
	if executed && !o.stream {
		served = now.Sub(a.sent)
	}
	if reply.HasGrant {
		a.permit.ReturnAt(now, &reply.Grant, served)
	} else {
		a.permit.ReturnAt(now, nil, served)
	}
	a.pool.called.Count(fate(&reply, code))
}

// fate is how an attempt ended, as calls are counted.
func fate(reply *wire.Reply, code codes.Code) (live.Fate, work.Reason) {
	switch {
	case reply.HasShed:
		return live.Refused, reply.Shed.Reason
	case answered(code):
		return live.Answered, work.None
	}
	return live.Failed, work.None
}

// answered reports whether a status is likely the server's own: the others are
// also made by the client, or by what stands between.
func answered(c codes.Code) bool {
	switch c {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return false
	}
	return true
}
