package httpgate

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// resendField is the field of an answer to a request that was cancelled while it ran.
// Whoever sends the request again sends its value in the field Spillgate.
const resendField = "Spillgate-Resend"

// Resend reports whether an answer with header h says that the server cancelled the
// request while it ran, as others waited for what it held. A caller that knows that the
// request may be executed twice waits for after, and sends it again with the context
// returned, through a Transport: the server then lets it in once, and does not cancel it.
// While the server is not well yet it refuses, and the context stays good. A client
// without a Transport sends the value of the field Spillgate-Resend as that of Spillgate.
func Resend(ctx context.Context, h http.Header) (again context.Context, after time.Duration, ok bool) {
	token, ok := wire.ResendOf(h.Get(resendField))
	if !ok {
		return ctx, 0, false
	}
	if s, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31); err == nil {
		after = time.Duration(s) * time.Second
	}
	return live.WithToken(ctx, token), after, true
}
