package phpfpm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// lookTimeout is how long one look may take.
const lookTimeout = time.Second

// workers is the resource.
const workers = 0

// program is what the names of FPM's programs begin with.
const program = "php-fpm"

// Source is a pool. It is for one goroutine.
type Source struct {
	at       location
	tracker  *track.Tracker
	queue    queue
	targets  map[uint64]process // of the present look, by task
	ended    uint64             // accepted less active
	seen     bool
	accepted uint64
	lack     procfs.Lack
}

// Open reads the page once.
func Open(ctx context.Context, text string, _ time.Duration) (*Source, error) {
	at, err := parse(text)
	if err != nil {
		return nil, err
	}
	s := &Source{at: at, tracker: track.New([]culprit.Resource{{Name: "workers", Kind: culprit.Queue}}), queue: queue{at: at}, targets: map[uint64]process{}}
	if _, err := s.read(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// tries is how often a page is asked for that is locked: a worker enters its next request for some
// microseconds.
const tries = 5

// read reads the page.
func (s *Source) read(ctx context.Context) (page *status, err error) {
	for range tries {
		if page, err = s.readOnce(ctx); !errors.Is(err, errLocked) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return page, err
}

func (s *Source) readOnce(ctx context.Context) (*status, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	text, err := ask(ctx, s.at.network, s.at.address, [][2]string{{"REQUEST_METHOD", "GET"}, {"SCRIPT_NAME", s.at.page}, {"SCRIPT_FILENAME", s.at.page},
		{"REQUEST_URI", s.at.page}, {"QUERY_STRING", "json&full"}, {"SERVER_PROTOCOL", "HTTP/1.1"}})
	if err != nil {
		return nil, fmt.Errorf("php-fpm: the status page: %w", err)
	}
	page, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("php-fpm: the status page: %w", err)
	}
	return page, nil
}

// Look looks once. An error means that the page cannot be read; the source is to be closed and
// opened again.
func (s *Source) Look(ctx context.Context) (*track.Look, error) {
	page, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	return s.build(page, live.Now()), nil
}

// build makes the look of a page.
func (s *Source) build(page *status, now mono.Time) *track.Look {
	s.tracker.Begin(now)
	s.lack.Begin(time.Now(), page.pids)
	s.tracker.Taken(s.lack.Taken())
	clear(s.targets)
	own := 0
	for i := range page.Workers {
		w := &page.Workers[i]
		path, _, _ := strings.Cut(w.URI, "?")
		if w.State == idle {
			continue
		}
		if path == s.at.page { // this look, which no other waits for long
			own++
			continue
		}
		began := now.Add(-time.Duration(w.Duration) * time.Microsecond)
		e := s.tracker.Task(track.Key{Process: w.PID, Session: w.Started, Work: int64(w.Requests)}, began)
		t, session := s.tracker.At(e)
		*session = describe(w, path)
		t.Kind = session.Statement.Fingerprint
		s.targets[t.ID] = *w
		if here(w) { // else it was ended, and the master has not noticed
			t.Steps = culprit.StepsOf(culprit.Statement, culprit.Session)
			if lack, ok := s.lack.Of(w.PID); ok {
				s.tracker.Starves(e, lack)
			}
		}
		s.tracker.Holds(e, workers, began, 1, false)
	}
	s.queue.look(s.tracker, workers, now, page)
	if len(page.Workers) > 0 && !slices.ContainsFunc(page.Workers, func(w process) bool { return here(&w) }) {
		s.tracker.Note("requests cannot be cancelled: the workers are no processes of this machine and pid namespace that began when the page says; run the guard beside FPM, and start FPM again if the clock was set since")
	}
	return s.tracker.End(s.completed(page, own))
}

// The worker's start time is of the clock, in whole seconds, and is taken when the process gets to it.
const earliest, latest = -2 * time.Second, 10 * time.Second

// here reports whether a worker is a process of this machine and pid namespace: one of FPM's programs, that began when the page says. The
// number alone may be that of a worker of another FPM, as of one with the same number in another container.
func here(w *process) bool {
	age, ok := procfs.Age(w.PID)
	if !ok || !procfs.Beside(w.PID, program) {
		return false
	}
	told := time.Unix(w.Started, 0).Sub(time.Now().Add(-age))
	return earliest <= told && told <= latest
}

// completed returns how many requests ended since the look before, without the looks themselves.
func (s *Source) completed(page *status, own int) uint64 {
	active := uint64(max(page.Active, 0))
	ended := page.Accepted - min(active, page.Accepted)
	n := ended - min(s.ended, ended)
	if !s.seen || page.Accepted < s.accepted {
		n = 0
	}
	s.seen, s.accepted, s.ended = true, page.Accepted, ended
	if own > 0 && n > 0 { // the page is asked of the pool itself
		n--
	}
	return n
}

// describe names the request of a worker. A path that no parser takes is a name all the same.
func describe(w *process, path string) track.Session {
	if w.State == reading { // what it tells is of the request before
		return track.Session{Process: w.PID, State: strings.ToLower(w.State)}
	}
	name := httpgate.Kind(&http.Request{Method: w.Method, URL: &url.URL{Path: path}})
	class := statement.Write
	switch w.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		class = statement.Select
	}
	_, application, _ := strings.Cut(name, " ")
	user := w.User
	if user == "-" {
		user = ""
	}
	return track.Session{Process: w.PID, User: user, Application: application, Route: name, State: strings.ToLower(w.State),
		Statement: statement.Statement{Fingerprint: taskfile.Fingerprint(name), Text: name, Class: class}}
}

// Act ends the request of a task of the last look with its worker. It reports false if the worker
// has another one by now.
func (s *Source) Act(ctx context.Context, task uint64, step culprit.Step) (bool, error) {
	was, ok := s.targets[task]
	if !ok {
		return false, nil
	}
	if step != culprit.Statement && step != culprit.Session {
		return false, fmt.Errorf("php-fpm: there is no step %v, expected statement or session", step)
	}
	return end(was.PID, step == culprit.Session, func() (bool, error) {
		page, err := s.read(ctx)
		if err != nil {
			return false, err
		}
		for i := range page.Workers {
			if page.Workers[i].same(&was) {
				return here(&was), nil
			}
		}
		return false, nil
	})
}

// Alive has nothing to check: a cancel is a signal, and reads the page first.
func (s *Source) Alive(context.Context) error { return nil }

// Close has nothing to close: each look has its own connection, as FPM wants it.
func (s *Source) Close() {}
