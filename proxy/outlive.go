package proxy

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// outlive returns r with a context that does not end because its body was broken off. net/http ends the context of a
// request of HTTP/1 when a read of its body fails, whoever let it fail: the client may be there and wait for the answer
// of a server that answered before the end of the body. end is called once, when the request is over. b may be nil.
//
// After that the deadline still ends it, and so does its client's end of the connection, for which it is looked now and
// then: no read of the connection, which would tell, goes on. Its gate does not: that would end the context that has ended.
//
// Towards an upstream of HTTP/1, whose transport leaves bodies alone, r stays as it is: see endWith.
func (b *requestBody) outlive(r *http.Request) (out *http.Request, end func()) {
	switch {
	case b == nil || b.control == nil:
		return r, func() {}
	case b.hold:
		return r, b.endWith(r.Context())
	}
	ctx := &outliving{Context: r.Context(), body: b, done: make(chan struct{}), answered: make(chan struct{})}
	b.onBreak = ctx.look
	stop := context.AfterFunc(ctx.Context, func() {
		if ctx.Err() != nil {
			ctx.finish()
		} else {
			ctx.look()
		}
	})
	return r.WithContext(ctx), func() {
		stop()
		close(ctx.answered)
	}
}

// endWith breaks the body off when the deadline or the gate ends ctx: the transport of HTTP/1 does not return before its
// read of the body does, and a client that sends as much as it must would keep it. A client that leaves ends the read
// itself. stop is called once, when the request is over, and nothing is broken off after it.
func (b *requestBody) endWith(ctx context.Context) (stop func()) {
	over := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(over)
		if !b.taken && !b.whole.Load() && !errors.Is(context.Cause(ctx), context.Canceled) {
			_ = b.breakOff()
		}
	})
	return func() {
		if !cancel() {
			<-over
		}
	}
}

// outliving is a context that ends with another, unless that ended because a body was broken off: then it ends at the
// other's deadline. It has the other's values, deadline and cause.
type outliving struct {
	context.Context
	body     *requestBody
	done     chan struct{}         // closed after err is there
	err      atomic.Pointer[error] // why it ended, for good; nil before
	answered chan struct{}         // closed when the request is over
	looks    sync.Once             // look has begun
	finishes sync.Once
}

// finish closes done.
func (o *outliving) finish() { o.finishes.Do(func() { close(o.done) }) }

// look begins to look for the client. It may be called again, and does nothing then.
func (o *outliving) look() {
	o.looks.Do(func() {
		go func() {
			if o.late() {
				o.finish()
			}
		}()
	})
}

// end notes why the context ended, unless it has ended, and returns why it did.
func (o *outliving) end(err error) error {
	o.err.CompareAndSwap(nil, &err)
	return *o.err.Load()
}

// goneEvery is how often it is looked whether the client of an answer is there whose request's body was broken off: what
// an answer that says nothing costs beyond its client's end.
const goneEvery = time.Second

// late waits for the deadline or for the client's end of the connection, at which the context ends, and reports whether
// one came before the answer's end.
func (o *outliving) late() bool {
	var over <-chan time.Time
	if d, ok := o.Deadline(); ok {
		timer := time.NewTimer(time.Until(d))
		defer timer.Stop()
		over = timer.C
	}
	look := time.NewTicker(goneEvery)
	defer look.Stop()
	for {
		select {
		case <-over:
			_ = o.end(context.DeadlineExceeded)
			return true
		case <-look.C:
			if o.body.place != nil && gone(o.body.place.Conn) {
				_ = o.end(context.Canceled)
				return true
			}
		case <-o.answered:
			return false
		}
	}
}

// Done implements context.Context.
func (o *outliving) Done() <-chan struct{} { return o.done }

// Err implements context.Context. It knows of the end before Done does, which a goroutine has to close.
func (o *outliving) Err() error {
	if err := o.err.Load(); err != nil {
		return *err
	}
	err := o.Context.Err()
	if err == nil || o.body.broken.Load() && errors.Is(context.Cause(o.Context), context.Canceled) {
		return nil
	}
	return o.end(err)
}
