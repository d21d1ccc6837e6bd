package httpgate

import (
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/live"
)

// early is the body of a request of unknown length, of which what comes first is awaited before
// the request asks for a slot: a client that stops there holds none. It has one reader at a time.
type early struct {
	io.ReadCloser
	// request is the one whose body it is. It is a copy of the server's, own: with the end of the body, the server writes
	// trailers into that and into its map, while the handler may look at what was announced. They are copied when the
	// reader meets the end.
	request, own *http.Request

	quiet bool        // the client had stopped when the wait was over
	begun *time.Timer // ends the turn that it had then, see aside; nil: it had none
	ends  func()      // what begun calls
	whole bool        // the end came
	foul  error       // the body is cut off or malformed: no end will come

	envelopes bool          // what comes is messages of gRPC, or such
	most      int           // bytes that are awaited
	of        *memory       // for bodies that are being awaited
	by        uint64        // the sender
	came      chan struct{} // has one more than was seen of what came; closed when nothing more is awaited

	mu    sync.Mutex
	more  sync.Cond
	close sync.Once // over HTTP/2 a body takes one Close at a time
	buf   []byte    // unread
	err   error
	ended bool  // nothing more is awaited
	left  bool  // the wait is over
	held  int64 // of the memory, until buf was read
}

const (
	// busyShare is what part of its slots a gate must have in use for bodies to be awaited:
	// where fewer are, one that is held for nothing keeps none from others, and the wait costs a
	// goroutine a request.
	busyShare = 8
	// firstRoom is how many bytes are awaited of any request, and envelope is how many are in front
	// of each message of gRPC: flags, and the message's length in four.
	firstRoom, envelope = 512, 5
)

// await waits for what comes first of r's body of unknown length: for its end, for as much as is
// gathered of any body, or for the first message of a call of gRPC, which may be half of a two-way
// stream. It waits for no longer than a stream may be silent that holds a slot, and once
// something came, for a pause of Patience.Blocked; then, where the gate may refuse requests, for its turn among those that
// stopped. r came by from. It returns nil where it did not wait, as where the gate is off. A body that ends in an error
// meanwhile is foul: its request needs no slot.
func (h *handler) await(ctx context.Context, r *http.Request, t *Target, from *conn) *early {
	if r.ContentLength >= 0 || r.Body == nil || r.Body == http.NoBody || h.streamAfter <= 0 || r.Header["Expect"] != nil || r.Header["Upgrade"] != nil {
		return nil
	}
	s := t.gate.Stats()
	if s.Mode == live.Off || (s.Running+s.Waiting)*busyShare < s.Limit {
		return nil
	}
	e := &early{ReadCloser: r.Body, request: r.WithContext(r.Context()), own: r, most: max(h.patience.Gather, firstRoom), of: &h.gathering, by: h.sentBy(r, from), came: make(chan struct{}, 1)}
	e.more.L = &e.mu
	e.request.Trailer = maps.Clone(r.Trailer)
	if ct := r.Header["Content-Type"]; len(ct) == 1 {
		e.envelopes = strings.HasPrefix(ct[0], "application/grpc") || strings.HasPrefix(ct[0], "application/connect+")
	}
	go e.read()
	defer e.leave()
	pause := h.streamAfter
	if h.patience.Blocked > 0 {
		pause = min(pause, h.patience.Blocked)
	}
	timer := time.NewTimer(h.streamAfter)
	defer timer.Stop()
	var turn *place // in the line of those that stopped; nil: it is not there
	var come chan struct{}
	leave := func() {
		if turn != nil && !t.stopped.quit(turn) {
			t.stopped.begun(t.gate)
		}
		turn, come = nil, nil
	}
	defer leave()
	ended := ctx.Done()
	for end := time.Now().Add(h.streamAfter); ; {
		select {
		case _, more := <-e.came:
			if !more {
				e.whole, e.request.Trailer = e.err == io.EOF, r.Trailer // nobody writes them any more
				if !e.whole {
					e.foul = e.err
				}
				return e
			}
			if left := time.Until(end); turn == nil || left > 0 { // else it has had its time, and keeps its place
				leave()
				timer.Reset(min(pause, left))
			}
		case <-ended:
			if r.Context().Err() == nil {
				return e // its time is over
			}
			ended = nil // net/http ends the context when a read fails, which then returns
		case <-come:
			turn = nil
			e.goes(t)
			return e
		case <-timer.C:
			if s.Mode != live.Enforce || s.Limit == 0 {
				e.quiet = true
				return e
			}
			turn = t.stopped.enter(t.gate, e.by)
			come = turn.come
		}
	}
}

// goes notes that it is the request's turn among those whose clients have stopped.
func (e *early) goes(t *Target) {
	e.quiet, e.ends = true, func() { t.stopped.begun(t.gate) }
	e.begun = time.AfterFunc(beginsWithin, e.ends)
}

// begins lets the next of those go whose clients have stopped: this one needs its slot no more. Further calls do nothing. e may
// be nil.
func (e *early) begins() {
	if e != nil && e.begun != nil && e.begun.Stop() {
		e.ends()
	}
}

// read reads what is awaited. A read that waits when the wait is over returns with what comes
// next, or when the body ends or is closed.
func (e *early) read() {
	room := make([]byte, firstRoom) // e.buf is a part of what was read into it
	have := 0
	for {
		n, err := e.ReadCloser.Read(room[have:])
		e.mu.Lock()
		e.buf = room[have-len(e.buf) : have+n]
		have += n
		e.err = err
		e.ended = err != nil || e.left || have >= e.most || e.envelopes && hasMessage(room[:have])
		if !e.ended && have == len(room) {
			if larger := min(4*have, e.most); e.count(int64(larger - have)) {
				room = append(make([]byte, 0, larger), room...)[:larger]
				e.buf = room[have-len(e.buf) : have]
			} else {
				e.ended = true // no memory for more
			}
		}
		ended := e.ended
		e.more.Broadcast()
		e.mu.Unlock()
		if ended {
			close(e.came)
			return
		}
		select {
		case e.came <- struct{}{}:
		default:
		}
	}
}

// hasMessage reports whether the first message is whole.
func hasMessage(b []byte) bool {
	return len(b) >= envelope && int64(len(b)) >= envelope+int64(binary.BigEndian.Uint32(b[1:]))
}

// silent returns e if its client had stopped when the wait was over, else nil, also of nil.
func (e *early) silent() *early {
	if e == nil || !e.quiet {
		return nil
	}
	return e
}

// dry reports whether a read waits for the client.
func (e *early) dry() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.buf) == 0 && !e.ended
}

// uploads reports whether the client sent something that is no message of gRPC, and not the end:
// what it sends has to have an end before it can be worth a slot.
func (e *early) uploads() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.envelopes && len(e.buf) > 0
}

// count takes n bytes of what may be awaited of all bodies; the lock is held.
func (e *early) count(n int64) bool {
	if !e.of.take(e.by, n) {
		return false
	}
	e.held += n
	return true
}

// leave ends the wait. The room for what came stays in memory until that was read, and counts.
func (e *early) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = true
}

// free has no bytes count any more; the lock is held.
func (e *early) free() {
	e.of.give(e.by, e.held)
	e.held = 0
}

// Read implements io.Reader.
func (e *early) Read(p []byte) (int, error) {
	e.mu.Lock()
	for len(e.buf) == 0 && !e.ended {
		e.more.Wait()
	}
	n := copy(p, e.buf)
	if e.buf = e.buf[n:]; len(e.buf) == 0 {
		e.buf = nil // its memory is free
		if e.left {
			e.free()
		}
	}
	err, rest := e.err, len(e.buf)
	e.mu.Unlock()
	switch {
	case n == 0 && err == nil && len(p) > 0:
		n, err = e.ReadCloser.Read(p)
	case rest > 0:
		return n, nil
	}
	if err == io.EOF && !e.whole && e.request.Trailer != nil {
		maps.Copy(e.request.Trailer, e.own.Trailer)
	}
	return n, err
}

// Close implements io.Closer. It may be called more than once, also at the same time.
func (e *early) Close() (err error) {
	e.close.Do(func() { err = e.ReadCloser.Close() })
	return err
}

// done is called when the request was answered: nobody reads the body any more then. Over HTTP/1 bodies cannot be
// closed while somebody reads; over HTTP/2 the server closes them, but not before the client has taken the answer.
func (e *early) done(w http.ResponseWriter, r *http.Request) {
	e.begins()
	e.mu.Lock()
	ended := e.ended
	e.free()
	e.mu.Unlock()
	switch {
	case ended:
		return
	case r.ProtoMajor > 1:
		_ = e.Close()
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	for range e.came { // until it is closed
	}
}
