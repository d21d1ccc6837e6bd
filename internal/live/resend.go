package live

import (
	"context"

	"github.com/spillgate/spillgate/internal/wire"
)

type resendKey struct{}

// WithToken returns a context whose requests show a token: that of the Resend with
// which the request was cancelled before.
func WithToken(ctx context.Context, token wire.Token) context.Context {
	return context.WithValue(ctx, resendKey{}, token)
}

// TokenFrom returns the token that requests made with ctx show, zero for none: that of
// WithToken, or the one with which the request came that ctx is of, if the gate of that
// request did not take it. It may be of a server behind, whose cancel was passed on.
func TokenFrom(ctx context.Context) wire.Token {
	if token, ok := ctx.Value(resendKey{}).(wire.Token); ok {
		return token
	}
	if t := ticketFrom(ctx); t != nil && t.shown != nil {
		return *t.shown
	}
	return wire.Token{}
}
