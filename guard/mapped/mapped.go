// Package mapped looks at the task file of a server and cancels through it, for the adapters of guards.
//
//	path ─▶ Attach ─▶ File ── Look ──▶ tasks, names of kinds
//	                       ── Cancel ─▶ the cancel word of a task
//	                       ── KeepOut ▶ the table of kinds that do not begin
//
// A Source is the whole adapter of a server that shows itself: a search server with a plugin. What other programs use of the server's
// processors it learns from /proc, because no task of the file is to blame for that. Absent is its task file as long as
// it is not there, while the server is asked.
//
// Invariants: a look makes no request to the server. When this process goes, the server goes on; what it records while
// there is no guard costs nothing to speak of.
//
// What this package does not do: it knows no server. It is for one goroutine.
package mapped

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spillgate/spillgate/internal/taskfile"
)

// reclaimEvery is how often what dead processes left in the file is freed.
const reclaimEvery = time.Second

// File is a task file of which this process is the engine.
type File struct {
	path      string
	objective time.Duration
	engine    *taskfile.Engine
	file      os.FileInfo
	reclaimed time.Time
}

// Attach becomes the engine of the file at path, and makes the file if the server has not yet. The foreground's objective
// tells late requests.
func Attach(path string, objective time.Duration) (*File, error) {
	engine, err := taskfile.Attach(path, taskfile.Geometry{})
	if err != nil {
		return nil, err
	}
	f := &File{path: path, objective: objective, engine: engine}
	if f.file, err = os.Stat(path); err == nil {
		err = engine.SetMode(taskfile.Precise)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Look looks once. An error means that the file is gone or was damaged, and is to be attached again. The look is valid until
// the next one.
func (f *File) Look() (*taskfile.Look, error) {
	if now := time.Now(); now.Sub(f.reclaimed) >= reclaimEvery {
		if _, err := f.engine.Reclaim(); err != nil {
			return nil, err
		}
		f.reclaimed = now
	}
	if err := f.engine.Tick(); err != nil {
		return nil, err
	}
	return f.engine.Look(f.objective)
}

// Name returns the name of a kind, "" if it has none, or not yet.
func (f *File) Name(kind uint64) string {
	if kind == 0 {
		return ""
	}
	return f.engine.KindName(kind)
}

// Cancel asks the server to cancel a task of the last look. It reports false if the task was gone.
func (f *File) Cancel(task uint64) (bool, error) {
	err := f.engine.Cancel(task, taskfile.Culprit)
	if errors.Is(err, taskfile.ErrEnded) {
		return false, nil
	}
	return err == nil, err
}

// KeepOut asks the server to refuse tasks of a kind for a time from now on, taskfile.LongestKeep at most. A server whose
// tracer does not look there begins them all the same.
func (f *File) KeepOut(kind uint64, d time.Duration) error { return f.engine.KeepOut(kind, d) }

// Alive checks that the file is still the one that the server opens.
func (f *File) Alive() error {
	now, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("the task file: %w", err)
	}
	if !os.SameFile(now, f.file) {
		return errors.New("the task file was replaced; it is opened again, and the server needs a restart if it has not had one since")
	}
	return nil
}

// Close lets go of the file. The server then records nothing any more.
func (f *File) Close() { _ = f.engine.Close() }
