package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Refusal is the error of a request that was not served.
type Refusal struct {
	// ID is what Gate.Explain knows the refusal by, 0 if no gate here or, with grpcgate, further
	// down gave it one.
	ID RefusalID
	// Reason says why.
	Reason work.Reason
	// Pushback is how long to wait before another attempt; negative means that
	// another attempt is of no use.
	Pushback time.Duration
	// Grant is the credits for the refused client, if HasGrant.
	Grant    wire.Grant
	HasGrant bool
	// Resend is what a request needs to be sent again that was cancelled while it ran,
	// zero of others.
	Resend wire.Resend
	announced
	// cause is the error of the caller's context, if that ended the wait.
	cause error
}

// Reply returns what to tell the client beside the refusal, in its exact form.
func (r *Refusal) Reply() wire.Reply {
	out := wire.Reply{
		Grant: r.Grant, HasGrant: r.HasGrant,
		Shed: wire.Shed{Reason: r.Reason, Retryable: r.Pushback >= 0, Pushback: r.Pushback}, HasShed: true,
	}
	out.Resend = r.Resend
	r.announced.fill(&out)
	return out
}

// Error says what happened, and what to do about it. The texts are few, so that logs can
// be grouped by them; the delays are in the fields.
func (r *Refusal) Error() string {
	where := "the server refused the request"
	if !r.Reason.Sent() {
		where = "the request was not sent"
	}
	switch {
	case r.Resend.Token != (wire.Token{}):
		return fmt.Sprintf("spillgate: the server cancelled the request while it ran: %v; if it may be executed twice, send it again after the delay, with its token", r.Reason)
	case r.Pushback < 0:
		return fmt.Sprintf("spillgate: %s: %v; do not retry", where, r.Reason)
	default:
		return fmt.Sprintf("spillgate: %s: %v; retry after the delay", where, r.Reason)
	}
}

// Unwrap returns the error of the caller's context if that is what ended the
// wait, so that errors.Is(err, context.Canceled) holds.
func (r *Refusal) Unwrap() error { return r.cause }

// Ended returns the error of a context that has ended, and with it the cause, if that is another.
func Ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
