package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// maxLine is the longest line that is read: the largest sample fits in.
const maxLine = 64 << 20

// maxSources is how many sources one log may have.
const maxSources = 1000

// maxGaps is how many lines that are cut off are named. A disk that is full for hours leaves thousands; the rest are
// counted.
const maxGaps = 20

// Look is one decision of a log, computed again.
type Look struct {
	Line   int
	Source string
	At     mono.Time
	// Logged is the decision of the log, Replayed the one computed from the sample.
	Logged, Replayed []byte
}

// Same reports whether they agree, byte for byte.
func (l *Look) Same() bool { return bytes.Equal(l.Logged, l.Replayed) }

// Replay reads a log and calls each for every decision, in order. It stops with the
// first error: of reading, of each, or about a line that is none of this version's.
// A line that is cut off, as by a crash or a full disk, is ErrCutOff if it is the last one, or if its source
// begins anew after it; all that can be computed was replayed then.
func Replay(log io.Reader, each func(*Look) error) error {
	scan := bufio.NewScanner(log)
	scan.Buffer(nil, maxLine)
	whole := false // the line ended with a line feed
	scan.Split(func(data []byte, end bool) (int, []byte, error) {
		advance, token, err := bufio.ScanLines(data, end)
		whole = advance > len(token)
		return advance, token, err
	})
	p := player{engines: map[string]*culprit.Engine{}, torn: map[string]error{}}
	for n := 1; scan.Scan(); n++ {
		if len(bytes.TrimSpace(scan.Bytes())) == 0 {
			continue
		}
		look, err := p.play(scan.Bytes())
		if errors.Is(err, errNoObject) {
			if err = fmt.Errorf("line %d: %w", n, err); whole {
				if p.tear(scan.Bytes(), err); len(p.torn) > maxSources {
					return p.rest()
				}
				continue
			}
			p.gap(err)
			return p.cutOff()
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if look != nil {
			look.Line = n
			if err := each(look); err != nil {
				return err
			}
		}
	}
	if err := scan.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("audit: a line of more than %d bytes; expected a log of spillgate", maxLine)
	} else if err != nil {
		return fmt.Errorf("audit: read the log: %w", err)
	}
	return p.rest()
}

// ErrCutOff tells that a line of a log is incomplete, and that all that could be computed again was.
var ErrCutOff = errors.New("audit: a line is cut off; the log ends before it, or begins anew after it")

// errNoObject is of a line that cannot be read at all.
var errNoObject = errors.New("audit: no JSON object of a log")

// player replays lines.
type player struct {
	engines map[string]*culprit.Engine // by source
	// torn are lines that are cut off, by source, until that begins anew; anybody's, "" for one whose source is not
	// known. What a source wrote in between cannot be computed.
	torn     map[string]error
	anybodys bool
	gaps     []error // lines that are cut off, and after which their source has begun anew, maxGaps at most
	unnamed  int     // how many more there are
}

// begins is how the writer begins a line.
var begins = regexp.MustCompile(`^\{(?:"v":\d+,)?"source":("(?:[^"\\]|\\.)*")`)

// tear enters a line that is cut off.
func (p *player) tear(text []byte, err error) {
	source := ""
	if found := begins.FindSubmatch(text); found != nil && json.Unmarshal(found[1], &source) == nil {
		delete(p.engines, source)
	} else {
		clear(p.engines)
		p.anybodys = true
	}
	if p.torn[source] == nil {
		p.torn[source] = err
	}
}

// rest returns what is wrong with a log that ended.
func (p *player) rest() error {
	for _, source := range slices.Sorted(maps.Keys(p.torn)) { // nothing follows that could tell it from damage
		return p.torn[source]
	}
	return p.cutOff()
}

// gap enters a line that is cut off and does no harm.
func (p *player) gap(err error) {
	if len(p.gaps) == maxGaps {
		p.unnamed++
		return
	}
	p.gaps = append(p.gaps, fmt.Errorf("%w: %w", ErrCutOff, err))
}

// cutOff returns the lines that are cut off, nil if there are none.
func (p *player) cutOff() error {
	if p.unnamed == 0 {
		return errors.Join(p.gaps...)
	}
	return fmt.Errorf("%w\nand %d more such lines", errors.Join(p.gaps...), p.unnamed)
}

// play replays one line; it returns nil if the line has no decision.
func (p *player) play(text []byte) (*Look, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoObject, err)
	}
	switch {
	case l.Event != "":
		return nil, nil
	case l.Config != nil:
		return nil, p.begin(&l)
	case p.engines[l.Source] == nil && (p.anybodys || p.torn[l.Source] != nil):
		return nil, nil
	case p.engines[l.Source] == nil:
		return nil, fmt.Errorf("audit: source %q has no configuration yet; expected a line with \"v\":%d and \"config\" before", l.Source, version)
	case l.State != nil:
		return nil, p.engines[l.Source].Restore(l.State)
	case l.Sample != nil:
		return p.look(&l)
	}
	return nil, errors.New("audit: a line with no config, state, sample or event")
}

func (p *player) begin(l *line) error {
	if l.V != version {
		return fmt.Errorf("audit: a log of version %d; expected %d", l.V, version)
	}
	if len(p.engines) >= maxSources {
		return fmt.Errorf("audit: more than %d sources in one log", maxSources)
	}
	var cfg culprit.Config
	if err := strict(l.Config, &cfg); err != nil {
		return fmt.Errorf("audit: the configuration of source %q: %w", l.Source, err)
	}
	e, err := culprit.New(cfg)
	if err != nil {
		return fmt.Errorf("audit: the configuration of source %q: %w", l.Source, err)
	}
	p.engines[l.Source] = e
	for _, source := range []string{"", l.Source} {
		if err := p.torn[source]; err != nil {
			p.gap(err)
			delete(p.torn, source)
		}
	}
	return nil
}

func (p *player) look(l *line) (*Look, error) {
	var s culprit.Sample
	if err := strict(l.Sample, &s); err != nil {
		return nil, fmt.Errorf("audit: a sample of source %q: %w", l.Source, err)
	}
	again, err := encode(&s, p.engines[l.Source].Observe(&s))
	if err != nil {
		return nil, fmt.Errorf("audit: a decision of source %q: %w", l.Source, err)
	}
	return &Look{Source: l.Source, At: s.At, Logged: bytes.Clone(l.Decision), Replayed: again}, nil
}

// strict decodes JSON without fields that are not known.
func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
