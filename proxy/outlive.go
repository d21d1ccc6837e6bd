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
	parent := r.Context()
	ctx := &outliving{Context: parent, done: make(chan struct{})}
	stop := context.AfterFunc(parent, func() {
		if !b.broken.Load() || !errors.Is(context.Cause(parent), context.Canceled) {
			close(ctx.done)
		}
	})
	return r.WithContext(ctx), func() { stop() }
}

// outliving is a context that ends after another, or not at all. It has the other's values, deadline and cause.
type outliving struct {
	context.Context
	done chan struct{}
}

// Done implements context.Context.
func (o *outliving) Done() <-chan struct{} { return o.done }

// Err implements context.Context.
func (o *outliving) Err() error {
	select {
	case <-o.done:
		return o.Context.Err()
	default:
		return nil
	}
}
