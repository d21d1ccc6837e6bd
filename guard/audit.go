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
	to     *audit.Lines
	log    *slog.Logger
	failed bool
	gaps   uint64 // writes that failed
}

// NewAudit returns an audit that appends to w. When w fails, log says so once, and the
// audit goes on to try: what was to be written is lost, and every engine begins its log anew, so that what comes
// after the gap can be computed again.
func NewAudit(w io.Writer, log *slog.Logger) *Audit { return &Audit{to: audit.NewLines(w), log: log} }

// write appends whole lines.
func (a *Audit) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.to.Append(lines)
	if err != nil {
		a.gaps++
	}
	if failed := err != nil; failed != a.failed {
		if a.failed = failed; failed {
			a.log.Error("the audit log cannot be written", slog.Any("error", err))
		} else {
			a.log.Warn("the audit log can be written again", slog.Uint64("lost", a.gaps))
		}
	}
}

// lost returns how many writes have failed.
func (a *Audit) lost() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gaps
}

// engine is a culprit engine whose decisions are written to the audit log, if there is one.
type engine interface {
	Observe(s *culprit.Sample) *culprit.Decision
	Configure(cfg culprit.Config) error
}

// recorded writes down what an engine decides.
type recorded struct {
	*audit.Recorder
	to   *Audit
	gaps uint64 // of the log, when it began to write or began anew
}

// Observe implements engine.
func (r *recorded) Observe(s *culprit.Sample) *culprit.Decision {
	if lost := r.to.lost(); lost != r.gaps {
		r.gaps = lost
		r.to.write(r.Begin())
	}
	d, lines := r.Recorder.Observe(s)
	if r.to.lost() == r.gaps { // else nothing could be computed from them: the beginning was not written
		r.to.write(lines)
	}
	return d
}

// Configure implements engine.
func (r *recorded) Configure(cfg culprit.Config) error {
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
	one := &recorded{Recorder: r, to: a, gaps: a.lost()}
	a.write(r.Begin())
	return one, nil
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
