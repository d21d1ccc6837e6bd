package http1

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Config says how a server is reached. Its zero fields but Dial have a meaning of their own.
type Config struct {
	// Dial makes a connection, ready for a request: with TLS, hands are shaken. It must end by itself in
	// time: the context has the values of a request that waits for the connection, but does not end.
	// Required. An error is returned to that request.
	Dial func(context.Context) (net.Conn, error)
	// Header is the largest header of an answer in bytes, with those of all 1xx answers before it that
	// nobody asks for. 0 is 10 MiB.
	Header int64
	// Response is how long the server may take from the end of the request to the end of its answer's
	// header. 0 is as long as the request's context.
	Response time.Duration
	// Continue is how long a body is held back for which the request expects 100 Continue. 0 is no time.
	Continue time.Duration
	// Idle is how many connections are kept that no request uses; 0 is none. Larger saves connecting,
	// smaller saves the server's memory.
	Idle int
	// IdleTime is how long such a connection is kept. 0 is as long as the server keeps it.
	IdleTime time.Duration
	// Keep is asked, without a lock, whether a connection is kept that no request uses any more, or none ever used. Nil is
	// always. It does not end one that waits.
	Keep func() bool
}

// defaultHeader is what Config.Header is when it is 0; http.Transport has the same.
const defaultHeader = 10 << 20

// ErrOther is wrapped by an error of Config.Dial that says that the server speaks no HTTP/1 on its
// connections. RoundTrip then leaves the request's body open and unread, for another transport.
var ErrOther = errors.New("http1: the server speaks another version of HTTP")

// ErrRequest is wrapped by the error of a request that cannot be sent as it is, such as for a line break in a
// field. The server has no part in it.
var ErrRequest = errors.New("http1: the request cannot be sent")

// ErrStale is wrapped by the error of a request that failed on a connection that was used before, without a
// byte of an answer, and that may not be sent again: the server has probably closed the connection meanwhile.
var ErrStale = errors.New("http1: the server closed a kept connection")

// ErrHeader is wrapped by the error of a request whose answer has a header larger than Config.Header.
var ErrHeader = errors.New("http1: the header of an answer is too large")

// Client is an http.RoundTripper for one server: it does not look at the host of a URL but for the Host
// field. Its methods may be called at once from any goroutine.
type Client struct {
	cfg Config

	mu     sync.Mutex
	idle   []*conn     // most recently used last
	wants  []*want     // requests without a connection, in their order
	spare  []*dialling // for which no request waits any more, the newest last
	rests  bool        // none is kept until the next request
	closed bool
	sweeps *time.Timer // nil: none was ever needed
	swept  bool        // it runs
}

// New returns a client without connections.
func New(cfg Config) *Client {
	if cfg.Header <= 0 {
		cfg.Header = defaultHeader
	}
	return &Client{cfg: cfg}
}

// RoundTrip implements http.RoundTripper. Unlike http.Transport it adds no User-Agent, and never asks for
// compression. The body of an answer 101 is an io.ReadWriteCloser, with CloseWrite where the connection
// has it; the connection then is the caller's, and the end of the request's context does nothing to it.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		resp, again, err := c.try(r)
		if !again {
			return resp, err
		}
		if r.Context().Err() != nil {
			closeBody(r)
			return nil, context.Cause(r.Context())
		}
		if r.Body == nil || r.Body == http.NoBody {
			continue
		}
		copied := *r
		if copied.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
		r = &copied
	}
}

// try sends r once. again says that it may be sent again.
func (c *Client) try(r *http.Request) (resp *http.Response, again bool, err error) {
	cn, err := c.get(r.Context())
	if err != nil {
		if !errors.Is(err, ErrOther) {
			closeBody(r)
		}
		return nil, false, err
	}
	head := buffers.Get().(*buffer)
	plan, err := head.write(r)
	if err != nil {
		head.free()
		c.put(cn)
		closeBody(r)
		return nil, false, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	reused := cn.reused
	x := &exchange{conn: cn, r: r, plan: plan}
	resp, err = x.run(head)
	if err != nil || !x.lent {
		head.free()
	}
	if err != nil && reused && repeatable(r, err) {
		return nil, true, err
	}
	return resp, false, plain(err, reused)
}

// repeatable reports whether a request may be sent again that failed with err on a connection that was
// used before: see the package.
func repeatable(r *http.Request, err error) bool {
	none := r.Body == nil || r.Body == http.NoBody
	var unwritten nothingWritten
	if errors.As(err, &unwritten) {
		return none || r.GetBody != nil
	}
	var unanswered nothingRead
	if !errors.As(err, &unanswered) || !none && r.GetBody == nil {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return has(r.Header, "Idempotency-Key") || has(r.Header, "X-Idempotency-Key")
}

func has(h http.Header, name string) bool {
	_, ok := h[name]
	return ok
}

// nothingWritten is the error of a request of which nothing went out, nothingRead that of one to which
// not a byte came back.
type (
	nothingWritten struct{ error }
	nothingRead    struct{ error }
)

func (e nothingWritten) Unwrap() error { return e.error }
func (e nothingRead) Unwrap() error    { return e.error }

// plain returns an error as callers see it.
func plain(err error, reused bool) error {
	switch e := err.(type) {
	case nothingWritten:
		err = e.error
	case nothingRead:
		err = e.error
	default:
		return err
	}
	if reused {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}
