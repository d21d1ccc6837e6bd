package phpfpm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// status is the page, as far as it is used.
type status struct {
	Pool     string    `json:"pool"`
	Accepted uint64    `json:"accepted conn"`
	Queue    int       `json:"listen queue"`
	Active   int       `json:"active processes"`
	Idle     int       `json:"idle processes"`
	Workers  []process `json:"processes"`
}

// process is a worker. Its numbers are of the request that it has, if its state says so.
type process struct {
	PID      int64  `json:"pid"`
	State    string `json:"state"`
	Started  int64  `json:"start time"` // Unix seconds
	Requests uint64 `json:"requests"`
	Duration int64  `json:"request duration"` // µs
	Method   string `json:"request method"`
	URI      string `json:"request uri"`
	User     string `json:"user"`
}

// pids returns the processes of all workers.
func (s *status) pids() []int64 {
	all := make([]int64, len(s.Workers))
	for i := range s.Workers {
		all[i] = s.Workers[i].PID
	}
	return all
}

// mostWorkers bounds the workers of a page.
const mostWorkers = 4096

// The states of a worker without a request, and of one that is being sent one.
const idle, reading = "Idle", "Reading headers"

// errLocked is what FPM answers while a worker changes what the page shows.
var errLocked = errors.New("FPM answers 500, as it does while the page is locked")

// decode reads an answer: headers, an empty line, and JSON.
func decode(answer []byte) (*status, error) {
	head, body, ok := bytes.Cut(answer, []byte("\r\n\r\n"))
	if !ok {
		return nil, fmt.Errorf("an answer of %d bytes without a body", len(answer))
	}
	if bytes.HasPrefix(head, []byte("Status: 500")) {
		return nil, errLocked
	}
	if bytes.HasPrefix(head, []byte("Status: ")) {
		line, _, _ := bytes.Cut(head, []byte("\r\n"))
		return nil, fmt.Errorf("the answer is %.60q, expected the page: is pm.status_path that of the URL?", line)
	}
	var s status
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, fmt.Errorf("the page is no JSON as PHP 8.0 and later write it: %w", err)
	}
	if s.Pool == "" || len(s.Workers) > mostWorkers {
		return nil, fmt.Errorf("a page of pool %q with %d workers, expected a name and at most %d", s.Pool, len(s.Workers), mostWorkers)
	}
	// One that was ended is shown with neither process nor request until the master has started another.
	s.Workers = slices.DeleteFunc(s.Workers, func(w process) bool { return w.PID == 0 })
	for _, w := range s.Workers {
		if w.PID <= 1 || w.Duration < 0 {
			return nil, fmt.Errorf("a worker with pid %d and a request of %d µs", w.PID, w.Duration)
		}
	}
	return &s, nil
}

// same reports whether a worker still has the request that it had.
func (p *process) same(was *process) bool {
	return p.PID == was.PID && p.Started == was.Started && p.Requests == was.Requests && p.State != idle
}
