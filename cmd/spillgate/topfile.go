package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/taskfile"
)

const (
	// topPeriod is the time between two looks at a task file.
	topPeriod = 100 * time.Millisecond
	// topTasks is how many holders and waiters of a task file are shown.
	topTasks = 8
	// topCancels is how many of the last would-be cancels are kept.
	topCancels = 16
)

// topFile is the engine of a task file in mode monitor: it makes the tracers record,
// and cancels nobody. Of a file that has an engine it is a spectator, and writes nothing.
type topFile struct {
	path   string
	kinds  interface{ KindName(uint64) string }
	close  func() error
	choice *culprit.Engine
	stop   context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex
	status guard.Status
	err    error
}

// openTopFile attaches to the file, or looks on if it has an engine.
func openTopFile(path string, objective time.Duration) (topReader, error) {
	choice, err := culprit.New(culprit.Config{Objective: objective})
	if err != nil {
		return nil, fmt.Errorf("task file %s: %w", path, err)
	}
	f := &topFile{path: path, choice: choice, ended: make(chan struct{})}
	f.status = guard.Status{Server: path, Mode: "monitor", Objective: objective.Seconds(), State: "connecting"}
	run, err := f.open(objective)
	if err != nil {
		return nil, fmt.Errorf("task file %s: %w", path, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() {
		defer close(f.ended)
		err := run(ctx)
		f.mu.Lock()
		f.err = err
		f.mu.Unlock()
	}()
	return f, nil
}

// open returns what reads the file until its context ends.
func (f *topFile) open(objective time.Duration) (run func(context.Context) error, err error) {
	engine, err := taskfile.Attach(f.path, taskfile.Geometry{})
	if errors.Is(err, taskfile.ErrTaken) {
		spectator, err := taskfile.Spectate(f.path)
		if err != nil {
			return nil, err
		}
		f.kinds, f.close = spectator, spectator.Close
		return func(ctx context.Context) error { return spectator.Run(ctx, topPeriod, objective, f.see) }, nil
	}
	if err != nil {
		return nil, err
	}
	if err := engine.SetMode(taskfile.Precise); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	f.kinds, f.close = engine, engine.Close
	return func(ctx context.Context) error {
		return engine.Run(ctx, taskfile.Loop{Period: topPeriod, Objective: objective, See: f.see})
	}, nil
}

// Close gives the file up, and the tracers record no more.
func (f *topFile) Close() {
	f.stop()
	<-f.ended
	_ = f.close() // it was read; the next engine to attach sets the mode again
}

// Read returns the newest look.
func (f *topFile) Read(context.Context) topSource {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := topSource{Name: f.path, Kind: "task file"}
	if f.err != nil {
		return s.failed(fmt.Errorf("%w; start top again when the program has created the file again", f.err))
	}
	s.Apps = []guard.Status{f.status}
	return s
}

// see enters one look.
func (f *topFile) see(l *taskfile.Look) {
	d := f.choice.Observe(&l.Sample)
	e := &d.Evidence
	f.mu.Lock()
	defer f.mu.Unlock()
	s := guard.Status{Server: f.path, Mode: f.status.Mode, Objective: f.status.Objective, State: d.State.String(), Why: d.Why.String(), Connected: true,
		InFlight: e.InFlight, Late: e.Late, Stuck: e.Stuck, Throughput: e.Throughput, Baseline: e.Baseline, Cancels: f.status.Cancels}
	if l.Untraced > 0 {
		s.Notes = []string{fmt.Sprintf("%d tasks found no free slot in the file; make it with more slots", l.Untraced)}
	}
	for r, b := range d.Blame {
		if b.Lost > 0 {
			add(&s.Lost, l.Sample.Resources[r].Name, b.Lost)
		}
	}
	present := func(list []culprit.Stake) (all []guard.Present) {
		for _, p := range list {
			all = append(all, guard.Present{Task: f.task(l, int(p.Task)), Resource: l.Sample.Resources[p.Resource].Name, For: p.For.Seconds()})
		}
		return all
	}
	s.Holding, s.Waiting = present(l.Sample.Holding(topTasks)), present(l.Sample.Waiting(topTasks))
	for i := range l.Sample.Tasks {
		id := l.Sample.Tasks[i].ID
		resource, victims := "", 0.0
		for _, c := range d.Candidates {
			if c.Task == id {
				resource, victims = l.Sample.Resources[c.Resource].Name, c.Victims
				why := c.Why.String()
				if c.Why == culprit.BarredTask {
					why = "barred: " + c.Barred.String()
				}
				s.Candidates = append(s.Candidates, guard.CandidateStatus{Task: f.task(l, i), Resource: resource, Score: c.Score, Victims: victims, Net: c.Net, Why: why})
			}
		}
		if a := d.Action; a.Step != culprit.NoStep && a.Task == id {
			s.Cancels = append(s.Cancels[max(0, len(s.Cancels)-topCancels+1):len(s.Cancels):len(s.Cancels)],
				guard.Cancel{Task: f.task(l, i), At: time.Now(), Step: a.Step.String(), Resource: resource, Victims: victims, Would: true, Met: true})
		}
	}
	f.status = s
}

// task describes task i of a look.
func (f *topFile) task(l *taskfile.Look, i int) guard.Task {
	t, from := &l.Sample.Tasks[i], &l.Origins[i]
	kind := f.kinds.KindName(t.Kind)
	return guard.Task{ID: t.ID, Process: int64(from.PID), Fingerprint: fmt.Sprintf("%016x", t.Kind), Kind: kind, Age: l.Sample.At.Sub(t.Started).Seconds()}
}
