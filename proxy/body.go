package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
)

// errBodyClosed is what a read of a closed request body returns.
var errBodyClosed = errors.New("proxy: read of a closed request body")

// requestBody is the body of a client's request on its way to an upstream.
//
// Its Close makes a Read that waits for the client return. The HTTP/2 transport
// relies on that: when the upstream dies, the exchange does not end before the
// body does, and the client of a two-way stream may have nothing to say for
// hours. The reverse proxy's own body has a Close that does nothing.
//
// Over HTTP/1 it also bounds how long a client may be silent. Over HTTP/2 it does
// not: a stream may be silent for hours and costs no connection.
type requestBody struct {
	body    io.ReadCloser
	left    atomic.Int64             // until the length that was announced; negative without one
	control *http.ResponseController // of HTTP/1, nil of HTTP/2
	silence time.Duration            // of HTTP/1
	hold    bool                     // Close leaves the body alone
	// trailers are filled in when the body has ended; trusted is what they may say.
	trailers http.Header
	trusted  bool
	place    *placed                  // of the connection, nil without one
	taken    bool                     // all of it has left the connection
	final    bool                     // the answer is the last on its connection; of the handler's goroutine
	whole    atomic.Bool              // read to its end
	begun    atomic.Bool              // somebody read from it
	ended    atomic.Bool              // by its end, an error or a Close
	broken   atomic.Bool              // by a Close before its end
	slow     atomic.Bool              // the client was silent for too long
	foul     atomic.Bool              // the client framed it wrongly or left in the middle
	closed   sync.Once                // over HTTP/2: a body takes one Close at a time
	onBreak  func()                   // called when it is broken off, nil: nothing
	reaches  atomic.Pointer[upstream] // which waits for the end of the body, nil: none does
	stuck    atomic.Int64             // mono.Time since when what came is not taken; 0: the client is waited for
}

// serverLingers is how much is left of a body of known length when net/http keeps its connection for a while by itself.
const serverLingers = 256 << 10

// newRequestBody wraps the body of r, if it has one. The HTTP/1 transport closes
// bodies that it has read as well as ones that it has not, and does not wait for
// a Read to return, so towards it Close does nothing.
func newRequestBody(w http.ResponseWriter, r *http.Request, silence time.Duration, http1 bool) *requestBody {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	b := &requestBody{body: r.Body, silence: silence, hold: http1, place: placeOf(r.Context()), taken: httpgate.BodyTaken(w)}
	b.left.Store(r.ContentLength)
	if r.ProtoMajor == 1 {
		b.control = http.NewResponseController(w)
	}
	r.Body = b
	return b
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.whole.Load() {
		return 0, io.EOF // a reader that knows the length asks whether more follows
	}
	b.begun.Store(true)
	if b.ended.Load() {
		return 0, errBodyClosed
	}
	if b.control != nil {
		_ = b.control.SetReadDeadline(time.Now().Add(b.silence))
	}
	if b.broken.Load() { // since it was looked at: the deadline just set may be in place of the one that breaks it off
		_ = b.breakOff()
		return 0, errBodyClosed
	}
	b.stuck.Store(0)
	n, err := b.body.Read(p)
	now := live.Now()
	b.stuck.Store(int64(now))
	// A reader that knows the length may not read up to the end.
	left := b.left.Load()
	last := left > 0 && left <= int64(n)
	b.left.Store(left - int64(n))
	if last && err == nil {
		err = io.EOF
	}
	if err == io.EOF {
		cleanTrailers(b.trailers, b.trusted)
		b.whole.Store(true)
		if u := b.reaches.Swap(nil); u != nil {
			u.asks(now, now)
		}
	}
	if err != nil && err != io.EOF && !b.broken.Load() {
		if isTimeout(err) {
			b.slow.Store(true)
		} else {
			b.foul.Store(true)
		}
	}
	if err != nil && !b.ended.Swap(true) && b.control != nil {
		// The connection waits for the next request from now on.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// InMemory implements http1.InMemory.
func (b *requestBody) InMemory() bool { return b.taken }

// Close ends the body for good, if it has not ended. An HTTP/1 connection cannot
// be used for another request after that.
func (b *requestBody) Close() error {
	if b.hold || b.ended.Swap(true) {
		return nil
	}
	if !b.begun.Load() {
		// No Read waits, and none will see the client leave. The body may go with the request to another upstream.
		if b.onBreak != nil {
			b.onBreak()
		}
		return nil
	}
	return b.breakOff()
}

func (b *requestBody) breakOff() error {
	b.broken.Store(true)
	if b.onBreak != nil {
		b.onBreak()
	}
	if b.control != nil {
		if b.place != nil && !b.taken && b.left.Load() <= serverLingers {
			b.place.lingers.Store(true)
		}
		return b.control.SetReadDeadline(time.Unix(1, 0))
	}
	var err error
	b.closed.Do(func() { err = b.body.Close() })
	return err
}

// abandon ends a body that was closed before anybody read from it, and goes nowhere else. b
// may be nil.
func (b *requestBody) abandon() {
	if b != nil && !b.hold && b.ended.Load() && !b.begun.Load() {
		_ = b.breakOff()
	}
}

// last makes an answer the last one on its connection, if it is one over HTTP/1 and begins before the
// body ended: what is left of a body that is broken off or malformed would be taken for the next
// request. b may be nil.
func (b *requestBody) last(answer http.Header) {
	if b != nil && b.control != nil && !b.taken && !b.whole.Load() {
		answer.Set("Connection", "close")
		b.final = true
	}
}

// clients reports whether the client is why the body ended before its end.
func (b *requestBody) clients() bool { return b.slow.Load() || b.foul.Load() }

// cut is done for a handler around which no gate ends what is left of the body: else the server would wait for it.
func (b *requestBody) cut() {
	b.ended.Store(true)
	b.leaveRest()
}

// done is called when the handler returns: nothing may read the body any more. What is left of it under the last answer
// of a connection is broken off, also where nobody began to read it: the server would wait for the client.
func (b *requestBody) done() {
	if b.ended.Store(true); b.final {
		b.leaveRest()
	}
}

// leaveRest ends reads of the connection for good if there is more of the body. The server lifts the
// deadline when it waited for a read that goes on, and then reads what is left.
func (b *requestBody) leaveRest() {
	if b.whole.Load() {
		return
	}
	if b.control != nil { // over HTTP/2 others read from the connection
		b.place.endReads()
	}
	_ = b.breakOff()
}
