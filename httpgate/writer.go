package httpgate

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// largeBody is the size beyond which the time that a caller takes to read an
// answer is told apart from the time that it took to make, in bytes. Smaller
// ones fit into the buffers of the connection.
const largeBody = 64 << 10

// writer is the response writer of an admitted request. Like any, it is used by
// one goroutine at a time. It is as large as an allocation of its size can be: see TestPlaces.
type writer struct {
	http.ResponseWriter
	h       *handler
	in      served       // here for one allocation in place of two, and so is request
	request http.Request // the request as the handler has it
	target  *Target
	account *account

	speaks   bool // the client understands the field
	asks     bool // the client knows no grant, and wants one
	bare     bool // the answer has no body
	trailers bool // the protocol has trailers
	touched  bool // the handler had the header, and may have put something there
	hijacked bool
	cut      bool // the gate cancelled the request and answered it
	returned bool // the handler, without a panic
	dropped  bool // refused further down
	outcome  work.Outcome
	chosen   bool   // outcome, by SetOutcome
	whole    bool   // the body is in memory
	before   uint8  // targets that the request was at before
	code     uint16 // of the header, 0 until it is written
	another  *Target

	size int64
	slow *slowReader // of what is beyond smallBody, or flushed
	seat *seat       // nil: the body takes no part in holding the slot
	shed *wire.Shed  // from further down, nil: none
}

// SetOutcome says how the request ended that w answers, where the handler knows
// better than its return: an answer made without doing the work, such as a
// failure to reach another server, is spillgate.OutcomeIgnored. w is the handler's
// response writer or one around it. Without a gate it does nothing.
func SetOutcome(w http.ResponseWriter, o work.Outcome) {
	if own := writerIn(w); own != nil {
		own.outcome, own.chosen = o, true
	}
}

// BodyTaken reports whether all of the body of the request that w answers has left its connection,
// into memory, before the handler was called. w is the handler's response writer or one around it.
// Without a gate it is false.
func BodyTaken(w http.ResponseWriter) bool {
	own := writerIn(w)
	return own != nil && own.whole
}

// answered reports whether the header was written.
func (w *writer) answered() bool { return w.code != 0 || w.cut }

// Unwrap lets http.ResponseController reach the writer below.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Header implements http.ResponseWriter. Where nobody asks for the header net/http makes no copies of it.
func (w *writer) Header() http.Header {
	w.touched = true
	return w.ResponseWriter.Header()
}

// said returns the header if the handler may have put something there, else nil.
func (w *writer) said() http.Header {
	if !w.touched {
		return nil
	}
	return w.ResponseWriter.Header()
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(code int) {
	if w.answered() || w.hijacked {
		w.ResponseWriter.WriteHeader(code) // which logs the mistake
		return
	}
	if code >= 100 && code < 200 && code != http.StatusSwitchingProtocols {
		w.ResponseWriter.WriteHeader(code)
		return
	}
	h := w.said()
	if w.failing(code, h) && w.cancelled() {
		return
	}
	w.code = uint16(code)
	w.seat.answers(code)
	if code >= http.StatusBadRequest {
		w.in.ticket.Failed()
	}
	w.takeShed(h)
	w.bare = w.bare || code == http.StatusNoContent || code == http.StatusNotModified
	switch {
	case code == http.StatusSwitchingProtocols:
		w.leave(work.Released)
	case w.in.grpc && h["Grpc-Status"] != nil:
		// All there is to say is in the header, so the work is done.
		w.bare = true
		w.leave(w.result(true))
		w.keepGrant()
	default:
		if ct := h["Content-Type"]; len(ct) == 1 && strings.HasPrefix(ct[0], "text/event-stream") {
			w.begun()
			w.leave(work.Released)
		}
	}
	if w.speaks && (w.bare || !w.trailers || w.asks) {
		// A client that knows no grant hears of one at once, even where trailers could say it: it may
		// never read a body to its end.
		w.put("", false)
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if !w.answered() && !w.hijacked {
		w.WriteHeader(http.StatusOK)
	}
	if w.cut {
		return len(p), nil
	}
	switch all := w.size + int64(len(p)); {
	case all <= smallBody:
		n, err := w.ResponseWriter.Write(p)
		w.size += int64(n)
		return n, err
	case all <= largeBody:
		w.waits()
		n, err := w.ResponseWriter.Write(p)
		w.slow.after(live.Now())
		w.size += int64(n)
		return n, err
	}
	written := 0
	for {
		start := w.waits()
		n, err := w.ResponseWriter.Write(p[written:min(len(p), written+writePiece)])
		w.waited(start, int64(n))
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}

// WriteString implements io.StringWriter, as net/http's own writer does: io.WriteString copies a string for those that do not.
func (w *writer) WriteString(s string) (int, error) {
	if !w.answered() && !w.hijacked {
		w.WriteHeader(http.StatusOK)
	}
	if w.cut || w.size+int64(len(s)) > smallBody {
		return w.Write([]byte(s))
	}
	n, err := io.WriteString(w.ResponseWriter, s)
	w.size += int64(n)
	return n, err
}

// waits is called in front of what may wait for the client: a write of at most writePiece
// beyond smallBody, or a flush. waited is called behind a write beyond largeBody.
func (w *writer) waits() (start mono.Time) {
	w.reads()
	start = live.Now()
	w.slow.before(start)
	return start
}

// reads has the client's reading watched from now on.
func (w *writer) reads() {
	if w.slow == nil {
		w.slow = newSlowReader(w)
	}
}

func (w *writer) waited(start mono.Time, n int64) {
	end := live.Now()
	w.slow.after(end)
	w.slow.blocked += end.Sub(start)
	w.size += n
}

// ReadFrom implements io.ReaderFrom, so that files still go from disk to
// connection in the kernel.
func (w *writer) ReadFrom(src io.Reader) (int64, error) {
	var first int64
	if !w.answered() && !w.hijacked {
		// The header must not leave before there is something to send: the source
		// may be the request's body, and its first read is what asks a client that
		// expects it to continue.
		n, err := io.Copy(writerOnly{w}, io.LimitReader(src, firstBytes))
		if first = n; err != nil || n < firstBytes {
			return first, err
		}
	}
	if w.cut {
		n, err := io.Copy(io.Discard, src)
		return first + n, err
	}
	file, left := fileIn(src)
	if file == nil {
		n, err := io.Copy(writerOnly{w}, src) // the source may be what is slow
		return first + n, err
	}
	for {
		start := w.waits()
		n, err := io.Copy(w.ResponseWriter, io.LimitReader(file, min(writePiece, left)))
		w.waited(start, n)
		first, left = first+n, left-n
		if err != nil || n < writePiece || left == 0 {
			return first, err
		}
	}
}

// fileIn returns the file that src reads, nil if it reads something else, and how much of
// it there may be.
func fileIn(src io.Reader) (file *os.File, left int64) {
	left = math.MaxInt64
	if l, ok := src.(*io.LimitedReader); ok {
		src, left = l.R, l.N
	}
	file, _ = src.(*os.File)
	return file, left
}

// firstBytes is how much of a source goes through Write before ReadFrom leaves
// the rest to the kernel.
const firstBytes = 512

// writerOnly hides that a writer has ReadFrom.
type writerOnly struct{ io.Writer }

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is what http.ResponseController calls.
func (w *writer) FlushError() error {
	if !w.answered() && !w.hijacked {
		w.WriteHeader(http.StatusOK)
	}
	w.reads()
	if w.slow.stream == nil && w.h.streamAfter >= 0 {
		w.begun()
		w.slow.stream = time.AfterFunc(w.h.streamAfter, func() { w.leave(work.Released) })
	}
	w.waits()
	err := w.slow.control.Flush()
	w.slow.after(live.Now())
	return err
}

// Hijack implements http.Hijacker. The slot is given back: what happens on the
// connection from now on is not a request.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.hijacked = true
		w.leave(work.Released)
	}
	return c, rw, err
}

// CloseNotify implements http.CloseNotifier, which is deprecated, and which frameworks assume
// that every writer has (gin, for its streams).
func (w *writer) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(w.in.r.Context(), func() { gone <- true })
	return gone
}

// SetReadDeadline is what http.ResponseController calls. One in the past has reads of the body end, and so the body's
// pace leaves it in place.
func (w *writer) SetReadDeadline(t time.Time) error {
	if w.seat != nil {
		w.seat.broken.Store(!t.IsZero() && !t.After(time.Now()))
	}
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(t)
}

// failing reports whether a header says that the request failed.
func (w *writer) failing(code int, h http.Header) bool {
	if v := h["Grpc-Status"]; w.in.grpc && len(v) > 0 {
		return v[0] != "0"
	}
	return code >= http.StatusBadRequest
}

// begun says that the answer has begun. The client may have taken its time with the request before.
func (w *writer) begun() { w.in.ticket.Begun(w.seat == nil || w.seat.sample) }

// leave gives back the slot that the request has.
func (w *writer) leave(o work.Outcome) {
	w.in.ticket.Leave(o)
	w.seat.leave(o)
}

// cancelled answers the request if the gate has cancelled it, or gave it no other slot, in place of what the
// handler says of its failure.
func (w *writer) cancelled() bool {
	refusal := w.in.ticket.Cancelled()
	if refusal == nil {
		refusal = w.seat.refused()
	}
	if refusal == nil {
		return false
	}
	w.cut = true
	w.leave(work.Ignored)
	w.keepGrant()
	h := w.Header()
	last, ends := h["Connection"]
	clear(h)
	if ends { // the answer is the last on its connection, whatever it says
		h["Connection"] = last
	}
	w.refuse(w.in.r, refusal)
	return true
}

// end returns the ticket, whatever the handler did, and adds the credits.
func (w *writer) end() {
	if w.slow != nil {
		w.slow.done()
	}
	defer w.seat.finish()
	if w.cut {
		return
	}
	if w.returned && w.another != nil {
		w.leave(work.Ignored)
		w.keepGrant()
		return
	}
	if w.returned && !w.answered() && !w.hijacked && w.cancelled() {
		return
	}
	w.takeShed(w.said())
	if w.in.grpc && w.failed() {
		w.in.ticket.Failed()
	}
	w.leave(w.result(w.returned))
	w.keepGrant() // for this answer if it can still carry it, else for the client's next
	if w.returned && w.size > 0 {
		w.h.leaves(w.ResponseWriter, w.in.r)
	}
	if !w.returned || w.hijacked || !w.speaks {
		return
	}
	switch {
	case !w.answered(): // the header is sent when the server's own code ends
		w.put("", true)
	case w.trailers && !w.bare:
		w.put(http.TrailerPrefix, true)
	}
}

// keepGrant notes the credits that the client has once the ticket has left.
func (w *writer) keepGrant() {
	if w.account == nil {
		return
	}
	if g, ok := w.in.ticket.Grant(); ok {
		w.account.take(w.target, g)
	}
}

// failed reports whether an answer of gRPC says that the call failed.
func (w *writer) failed() bool {
	for _, key := range [...]string{"Grpc-Status", http.TrailerPrefix + "Grpc-Status"} {
		if v := w.said()[key]; len(v) > 0 && v[0] != "0" {
			return true
		}
	}
	return false
}

// result says how the request ended.
func (w *writer) result(returned bool) work.Outcome {
	ended := w.slow != nil && w.slow.stream != nil && w.in.Err() == context.Canceled && w.in.r.Context().Err() != nil
	switch {
	case !returned && !ended:
		return work.Ignored
	case w.chosen:
		return w.outcome
	case w.dropped:
		return work.Dropped
	case w.in.below.Load():
		if w.code == http.StatusInternalServerError || w.code == http.StatusBadGateway {
			w.h.flattened.Do(func() {
				slog.Warn("httpgate: a service that a handler called refused the request, and the handler answered as if it had failed: httpgate.RefuseBelow passes the refusal on", "status", w.code, "kind", w.in.asks())
			})
		}
		return work.Dropped
	case w.in.ignored.Load():
		return work.Ignored
	case ended:
		return work.Released // a stream that its caller ended: the work was to begin it
	case w.in.Err() != nil:
		return work.Ignored // the caller left, or its time is over
	case w.slow != nil && w.slow.blocked > 0 && 2*w.slow.blocked > live.Now().Sub(w.in.ticket.Began()):
		return work.Released // the caller was the slow one
	}
	return work.Done
}

// takeShed takes the field off h that a server further down put there, through a
// handler which passes headers on: its credits are not for this client, but a
// refusal is one all the way up.
func (w *writer) takeShed(h http.Header) {
	w.takeShedAs(h, field, false)
	w.takeShedAs(h, http.TrailerPrefix+field, false)
	if w.in.grpc {
		w.takeShedAs(h, grpcField, true)
		w.takeShedAs(h, http.TrailerPrefix+grpcField, true)
	}
}

func (w *writer) takeShedAs(h http.Header, key string, grpc bool) {
	values := h[key]
	if len(values) == 0 {
		return
	}
	delete(h, key)
	msg, err := decodeField(values, grpc)
	if err != nil {
		return
	}
	if r, err := wire.ParseReply(msg); err == nil && r.HasShed {
		w.shed, w.dropped = &r.Shed, true
	}
}

// put adds the field to the header, if there is something to say: the client's newest credits,
// why the request was refused further down, and once it has left, what it took.
func (w *writer) put(prefix string, left bool) {
	if w.shed == nil && !w.in.ticket.Asked() && w.account.quiet(w.asks, left) {
		return // as mostly
	}
	var r wire.Reply
	if w.shed != nil {
		r.Shed, r.HasShed = *w.shed, true
	}
	if w.account != nil {
		if !left && w.account.scarce() {
			// The request that is answered gives a credit back, and who holds no other hears of what comes of that now, or
			// after its next request: it would wait for a grant that it has, or send where its turn is over.
			if g, ok := w.in.ticket.GrantAhead(); ok {
				w.account.take(w.target, g)
			} else {
				w.keepGrant() // it has left
			}
		}
		r.Grant, r.HasGrant = w.account.newest(w.asks)
	}
	if w.in.admitted {
		w.in.ticket.Answer(&r)
	}
	if left && r.HasGrant && !r.HasProgress && w.result(true).Executed() {
		r.HasProgress, r.Progress.Service = true, live.Now().Sub(w.in.ticket.Began())
	}
	if r == (wire.Reply{}) {
		return
	}
	var buf [wire.MaxReply]byte
	w.ResponseWriter.Header()[prefix+fieldFor(w.in.grpc)] = []string{encodeField(r.Append(buf[:0]), w.in.grpc)}
}
