package guard

import (
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/culprit/audit"
)

// Audit appends to a log in which every decision can be computed again, as package audit
// describes it, with an event for every cancel and for what came of it. Several guards may
// share one; nil writes nothing.
type Audit struct {
	mu     sync.Mutex
	w      io.Writer
	log    *slog.Logger
	failed bool
}

// NewAudit returns an audit that appends to w. When w fails, log says so once, and the
// audit goes on to try.
func NewAudit(w io.Writer, log *slog.Logger) *Audit { return &Audit{w: w, log: log} }

// write appends whole lines.
func (a *Audit) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.w.Write(lines)
	if failed := err != nil; failed != a.failed {
		if a.failed = failed; failed {
			a.log.Error("the audit log cannot be written", slog.Any("error", err))
		}
	}
}

// engine is a culprit engine whose decisions are written to the audit log, if there is one.
type engine interface {
	Observe(s *culprit.Sample) *culprit.Decision
	Configure(cfg culprit.Config) error
}

// recorded writes down what an engine decides.
type recorded struct {
	*audit.Recorder
	to *Audit
}

// Observe implements engine.
func (r recorded) Observe(s *culprit.Sample) *culprit.Decision {
	d, lines := r.Recorder.Observe(s)
	r.to.write(lines)
	return d
}

// Configure implements engine.
func (r recorded) Configure(cfg culprit.Config) error {
	lines, err := r.Recorder.Configure(cfg)
	r.to.write(lines)
	return err
}

// engine returns an engine for a server.
func (a *Audit) engine(server string, cfg culprit.Config) (engine, error) {
	if a == nil {
		return culprit.New(cfg)
	}
	r, err := audit.NewRecorder(server, cfg)
	if err != nil {
		return nil, err
	}
	a.write(r.Begin())
	return recorded{r, a}, nil
}

// event notes what was done to a task, or what came of it.
func (a *Audit) event(server, what string, c *Cancel) {
	if a == nil {
		return
	}
	text, err := json.Marshal(struct {
		Source string  `json:"source"`
		Event  string  `json:"event"`
		Time   string  `json:"time"`
		Cancel *Cancel `json:"cancel"`
	}{server, what, time.Now().Format(time.RFC3339Nano), c})
	if err == nil {
		a.write(append(text, '\n'))
	}
}
