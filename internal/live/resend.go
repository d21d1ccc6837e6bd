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

// TokenFrom returns the token that requests made with ctx show, zero for none.
func TokenFrom(ctx context.Context) wire.Token {
	token, _ := ctx.Value(resendKey{}).(wire.Token)
	return token
}
