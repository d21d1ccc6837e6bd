package grpcgate

import (
	"context"
	"time"

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
	info, retry := saidIn(st)
	token, ok := wire.ResendOf(info.GetMetadata()[resendField])
	if !ok {
		return ctx, 0, false
	}
	return live.WithToken(ctx, token), max(retry.GetRetryDelay().AsDuration(), 0), true
}
