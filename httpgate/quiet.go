package httpgate

import (
	"io"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/live"
	"github.com/spillgate/spillgate/work"
)

// quietBody is the body of a request that may be one half of a two-way stream: of
// HTTP/2, with no length announced. While a read waits for a client that has
// nothing to say, nobody works on the request: after a while it gives its slot
// back. It is read by one goroutine at a time.
type quietBody struct {
	io.ReadCloser
	after time.Duration
	timer *time.Timer
}

// watchQuiet gives the ticket of a two-way stream back once its client was silent
// for that long.
func watchQuiet(r *http.Request, ticket *live.Ticket, after time.Duration) {
	if r.ProtoMajor < 2 || r.ContentLength >= 0 || r.Body == nil || r.Body == http.NoBody || after < 0 {
		return
	}
	if after == 0 {
		after = StreamAfter
	}
	b := &quietBody{ReadCloser: r.Body, after: after}
	b.timer = time.AfterFunc(time.Hour, func() { ticket.Leave(work.Ignored) })
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
