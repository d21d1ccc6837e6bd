package httpgate

import (
	"context"
	"io"
	"net/http"
	"time"
)

// early is the body of a stream whose first bytes are awaited before the request asks for a
// slot: a stream that says nothing holds none. It is read by one goroutine at a time.
type early struct {
	io.ReadCloser
	quiet bool // nothing had come when the wait was over

	came  chan struct{} // closed when the first read has returned
	buf   [512]byte
	n     int
	err   error
	given int // of n
}

// busyShare is what part of its slots a gate must have in use for streams to be awaited: where
// fewer are, one that is held for nothing keeps none from others, and the wait costs a
// goroutine a request.
const busyShare = 8

// await waits for the first bytes of r's body, where it may be half of a two-way stream, for
// as long as a stream may be silent that holds a slot. It returns nil where it did not wait.
func (h *handler) await(ctx context.Context, r *http.Request, t *Target) *early {
	if r.ProtoMajor < 2 || r.ContentLength >= 0 || r.Body == nil || r.Body == http.NoBody || h.streamAfter <= 0 {
		return nil
	}
	if s := t.gate.Stats(); (s.Running+s.Waiting)*busyShare < s.Limit {
		return nil
	}
	e := &early{ReadCloser: r.Body, came: make(chan struct{})}
	go func() {
		defer close(e.came)
		e.n, e.err = e.ReadCloser.Read(e.buf[:]) // returns when the stream ends, at the latest
	}()
	timer := time.NewTimer(h.streamAfter)
	defer timer.Stop()
	select {
	case <-e.came:
	case <-ctx.Done():
	case <-timer.C:
		e.quiet = true
	}
	return e
}

// Read implements io.Reader.
func (e *early) Read(p []byte) (int, error) {
	<-e.came
	if e.given < e.n {
		n := copy(p, e.buf[e.given:e.n])
		e.given += n
		if e.given < e.n {
			return n, nil
		}
		return n, e.err
	}
	if e.err != nil {
		return 0, e.err
	}
	return e.ReadCloser.Read(p)
}
