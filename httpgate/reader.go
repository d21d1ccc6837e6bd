package httpgate

import (
	"net/http"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// writePiece is how much of an answer is written under one deadline, in bytes.
const writePiece = 256 << 10

// slowReader watches a handler that writes a large answer: when it has waited for its
// client for long enough, the request gives its slot back, and a client that reads next to
// nothing is disconnected. before and after are called by the goroutine that writes.
type slowReader struct {
	patience *Patience
	control  *http.ResponseController
	timed    bool // a write has a deadline
	due      mono.Time
	watch    stopwatch
}

// newSlowReader watches what is written to w.
func newSlowReader(p *Patience, w http.ResponseWriter, r *http.Request, giveBack func()) *slowReader {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	s := &slowReader{patience: p, control: http.NewResponseController(w)}
	s.timed = p.Write > 0 && (server == nil || server.WriteTimeout == 0)
	s.watch.start(p.Blocked, giveBack)
	return s
}

// before is called in front of each write of at most writePiece.
func (s *slowReader) before(now mono.Time) {
	s.watch.begin(now)
	// A deadline that has an eighth left to give is as good as a new one.
	if s.timed && (s.due == 0 || s.due.Sub(now) < s.patience.Write*7/8) {
		s.due = now.Add(s.patience.Write)
		s.timed = s.control.SetWriteDeadline(time.Now().Add(s.patience.Write)) == nil
	}
}

// after is called behind it.
func (s *slowReader) after(now mono.Time) {
	s.watch.end(now)
}

// done lifts the deadline: the connection may have another request.
func (s *slowReader) done() {
	s.watch.stop()
	if s.timed && s.due != 0 {
		_ = s.control.SetWriteDeadline(time.Time{})
	}
}
