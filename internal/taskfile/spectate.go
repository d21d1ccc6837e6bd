package taskfile

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrTaken is that a living process is the engine of a file.
var ErrTaken = errors.New("taskfile: the file has an engine")

// Spectator reads a file that has an engine, and writes nothing: the mode, and how exact
// what it sees is, are the engine's. Slots of the dead are left out, not freed. Its
// methods are for one goroutine.
type Spectator struct{ engine *Engine }

// Spectate opens the file at path, which must exist.
func Spectate(path string) (*Spectator, error) {
	place, self, err := here()
	if err != nil {
		return nil, err
	}
	f, err := openExisting(path, place, self)
	if err != nil {
		return nil, located(err, path)
	}
	e := &Engine{file: f, reader: newReader(f)}
	err = guarded(func() error {
		copy(e.fixed[:], f.mem)
		e.reader.remember()
		return nil
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Spectator{e}, nil
}

// Run hands a look to see each period until ctx ends or the file is gone, and returns
// which.
func (s *Spectator) Run(ctx context.Context, period, objective time.Duration, see func(*Look)) error {
	if period <= 0 || objective <= 0 || see == nil {
		return fmt.Errorf("taskfile: a spectator with period %v and objective %v; expected positive durations and a function", period, objective)
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		look, err := s.engine.Look(objective)
		if err != nil {
			return err
		}
		see(look)
	}
}

// KindName is that of Engine.
func (s *Spectator) KindName(fingerprint uint64) string { return s.engine.KindName(fingerprint) }

// Close lets go of the file, as it is.
func (s *Spectator) Close() error { return s.engine.file.Close() }
