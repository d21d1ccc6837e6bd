package audit

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// Recorder is an engine whose decisions are written down.
type Recorder struct {
	engine *culprit.Engine
	source string
	cfg    culprit.Config
	before []byte    // the engine's state before the present look
	going  bool      // an incident goes on
	open   bool      // every look of it is being written
	quiet  int       // looks since it was last suspect
	named  []naming  // in this incident
	news   mono.Time // when there was some last
	wrote  mono.Time // when a look was written last
	out    []byte
}

// quietLooks is how many looks that are not suspect still belong to an incident, so
// that a log shows how it ended.
const quietLooks = 20

// An incident of hours would fill a disk, by some hundred kilobytes a second. While it brings no news for longer than wholeFor, looks are written
// that are a tenth of that time apart, seldomSpan at most.
const (
	wholeFor   = 10 * time.Second
	seldomPart = 10
	seldomSpan = 10 * time.Second
)

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
	case notable && !r.going:
		r.going, r.quiet, r.news, r.named = true, 0, s.At, r.named[:0]
	case notable:
		r.quiet = 0
	default:
		r.quiet++
		r.going = r.going && r.quiet <= quietLooks
	}
	if done := r.hear(s.At, d); !r.going || !done && !r.due(s.At) {
		r.open = false
		return d, r.out
	}
	if !r.open {
		r.add(line{Source: r.source, State: r.before}, nil)
	}
	r.open, r.wrote = true, s.At
	sample, err := json.Marshal(s)
	decided, err2 := encode(s, d)
	if err == nil {
		err = err2
	}
	r.add(line{Source: r.source, Sample: sample, Decision: decided}, err)
	return d, r.out
}

// naming is that a culprit is named, or more than that. One that is named again is no news.
type naming struct {
	state culprit.State
	task  uint64
}

// mostNamed bounds how many are remembered; what comes then is no news.
const mostNamed = 64

// hear notes what is news in an incident: a cancel, what came of one, and whether another culprit is named. It reports whether something is
// done, which is written also where it is no news, as the limit of a kind that is renewed each minute.
func (r *Recorder) hear(at mono.Time, d *culprit.Decision) (done bool) {
	acted := d.Action.Step != culprit.NoStep || d.Outcome.Verdict != culprit.Pending
	if acted {
		r.news = at
	}
	if d.State >= culprit.Named && len(d.Candidates) > 0 && len(r.named) < mostNamed {
		if now := (naming{d.State, d.Candidates[0].Task}); !slices.Contains(r.named, now) {
			r.named, r.news = append(r.named, now), at
		}
	}
	return acted || d.Action.Limit.Kind != 0
}

// due reports whether a look at an instant, within an incident, is written; so is the one that ends it.
func (r *Recorder) due(at mono.Time) bool {
	since := at.Sub(r.news)
	return since <= wholeFor || r.quiet == quietLooks || at.Sub(r.wrote) >= min(since/seldomPart, seldomSpan)
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
