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
	begun  uint64 // how often it has begun anew: after a gap, or in another file
}

// NewAudit returns an audit that appends to w. When w fails, log says so once, and the
// audit goes on to try: what was to be written is lost, and every engine begins its log anew, so that what comes
// after the gap can be computed again.
func NewAudit(w io.Writer, log *slog.Logger) *Audit { return &Audit{to: audit.NewLines(w), log: log} }

// write appends whole lines.
func (a *Audit) write(lines []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.append(lines)
}

// goOn appends what cannot be computed without what was written before, unless the log has begun anew since.
func (a *Audit) goOn(begun uint64, lines []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if begun == a.begun {
		a.append(lines)
	}
}

// append appends whole lines. The lock is held.
func (a *Audit) append(lines []byte) {
	if len(lines) == 0 {
		return
	}
	err := a.to.Append(lines)
	if err != nil {
		a.gaps++
		a.begun++
	}
	if failed := err != nil; failed != a.failed {
		if a.failed = failed; failed {
			a.log.Error("the audit log cannot be written", slog.Any("error", err))
		} else {
			a.log.Warn("the audit log can be written again", slog.Uint64("lost", a.gaps))
		}
	}
}

// move has the log go on in w, where every engine begins it anew.
func (a *Audit) move(w io.Writer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to = audit.NewLines(w)
	a.begun++
}

// beginnings returns how often the log has begun anew.
func (a *Audit) beginnings() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

// engine is a culprit engine whose decisions are written to the audit log, if there is one.
type engine interface {
	Observe(s *culprit.Sample) *culprit.Decision
	Configure(cfg culprit.Config) error
}

// recorded writes down what an engine decides.
type recorded struct {
	*audit.Recorder
	to    *Audit
	begun uint64 // of the log, when it began to write or began anew
}

// Observe implements engine.
func (r *recorded) Observe(s *culprit.Sample) *culprit.Decision {
	if begun := r.to.beginnings(); begun != r.begun {
		r.begun = begun
		r.to.goOn(begun, r.Begin())
	}
	d, lines := r.Recorder.Observe(s)
	r.to.goOn(r.begun, lines)
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
	one := &recorded{Recorder: r, to: a, begun: a.beginnings()}
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
