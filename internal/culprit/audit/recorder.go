package audit

import (
	"encoding/json"

	"github.com/spillgate/spillgate/internal/culprit"
)

// Recorder is an engine whose decisions are written down.
type Recorder struct {
	engine *culprit.Engine
	source string
	cfg    culprit.Config
	before []byte // the engine's state before the present look
	open   bool   // an incident is being written
	quiet  int    // looks since it was last suspect
	out    []byte
}

// quietLooks is how many looks that are not suspect still belong to an incident, so
// that a log shows how it ended.
const quietLooks = 20

// NewRecorder returns an engine for the source of that name. It fails as culprit.New
// does.
func NewRecorder(source string, cfg culprit.Config) (*Recorder, error) {
	e, err := culprit.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Recorder{engine: e, source: source, cfg: cfg}, nil
}

// Begin returns the line that a file begins with. An incident that is under way goes
// on in the new file with the state of the engine. The bytes are valid until the next
// call.
func (r *Recorder) Begin() []byte {
	r.open = false
	r.out = r.out[:0]
	text, err := json.Marshal(r.cfg)
	r.add(line{V: version, Source: r.source, Config: text}, err)
	return r.out
}

// Configure replaces the configuration of the engine and keeps what it learned, as
// culprit.Engine.Configure does. lines is what must be appended to the log; it is valid until the
// next call.
func (r *Recorder) Configure(cfg culprit.Config) (lines []byte, err error) {
	if err := r.engine.Configure(cfg); err != nil {
		return nil, err
	}
	r.cfg = cfg
	return r.Begin(), nil
}

// Observe is that of the engine. lines is what must be appended to the log, nothing
// in quiet times; it is valid until the next call.
func (r *Recorder) Observe(s *culprit.Sample) (d *culprit.Decision, lines []byte) {
	r.out = r.out[:0]
	if !r.open {
		r.before = r.engine.AppendState(r.before[:0])
	}
	d = r.engine.Observe(s)
	switch notable := d.State > culprit.Normal || d.Outcome.Verdict != culprit.Pending; {
	case notable && !r.open:
		r.add(line{Source: r.source, State: r.before}, nil)
		r.open, r.quiet = true, 0
	case notable:
		r.quiet = 0
	default:
		r.quiet++
		r.open = r.open && r.quiet <= quietLooks
	}
	if r.open {
		sample, err := json.Marshal(s)
		decided, err2 := encode(s, d)
		if err == nil {
			err = err2
		}
		r.add(line{Source: r.source, Sample: sample, Decision: decided}, err)
	}
	return d, r.out
}

// add appends a line, or what kept it from being one.
func (r *Recorder) add(l line, err error) {
	text, failed := json.Marshal(l)
	if err == nil {
		err = failed
	}
	if err != nil {
		text, _ = json.Marshal(line{Source: r.source, Event: "not written: " + err.Error()})
	}
	r.out = append(append(r.out, text...), '\n')
}
