package grpcgate

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// resendField is the metadata of ErrorInfo that shows, to whoever sends it again, that
// the request was cancelled.
const resendField = "resend"

// Resend reports whether err says that a server cancelled the call while it ran, as
// others waited for what it held. A caller that knows that the call may be executed
// twice waits for after, and makes it again with the context returned, through the same
// client: the server then lets it in once, and does not cancel it. While the server is
// not well yet it refuses, and the context stays good.
//
//	if again, after, ok := grpcgate.Resend(ctx, err); ok {
//		time.Sleep(after)
//		reply, err = client.Report(again, request)
//	}
func Resend(ctx context.Context, err error) (again context.Context, after time.Duration, ok bool) {
	st, isStatus := status.FromError(err)
	if err == nil || !isStatus {
		return ctx, 0, false
	}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			token, good := wire.ResendOf(d.Metadata[resendField])
			if d.Domain == errorDomain && good {
				again, ok = live.WithToken(ctx, token), true
			}
		case *errdetails.RetryInfo:
			after = max(d.GetRetryDelay().AsDuration(), 0)
		}
	}
	if !ok {
		return ctx, 0, false
	}
	return again, after, true
}
