package httpgate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// upload is the body of an admitted request that is not read before the request asks for a
// slot: it is long, or of unknown length. While the handler waits for the client to send it,
// nobody works on the request. So once that took Patience.Blocked in all, the request gives its
// slot back, and asks for another before the handler sees the end of the body: what is done with
// it is done in a slot. Where the gate refuses that, the body fails and the refusal is the
// answer. Read is called by one goroutine at a time, which may be another than the handler's.
type upload struct {
	io.ReadCloser
	w       *writer
	ctx     context.Context
	request live.Request // for the second slot
	left    int64        // until the length that was announced; negative without one
	pace    pace
	over    bool // the end was reached
	watch   stopwatch

	mu      sync.Mutex // of lent and of reading
	reading bool
	lent    bool // the slot is given back

	answering atomic.Bool // the header of the answer is written: nothing can be refused any more
	ended     atomic.Bool // the handler returned
	second    atomic.Pointer[live.Ticket]
	refusal   atomic.Pointer[live.Refusal]
}

// watchUpload makes r's body give the slot of the admitted request back while its client is
// slow, if it may.
func (w *writer) watchUpload(ctx context.Context, r *http.Request, request live.Request) {
	length := r.ContentLength
	if r.Body == nil || r.Body == http.NoBody || length == 0 || length < 0 && r.ProtoMajor != 1 || w.h.patience.Blocked <= 0 {
		return
	}
	request.Client, request.Demand, request.Token = nil, 0, live.Request{}.Token // its first slot had what they give
	u := &upload{ReadCloser: r.Body, w: w, ctx: ctx, request: request, left: length}
	if server, _ := r.Context().Value(http.ServerContextKey).(*http.Server); length > 0 && (server == nil || server.ReadTimeout == 0) {
		u.pace = newPace(&w.h.patience, w.ResponseWriter, r)
	}
	u.watch.start(w.h.patience.Blocked, u.lend)
	w.upload, r.Body = u, u
}

// lend gives the slot back, if the handler waits at this instant.
func (u *upload) lend() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.reading {
		u.watch.timer.Reset(u.watch.limit) // nor at the end of the next wait is it too late
		return
	}
	u.lent = true
	u.w.in.ticket.Leave(work.Ignored)
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	u.reading = true
	u.mu.Unlock()
	now := live.Now()
	u.watch.begin(now)
	u.pace.before(now)
	n, err := u.ReadCloser.Read(p)
	u.watch.end(live.Now())
	u.pace.came += int64(n)
	u.mu.Lock()
	u.reading = false
	lent := u.lent
	u.mu.Unlock()
	last := err == io.EOF || u.left > 0 && u.left <= int64(n)
	u.left -= int64(n)
	if !last || u.over {
		return n, err
	}
	u.over = true
	u.watch.stop()
	u.pace.over()
	if lent && !u.answering.Load() {
		if refused := u.readmit(); refused != nil {
			return 0, refused
		}
	}
	return n, err
}

// readmit takes a slot for what is done with the body.
func (u *upload) readmit() error {
	t := new(live.Ticket)
	if err := u.w.target.gate.Admit(u.ctx, u.request, t); err != nil {
		var refusal *live.Refusal
		if errors.As(err, &refusal) {
			u.refusal.Store(refusal)
		}
		return err
	}
	u.second.Store(t)
	if u.ended.Load() {
		t.Leave(work.Ignored)
	}
	return nil
}

// leave gives the second slot back, if there is one; a nil upload has none.
func (u *upload) leave(o work.Outcome) {
	if u == nil {
		return
	}
	if t := u.second.Load(); t != nil {
		t.Leave(o)
	}
}

// end is called when the handler has returned.
func (u *upload) end() {
	if u == nil {
		return
	}
	u.watch.stop()
	u.ended.Store(true)
	u.leave(work.Ignored)
}

// refused returns why the request got no second slot, nil if that is not so.
func (u *upload) refused() *live.Refusal {
	if u == nil {
		return nil
	}
	return u.refusal.Load()
}
