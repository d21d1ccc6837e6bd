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
	quiet *early // the client is silent: the first read that waits for it lends the slot; nil: no more
}

// watchStream makes r's body lend the slot of the admitted request while its client is silent,
// if it may; from the first read on that waits, if awaited, which may be nil, found it silent: what the handler
// does before that, such as connecting to another server and passing on what came, is done in the slot.
func (w *writer) watchStream(ctx context.Context, r *http.Request, request live.Request, awaited *early) {
	after := w.h.streamAfter
	if r.Body == nil || r.Body == http.NoBody || after < 0 {
		return
	}
	if after == 0 {
		after = StreamAfter
	}
	s := &stream{ReadCloser: r.Body, seat: newSeat(ctx, w, request), after: after, quiet: awaited.silent()}
	s.timer = time.AfterFunc(time.Hour, func() { s.lend() })
	s.timer.Stop()
	s.stop = func() { s.timer.Stop() }
	w.seat, r.Body = s.seat, s
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if s.quiet != nil && s.quiet.dry() {
		quiet := s.quiet
		s.quiet = nil
		s.away()
		quiet.begins()
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
