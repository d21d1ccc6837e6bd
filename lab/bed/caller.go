package bed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// caller calls the replicas of a service.
type caller interface {
	// call makes one request, whose work follows from its number.
	call(ctx context.Context, method string, id uint64) error
	// connect waits until the connection stands, where there is one to wait for.
	connect(ctx context.Context) error
	close()
}

// connection is how a caller is to call.
type connection struct {
	plan   *plan
	policy policy
	seed   uint64
	number int // of the caller among those like it
	// who calls: the name of a group or of a service.
	who string
	// wallet makes it keep credits; greedy makes it say so and obey nothing. obeys lets a
	// compared policy hold it back. An entry gives requests their rank, others go on with it.
	wallet, greedy, obeys, entry bool
	// thin, if not nil, keeps its memory small; see thinCaller.
	thin *sync.Pool
	tags wire.Tags
	// from is the address that it calls from; empty: any.
	from string
	// retry is gRPC's own retry policy; nil: none.
	retry *world.Retry
}

func newCaller(service string, addrs []string, c connection) (caller, error) {
	if c.thin != nil {
		return newThinCaller(service, addrs, c)
	}
	if c.policy.over == overGRPC {
		return newRPCCaller(service, addrs, c)
	}
	return newWebCaller(addrs, c), nil
}

// sentKey is the key under which a context counts the messages that were sent for it.
type sentKey struct{}

func countSent(ctx context.Context) {
	if n, _ := ctx.Value(sentKey{}).(*atomic.Int32); n != nil {
		n.Add(1)
	}
}

// end is how a call ended.
type end struct {
	kind     endKind
	reason   work.Reason   // of a refusal
	pushback time.Duration // of a refusal: when to come back; negative: never, or nobody says
	below    bool          // of a refusal: a service that was called made it
}

type endKind uint8

const (
	served endKind = iota
	refused
	expired
	failed
)

// endOf reads the error of a call as any client would.
func endOf(err error) end {
	var mine *live.Refusal
	var foreign *shed
	switch {
	case err == nil:
		return end{kind: served}
	case errors.As(err, &mine):
		return end{kind: refused, reason: mine.Reason, pushback: mine.Pushback}
	case errors.As(err, &foreign):
		return end{kind: refused, reason: foreign.reason, pushback: -1}
	}
	if e, ok := endOfStatus(err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return end{kind: expired}
	}
	var reply *webRefusal
	if errors.As(err, &reply) {
		return end{refused, reply.reason, reply.pushback, reply.below}
	}
	return end{kind: failed}
}

// reasonNamed returns the reason of a name, as labels and statuses have it.
func reasonNamed(name string) (work.Reason, bool) {
	for r := range work.NumReasons {
		if work.Reason(r).String() == name {
			return work.Reason(r), true
		}
	}
	return work.None, false
}
