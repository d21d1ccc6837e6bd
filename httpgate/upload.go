package httpgate

import (
	"cmp"
	"context"
	"io"
	"net/http"

	"github.com/spillgate/spillgate/internal/live"
)

// upload is the body of an admitted request that is not read before the request asks for a
// slot: it is long, or of unknown length. While the handler waits for the client to send it,
// nobody works on the request. So once that took Patience.Blocked in all, the request lends its
// slot, and asks for another before the handler sees the end of the body: what is done with
// it is done in a slot. A client that waits to be asked for its body, and may never send it, has
// the slot only until it is asked. A request of a kind that the target answers first keeps its
// slot, until it has waited for its client for an objective: then the target seems to wait as well, and
// the kind is none of those any more.
type upload struct {
	io.ReadCloser
	*seat
	left  int64 // until the length that was announced; negative without one
	pace  pace
	over  bool   // the end was reached
	asks  bool   // the first read lends the slot: it asks the client for the body
	quiet *early // the client is silent: the first read that waits for it lends the slot; nil: no more
	keeps bool   // the slot, for an objective
	watch stopwatch
}

// watchUpload makes r's body lend the slot of the admitted request while its client is slow, if
// it may.
func (w *writer) watchUpload(ctx context.Context, r *http.Request, request live.Request, awaited *early) {
	length := r.ContentLength
	if r.Body == nil || r.Body == http.NoBody || length == 0 || w.h.patience.Blocked <= 0 {
		return
	}
	u := &upload{ReadCloser: r.Body, seat: newSeat(ctx, w, request), left: length, asks: r.Header["Expect"] != nil || w.h.scarce(request.Sender.Whose(), length), quiet: awaited.silent()}
	if server, _ := r.Context().Value(http.ServerContextKey).(*http.Server); (length > 0 || r.ProtoMajor == 1) && (server == nil || server.ReadTimeout == 0) {
		u.pace = newPace(&w.h.patience, w.ResponseWriter, r)
	}
	u.keeps = w.target.first.has(live.Now(), &w.in)
	limit := w.h.patience.Blocked
	if u.keeps {
		limit = max(limit, cmp.Or(request.Objective, w.target.gate.Objective()))
	}
	u.watch.start(limit, u)
	u.stop, u.sample, u.first = u.watch.stop, true, &w.target.first
	w.seat, r.Body = u.seat, u
}

// fire implements timed.
func (u *upload) fire() bool {
	lent := u.lend()
	if lent && u.keeps {
		u.first.forget(&u.w.in)
	}
	return lent
}

// long implements timed: the slot is not lent before the limit, as another one is needed.
func (u *upload) long(bool) bool { return false }

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	if !u.keeps && (u.asks || u.quiet != nil && u.quiet.dry()) {
		quiet := u.quiet
		u.asks, u.quiet = false, nil
		u.away()
		quiet.begins()
	}
	u.begin()
	now := live.Now()
	u.watch.begin(now)
	if u.pace.before(now); u.broken.Load() {
		u.pace.breakOff() // the deadline just set may be in place of the handler's
	}
	n, err := u.ReadCloser.Read(p)
	u.watch.end(live.Now())
	u.pace.came += int64(n)
	u.end()
	last := err == io.EOF || u.left > 0 && u.left <= int64(n)
	u.left -= int64(n)
	if !last || u.over {
		return n, err
	}
	u.over = true
	u.whole.Store(true)
	u.watch.stop()
	u.pace.over()
	if refused := u.take(); refused != nil {
		return 0, refused
	}
	return n, err
}
