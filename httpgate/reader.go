package httpgate

import (
	"net/http"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// writePiece is how much of an answer is written under one deadline, in bytes.
const writePiece = 256 << 10

// smallBody is how much of an answer never waits for the client, unless it is flushed: it
// fits into what net/http's servers gather before they send anything.
const smallBody = 2 << 10

// slowReader watches a handler that writes an answer: when it has waited for its
// client for long enough, the request gives its slot back, and a client that reads next to
// nothing is disconnected. Where other requests wait for a slot, one wait of a fiftieth of that is
// enough: nothing is lost for this one, whose answer is made. before and after are called by
// the goroutine that writes.
type slowReader struct {
	w       *writer
	control http.ResponseController
	watch   stopwatch
	blocked time.Duration // in writing what is beyond largeBody
	stream  *time.Timer   // gives the slot of an answer back that was flushed; nil: it was not

	mu      sync.Mutex
	timed   bool // a write may have a deadline
	writing bool
	set     bool // the write under way has one
}

// newSlowReader watches what is written to w.
func newSlowReader(w *writer) *slowReader {
	server, _ := w.in.r.Context().Value(http.ServerContextKey).(*http.Server)
	s := &slowReader{w: w, control: *http.NewResponseController(w.ResponseWriter)}
	s.timed = w.h.patience.Write > 0 && (server == nil || server.WriteTimeout == 0)
	s.watch.start(w.h.patience.Blocked, s)
	return s
}

// fire implements timed.
func (s *slowReader) fire() bool {
	s.w.leave(work.Released)
	return true
}

// long implements timed.
func (s *slowReader) long(last bool) bool {
	if last {
		s.deadline()
	}
	return s.w.target.gate.Stats().Waiting > 0
}

// before is called in front of each write of at most writePiece.
func (s *slowReader) before(now mono.Time) {
	s.mu.Lock()
	s.writing = true
	s.mu.Unlock()
	s.watch.begin(now)
	if s.watch.timer == nil {
		s.deadline()
	}
}

// deadline gives the write under way a deadline. Most writes end before they are looked at, and
// need none. None outlives its write: HTTP/2 ends a stream at its deadline, also if there is
// nothing to write.
func (s *slowReader) deadline() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timed && s.writing && !s.set {
		s.set = true
		s.timed = s.control.SetWriteDeadline(time.Now().Add(s.w.h.patience.Write)) == nil
	}
}

// after is called behind it.
func (s *slowReader) after(now mono.Time) {
	s.watch.end(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing = false; s.set {
		s.set = false
		_ = s.control.SetWriteDeadline(time.Time{})
	}
}

// done is called behind the last one.
func (s *slowReader) done() {
	if s.stream != nil {
		s.stream.Stop()
	}
	s.watch.stop()
}
