package httpgate

import (
	"io"
	"net/http"
	"time"
)

// quietBody is the body of a request that may be one half of a two-way stream: no
// length was announced. While a read waits for a client that has nothing to say,
// nobody works on the request: after a while it gives its slot back, and on the
// way to another server its credit. It is read by one goroutine at a time.
type quietBody struct {
	io.ReadCloser
	after time.Duration
	timer *time.Timer
}

// watchQuiet calls release once the client of r was silent for that long, if r may
// be half of a two-way stream; zero is StreamAfter, negative never.
func watchQuiet(r *http.Request, after time.Duration, release func()) {
	if r.Body == nil || r.Body == http.NoBody || after < 0 {
		return
	}
	if after == 0 {
		after = StreamAfter
	}
	b := &quietBody{ReadCloser: r.Body, after: after, timer: time.AfterFunc(time.Hour, release)}
	b.timer.Stop()
	r.Body = b
}

// Read implements io.Reader.
func (b *quietBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.after)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	return n, err
}
