package apache

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/mapped"
	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// What the names begin with that the module gives to workers: processes, or threads, whose requests
// it cannot cancel. How many there may be follows, "workers (8)".
const workersName, threadsName = "workers", "worker threads"

// capacity reads the name of workers. n is 0 if it does not say how many there may be.
func capacity(name string) (n int, ok bool) {
	rest, ok := strings.CutPrefix(name, workersName)
	if !ok {
		if rest, ok = strings.CutPrefix(name, threadsName); !ok {
			return 0, false
		}
	}
	if rest == "" {
		return 0, true
	}
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(rest, " ("), ")"))
	return max(n, 0), err == nil
}

// workers returns the resource of which most workers are taken, -1 if none ever was, and whether all
// are: then what lies in the accept queue waits for one.
func workers(s *culprit.Sample) (resource int, all bool) {
	taken := make([]int, len(s.Resources))
	for i := range s.Holds {
		if s.Holds[i].HeldSince != culprit.Unset {
			taken[s.Holds[i].Resource]++
		}
	}
	resource, most := -1, 0
	for r := range s.Resources {
		if n, ok := capacity(s.Resources[r].Name); ok && (resource < 0 || taken[r] >= taken[resource]) {
			resource, most = r, n
		}
	}
	return resource, resource >= 0 && taken[resource] >= most
}

// waiting is set in the ID of a connection in the accept queue. IDs of the task file are
// smaller than that: their sequence would have to count for centuries.
const waiting = 1 << 63

// Source is an Apache. It is for one goroutine.
type Source struct {
	at      location
	file    *mapped.File
	pid     int64 // of a process of Apache, 0 if none was seen
	queue   *track.Tracker
	backlog []procfs.Pending
	lack    procfs.Lack
	starved map[uint64]time.Duration // of the tasks of the last look
	look    track.Look
}

// location is what a URL says.
type location struct {
	path  string
	ports []int
}

// mostPorts bounds the ports of a URL.
const mostPorts = 16

// parse reads apache://127.0.0.1:80/run/spillgate/apache.tasks?port=443.
func parse(text string) (l location, err error) {
	const want = "expected apache://127.0.0.1:80/path/of/the/task/file, with ?port=443 for each further port"
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "apache" {
		return l, errors.New("apache: the URL cannot be read: " + want)
	}
	if u.Path == "" || u.Path == "/" {
		return l, errors.New("apache: the URL names no task file: " + want)
	}
	l.path = u.Path
	first := u.Port()
	if first == "" {
		first = "80"
	}
	for _, word := range append([]string{first}, u.Query()["port"]...) {
		port, err := strconv.ParseUint(word, 10, 16)
		if err != nil || port == 0 || len(l.ports) == mostPorts {
			return l, fmt.Errorf("apache: port %q: expected at most %d ports of 1 to 65535", word, mostPorts)
		}
		l.ports = append(l.ports, int(port))
	}
	for name := range u.Query() {
		if name != "port" {
			return l, fmt.Errorf("apache: the URL has a parameter %q: %s", name, want)
		}
	}
	return l, nil
}

// Check reports what is wrong with a URL.
func Check(text string) error { _, err := parse(text); return err }

// Open becomes the engine of the task file, and makes the file if Apache has not yet. The
// foreground's objective tells late requests.
func Open(_ context.Context, text string, objective time.Duration) (*Source, error) {
	at, err := parse(text)
	if err != nil {
		return nil, err
	}
	file, err := mapped.Attach(at.path, objective)
	if err != nil {
		return nil, fmt.Errorf("apache: %w", err)
	}
	return &Source{at: at, file: file, queue: track.New([]culprit.Resource{{Name: workersName, Kind: culprit.Queue}})}, nil
}

// Look looks once. An error means that the file is gone or was damaged; the source is to be
// closed and opened again.
func (s *Source) Look(context.Context) (*track.Look, error) {
	s.backlog = procfs.Backlog(s.backlog[:0], s.pid, s.at.ports...) // before the file: what is taken meanwhile is in neither, or in both
	file, err := s.file.Look()
	if err != nil {
		return nil, fmt.Errorf("apache: %w", err)
	}
	l := &s.look
	l.Sample, l.Sessions, l.Notes = file.Sample, l.Sessions[:0], l.Notes[:0]
	s.starve(l, file.Origins)
	for i := range file.Origins {
		s.pid = int64(file.Origins[i].PID)
		l.Sessions = append(l.Sessions, s.session(&file.Sample.Tasks[i], &file.Origins[i]))
	}
	s.arrivals(l, file.Sample.At)
	if file.Untraced > 0 {
		l.Notes = append(l.Notes, "the task file has fewer slots than Apache has workers; stop Apache and the guard, remove it and start Apache first")
	}
	return l, nil
}

// starve enters what other programs took of the processors, and from which requests.
func (s *Source) starve(l *track.Look, origins []taskfile.Origin) {
	s.lack.Begin(time.Now(), s.processes)
	l.Sample.Taken = s.lack.Taken()
	was := s.starved
	s.starved = make(map[uint64]time.Duration, len(origins))
	for i := range origins {
		t := &l.Sample.Tasks[i]
		lack, ok := s.lack.Of(int64(origins[i].PID))
		if !ok {
			continue
		}
		t.Starved = min(was[t.ID]+lack, l.Sample.At.Sub(t.Started))
		s.starved[t.ID] = t.Starved
	}
}

// processes returns those of Apache, nothing before a request was seen.
func (s *Source) processes() []int64 {
	if s.pid == 0 {
		return nil
	}
	return procfs.Family(s.pid)
}

// arrivals adds what lies in the accept queue. It waits for a worker if all are taken; else for a
// processor, or for a process that Apache has yet to start, which no request is to blame for.
func (s *Source) arrivals(l *track.Look, at mono.Time) {
	workers, all := workers(&l.Sample)
	if workers < 0 {
		return // no request was ever served
	}
	s.queue.Begin(at)
	for _, p := range s.backlog {
		since := at.Add(-p.Waited)
		e := s.queue.Task(track.Key{Session: p.Client, Work: int64(p.Port)}, since)
		if all {
			s.queue.Waits(e, 0, since)
		}
	}
	queue := s.queue.End(0)
	first := int32(len(l.Sample.Tasks))
	for _, t := range queue.Sample.Tasks {
		t.ID |= waiting
		l.Sample.Tasks = append(l.Sample.Tasks, t)
		l.Sessions = append(l.Sessions, track.Session{State: "accept queue"})
	}
	for _, h := range queue.Sample.Holds {
		h.Task, h.Resource = h.Task+first, int32(workers)
		l.Sample.Holds = append(l.Sample.Holds, h)
	}
}

// Act has the worker of a task of the last look cancel it. It reports false if the task was
// gone: the worker looks itself whether it still serves that request.
func (s *Source) Act(_ context.Context, task uint64, step culprit.Step) (bool, error) {
	if step != culprit.Statement || task >= waiting {
		return false, fmt.Errorf("apache: there is no step %v for the task, expected statement, of a request", step)
	}
	done, err := s.file.Cancel(task)
	if err != nil {
		return false, fmt.Errorf("apache: %w", err)
	}
	return done, nil
}

// KeepOut has Apache refuse requests of a kind for a time from now on. A module that was built before it could do so
// serves them all the same.
func (s *Source) KeepOut(_ context.Context, kind uint64, d time.Duration) error {
	if err := s.file.KeepOut(kind, d); err != nil {
		return fmt.Errorf("apache: keep out: %w", err)
	}
	return nil
}

// Alive checks that the file is still the one that Apache opens.
func (s *Source) Alive(context.Context) error {
	if err := s.file.Alive(); err != nil {
		return fmt.Errorf("apache: %w", err)
	}
	return nil
}

// Close lets go of the file. Apache then records nothing any more.
func (s *Source) Close() { s.file.Close() }
