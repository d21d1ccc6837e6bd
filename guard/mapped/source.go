package mapped

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
)

// Describe says what a guard calls a task of a kind, whose name is "" if it has none, or not yet. The session needs neither
// process nor application.
type Describe func(kind uint64, name string) track.Session

// Source looks at a server through its task file alone, and acts through it: neither takes a connection or a thread of the
// server, so both work while it is too busy to answer. It is for one goroutine. The methods do what those of guard.Source do.
type Source struct {
	server   string // as errors name it
	file     *File
	describe Describe
	look     track.Look
	// resources are those of look, whose processors have another name in the file.
	resources  []culprit.Resource
	processors processors
	starvation culprit.Starvation
}

// NewSource returns a Source that has the file, and closes it. Server is the name of the package in errors.
func NewSource(server string, file *File, describe Describe) *Source {
	return &Source{server: server, file: file, describe: describe}
}

// Look looks once.
func (s *Source) Look(context.Context) (*track.Look, error) {
	file, err := s.file.Look()
	if err != nil {
		return nil, fmt.Errorf("%s: the task file: %w", s.server, err)
	}
	l := &s.look
	l.Sample, l.Sessions, l.Notes = file.Sample, l.Sessions[:0], l.Notes[:0]
	s.resources = append(s.resources[:0], file.Sample.Resources...)
	processor := s.processors.look(s.resources, file.Origins, time.Now())
	l.Sample.Resources = s.resources
	s.starvation.Enter(&l.Sample, processor, s.processors.taken, s.processors.share, 1)
	for i := range file.Origins {
		kind, o := file.Sample.Tasks[i].Kind, &file.Origins[i]
		session := s.describe(kind, s.file.Name(kind))
		session.Process, session.Application = int64(o.PID), s.file.Name(o.Key)
		l.Sessions = append(l.Sessions, session)
	}
	if file.Untraced > 0 {
		l.Notes = append(l.Notes, "the task file has fewer slots than the server had requests at once; some were not seen")
	}
	return l, nil
}

// Act has the server cancel a task of the last look. It reports false if the task was gone.
func (s *Source) Act(_ context.Context, task uint64, step culprit.Step) (bool, error) {
	if step != culprit.Statement {
		return false, fmt.Errorf("%s: there is no step %v, expected statement", s.server, step)
	}
	done, err := s.file.Cancel(task)
	if err != nil {
		return false, fmt.Errorf("%s: cancel: %w", s.server, err)
	}
	return done, nil
}

// KeepOut has the server refuse tasks of a kind for a time from now on.
func (s *Source) KeepOut(_ context.Context, kind uint64, d time.Duration) error {
	if err := s.file.KeepOut(kind, d); err != nil {
		return fmt.Errorf("%s: keep out: %w", s.server, err)
	}
	return nil
}

// Alive checks that the file is still the one that the server writes.
func (s *Source) Alive(context.Context) error {
	if err := s.file.Alive(); err != nil {
		return fmt.Errorf("%s: %w", s.server, err)
	}
	return nil
}

// Close lets go of the file.
func (s *Source) Close() { s.file.Close() }
