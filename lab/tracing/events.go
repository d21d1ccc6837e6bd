package tracing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/taskfile"
	"github.com/spillgate/spillgate/tracer"
)

// pairs is how many pairs of events are timed at once, slicesOf how often: the fastest
// counts, as a busy machine only adds.
const pairs, slicesOf = 10_000, 400

// goEvents times events in Go.
func goEvents(path string) (ns map[string]float64, err error) {
	engine, err := taskfile.Attach(path, taskfile.Geometry{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	tr, err := tracer.Open(tracer.Config{Path: path})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tr.Close()) }()
	r, err := tr.Resource("bench", tracer.Lock)
	if err != nil {
		return nil, err
	}
	if err := engine.SetMode(taskfile.Coarse); err != nil {
		return nil, err
	}
	_, task := tr.Begin(context.Background(), tracer.Info{})
	defer task.End()
	ns = map[string]float64{}
	for mode := taskfile.Coarse; mode <= taskfile.Precise; mode++ {
		if err := engine.SetMode(mode); err != nil {
			return nil, err
		}
		ns[mode.String()] = fastest(func() {
			for range pairs {
				task.Acquire(r, 1)
				task.Release(r, 1)
			}
		})
	}
	if err := goRequests(tr, engine, r, ns); err != nil {
		return nil, err
	}
	var none *tracer.Task // what Begin returns in mode off
	ns["off"] = fastest(func() {
		for range pairs {
			none.Acquire(r, 1)
			none.Release(r, 1)
		}
	})
	var mu sync.Mutex
	ns["mutex"] = fastest(func() {
		for range pairs {
			mu.Lock()
			//lint:ignore SA2001 the pair is what is timed
			mu.Unlock()
		}
	})
	return ns, nil
}

// goRequests times all events of a request together.
func goRequests(tr *tracer.Tracer, engine *taskfile.Engine, lock tracer.Resource, ns map[string]float64) error {
	pool, err := tr.Resource("pool", tracer.Queue)
	if err != nil {
		return err
	}
	const requests = pairs / 10
	for mode := taskfile.Coarse; mode <= taskfile.Precise; mode++ {
		if err := engine.SetMode(mode); err != nil {
			return err
		}
		memory := new([1 << 15]uint64)
		ns[mode.String()+"-request"] = fastest(func() {
			for range requests {
				goRequest(tr, lock, pool, memory, 1, 0)
			}
		}) * 2 * pairs / requests
	}
	return nil
}

// fastest returns half of what a pair takes in the fastest slice, in nanoseconds.
func fastest(run func()) float64 {
	best := time.Hour
	for range slicesOf {
		start := time.Now()
		run()
		best = min(best, time.Since(start))
	}
	return float64(best.Nanoseconds()) / pairs / 2
}

// timeWindow returns the processor time that an engine takes to read a file and to decide, in
// milliseconds: the median of many windows in which all tasks but one wait.
func timeWindow() (ms float64, err error) {
	dir, err := os.MkdirTemp("", "spillgate-tracing-*")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tasks")
	engine, err := taskfile.Attach(path, taskfile.Geometry{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if err := engine.SetMode(taskfile.Precise); err != nil {
		return 0, err
	}
	file, err := taskfile.Open(path, taskfile.Geometry{})
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for i := range windowTasks {
		slot := file.Begin(taskfile.Task{Kind: uint64(i%7 + 1)})
		defer slot.End()
		for k := range windowResources {
			n, err := file.Resource(fmt.Sprintf("r%d", k), taskfile.Lock)
			if err != nil {
				return 0, err
			}
			if i == 0 {
				slot.Acquire(n, 1)
			} else {
				slot.WaitBegin(n)
			}
		}
	}
	choice, err := culprit.New(culprit.Config{Objective: 10 * time.Millisecond})
	if err != nil {
		return 0, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all []float64
	for range 200 {
		time.Sleep(time.Millisecond)
		before := threadTime()
		look, err := engine.Look(10 * time.Millisecond)
		if err != nil {
			return 0, err
		}
		choice.Observe(&look.Sample)
		all = append(all, (threadTime()-before).Seconds()*1e3)
	}
	return quantile(all, 0.5), nil
}
