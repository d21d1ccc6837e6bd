package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// maxLine is the longest line that is read: the largest sample fits in.
const maxLine = 64 << 20

// maxSources is how many sources one log may have.
const maxSources = 1000

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
// A last line that is cut off, as by a crash, is ErrCutOff; all before it was replayed.
func Replay(log io.Reader, each func(*Look) error) error {
	scan := bufio.NewScanner(log)
	scan.Buffer(nil, maxLine)
	whole := false // the line ended with a line feed
	scan.Split(func(data []byte, end bool) (int, []byte, error) {
		advance, token, err := bufio.ScanLines(data, end)
		whole = advance > len(token)
		return advance, token, err
	})
	p := player{engines: map[string]*culprit.Engine{}}
	for n := 1; scan.Scan(); n++ {
		if len(bytes.TrimSpace(scan.Bytes())) == 0 {
			continue
		}
		look, err := p.play(scan.Bytes())
		if err != nil {
			if !whole {
				err = errors.Join(ErrCutOff, err)
			}
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
	return nil
}

// ErrCutOff tells that the last line of a log is incomplete.
var ErrCutOff = errors.New("audit: the last line is cut off; the log ends before it")

// player replays lines.
type player struct {
	engines map[string]*culprit.Engine // by source
}

// play replays one line; it returns nil if the line has no decision.
func (p *player) play(text []byte) (*Look, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, fmt.Errorf("audit: no JSON object of a log: %w", err)
	}
	switch {
	case l.Event != "":
		return nil, nil
	case l.Config != nil:
		return nil, p.begin(&l)
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
