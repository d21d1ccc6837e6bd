package httpgate

import (
	"net/http"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// writePiece is how much of an answer is written under one deadline, in bytes.
const writePiece = 256 << 10

// smallBody is how much of an answer never waits for the client, unless it is flushed: it
// fits into what net/http's servers gather before they send anything.
const smallBody = 2 << 10

// slowReader watches a handler that writes an answer: when it has waited for its
// client for long enough, the request gives its slot back, and a client that reads next to
// nothing is disconnected. Where other requests wait for a slot, one wait of a tenth of that is
// enough: nothing is lost for this one, whose answer is made. before and after are called by
// the goroutine that writes.
type slowReader struct {
	patience *Patience
	control  *http.ResponseController
	watch    stopwatch

	mu      sync.Mutex
	timed   bool // a write may have a deadline
	writing bool
	set     bool // the write under way has one
}

// newSlowReader watches what is written to w. crowded says whether others wait for a slot.
func newSlowReader(p *Patience, w http.ResponseWriter, r *http.Request, crowded func() bool, giveBack func()) *slowReader {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	s := &slowReader{patience: p, control: http.NewResponseController(w)}
	s.timed = p.Write > 0 && (server == nil || server.WriteTimeout == 0)
	s.watch.long = func() bool {
		s.deadline()
		return crowded()
	}
	s.watch.start(p.Blocked, func() bool {
		giveBack()
		return true
	})
	return s
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
		s.timed = s.control.SetWriteDeadline(time.Now().Add(s.patience.Write)) == nil
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
func (s *slowReader) done() { s.watch.stop() }
