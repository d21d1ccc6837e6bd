package proxy

import (
	"context"
	"errors"
	"net/http"
)

// outlive returns r with a context that does not end because its body was broken off. net/http ends the context of a
// request of HTTP/1 when a read of its body fails, whoever let it fail: the client may be there and wait for the answer
// of a server that answered before the end of the body. end is called when the request is over. b may be nil.
func (b *requestBody) outlive(r *http.Request) (out *http.Request, end func()) {
	if b == nil || b.control == nil || b.hold {
		return r, func() {}
	}
	ctx := &outliving{Context: r.Context(), body: b, done: make(chan struct{})}
	stop := context.AfterFunc(ctx.Context, func() {
		if ctx.over() {
			close(ctx.done)
		}
	})
	return r.WithContext(ctx), func() { stop() }
}

// outliving is a context that ends with another, unless that ended because a body was broken off. It has the other's
// values, deadline and cause.
type outliving struct {
	context.Context
	body *requestBody
	done chan struct{}
}

// over reports whether the other context ended, and not for the body.
func (o *outliving) over() bool {
	return o.Context.Err() != nil && (!o.body.broken.Load() || !errors.Is(context.Cause(o.Context), context.Canceled))
}

// Done implements context.Context.
func (o *outliving) Done() <-chan struct{} { return o.done }

// Err implements context.Context. It knows of the end before Done does, which a goroutine has to close.
func (o *outliving) Err() error {
	select {
	case <-o.done:
		return o.Context.Err()
	default:
	}
	if o.over() {
		return o.Context.Err()
	}
	return nil
}
