package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// errBodyClosed is what a read of a closed request body returns.
var errBodyClosed = errors.New("proxy: read of a closed request body")

// requestBody is the body of a client's request on its way to an upstream. Its
// Close makes a Read that waits for the client return. The HTTP/2 transport
// relies on that: when the upstream dies, the exchange does not end before the
// body does, and the client of a two-way stream may have nothing to say for
// hours. The reverse proxy's own body has a Close that does nothing.
type requestBody struct {
	body    io.ReadCloser
	control *http.ResponseController // of HTTP/1, nil of HTTP/2
	ended   atomic.Bool              // by its end, an error or a Close
}

// newRequestBody wraps the body of r, if it has one.
func newRequestBody(w http.ResponseWriter, r *http.Request) *requestBody {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	b := &requestBody{body: r.Body}
	if r.ProtoMajor == 1 {
		b.control = http.NewResponseController(w)
	}
	r.Body = b
	return b
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.ended.Load() {
		return 0, errBodyClosed
	}
	n, err := b.body.Read(p)
	if err != nil {
		b.ended.Store(true)
	}
	return n, err
}

// Close ends the body for good, if it has not ended. An HTTP/1 connection cannot
// be used for another request after that.
func (b *requestBody) Close() error {
	if b.ended.Swap(true) {
		return nil
	}
	if b.control != nil {
		return b.control.SetReadDeadline(time.Unix(1, 0))
	}
	return b.body.Close()
}

// done is called when the handler returns: nothing may read the body any more.
func (b *requestBody) done() { b.ended.Store(true) }
