package httpgate

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/internal/live"
)

// stream is the body of an admitted request that may be one half of a two-way stream: no
// length was announced. Once a read has waited for a silent client for as long as the slot is
// held, the request lends it, and takes another before the handler sees what the client sends
// next.
type stream struct {
	io.ReadCloser
	*seat
	timer *time.Timer
	after time.Duration
	quiet bool // the client is silent, so the first read lends the slot
}

// watchStream makes r's body lend the slot of the admitted request while its client is silent,
// if it may; from the first read on, if w.quiet: what the handler
// does before that, such as connecting to another server, is done in the slot.
func (w *writer) watchStream(ctx context.Context, r *http.Request, request live.Request) {
	after := w.h.streamAfter
	if r.Body == nil || r.Body == http.NoBody || after < 0 {
		return
	}
	if after == 0 {
		after = StreamAfter
	}
	s := &stream{ReadCloser: r.Body, seat: newSeat(ctx, w, request), after: after, quiet: w.quiet}
	s.timer = time.AfterFunc(time.Hour, func() { s.lend() })
	s.timer.Stop()
	s.stop = func() { s.timer.Stop() }
	w.seat, r.Body = s.seat, s
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if s.quiet {
		s.quiet = false
		s.away()
	}
	s.begin()
	s.timer.Reset(s.after)
	n, err := s.ReadCloser.Read(p)
	s.timer.Stop()
	s.end()
	if n > 0 || err == io.EOF {
		if refused := s.take(); refused != nil {
			return 0, refused
		}
	}
	return n, err
}
