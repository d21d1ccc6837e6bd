package httpgate

import (
	"net/http"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// pace holds a client to Patience.Rate and Patience.Silence while its body is read, by the
// read deadline of its connection or stream. The zero pace holds nobody to anything.
type pace struct {
	patience *Patience
	control  *http.ResponseController // nil: no deadline can be set
	began    mono.Time
	came     int64     // bytes
	due      mono.Time // as it was set
	shared   bool      // the handler may set deadlines too, as one of HTTP/1 can cheaply
}

func newPace(p *Patience, w http.ResponseWriter, r *http.Request) pace {
	if p.Rate < 0 && p.Silence < 0 {
		return pace{}
	}
	return pace{patience: p, control: http.NewResponseController(w), began: live.Now(), shared: r.ProtoMajor == 1}
}

// before is called in front of each read.
func (p *pace) before(now mono.Time) {
	if p.control == nil {
		return
	}
	due := mono.Never
	if p.patience.Rate > 0 {
		due = p.began.Add(p.patience.Grace + time.Duration(float64(p.came)/float64(p.patience.Rate)*float64(time.Second)))
	}
	if p.patience.Silence > 0 {
		due = min(due, now.Add(p.patience.Silence))
	}
	// A deadline that has an eighth left to give is as good as a new one.
	if !p.shared && p.due != 0 && due.Sub(p.due) < p.patience.Silence/8 {
		return
	}
	if p.due = due; p.control.SetReadDeadline(time.Now().Add(due.Sub(now))) != nil {
		p.control = nil
	}
}

// breakOff ends reads, the next one included. It may be called at once from any goroutine.
func (p *pace) breakOff() {
	if p.control != nil {
		_ = p.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// over lifts the deadline: the connection may have another request.
func (p *pace) over() {
	if p.control != nil {
		_ = p.control.SetReadDeadline(time.Time{})
	}
}
