package httpgate

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// writePiece is how much of an answer is written under one deadline, in bytes.
const writePiece = 256 << 10

// slowReader watches a handler that writes a large answer: when it has waited for its
// client for long enough, the request gives its slot back, and a client that reads next to
// nothing is disconnected. before and after are called by the goroutine that writes.
type slowReader struct {
	patience *Patience
	control  *http.ResponseController
	ticket   *live.Ticket
	timed    bool // a write has a deadline
	due      mono.Time

	timer  *time.Timer
	since  atomic.Int64 // mono.Time; the write under way began, 0: there is none
	waited atomic.Int64 // time.Duration, in the writes before
}

// newSlowReader watches what is written to w.
func newSlowReader(p *Patience, w http.ResponseWriter, r *http.Request, t *live.Ticket) *slowReader {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	s := &slowReader{patience: p, control: http.NewResponseController(w), ticket: t}
	s.timed = p.Write > 0 && (server == nil || server.WriteTimeout == 0)
	if p.Blocked > 0 {
		s.timer = time.AfterFunc(p.Blocked, s.look)
	}
	return s
}

// look gives the slot back if it is time, else it looks again.
func (s *slowReader) look() {
	waited := time.Duration(s.waited.Load())
	if since := s.since.Load(); since != 0 {
		waited += live.Now().Sub(mono.Time(since))
	}
	if rest := s.patience.Blocked - waited; rest > 0 {
		s.timer.Reset(max(rest, time.Millisecond))
		return
	}
	s.ticket.Leave(work.Ignored)
}

// before is called in front of each write of at most writePiece.
func (s *slowReader) before(now mono.Time) {
	s.since.Store(int64(now))
	// A deadline that has an eighth left to give is as good as a new one.
	if s.timed && (s.due == 0 || s.due.Sub(now) < s.patience.Write*7/8) {
		s.due = now.Add(s.patience.Write)
		s.timed = s.control.SetWriteDeadline(time.Now().Add(s.patience.Write)) == nil
	}
}

// after is called behind it.
func (s *slowReader) after(now mono.Time) {
	s.waited.Add(int64(now.Sub(mono.Time(s.since.Swap(0)))))
}

// done lifts the deadline: the connection may have another request.
func (s *slowReader) done() {
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.timed && s.due != 0 {
		_ = s.control.SetWriteDeadline(time.Time{})
	}
}
