package tracer

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// gateSide is what a tracer of a gate has beside its own file.
type gateSide struct {
	engine *taskfile.Engine
	stop   func() // the gate's use of it

	mu    sync.Mutex
	units map[string]uint64 // of queues, by name
}

// add says that a queue has so many more units.
func (g *gateSide) add(queue string, units int64) {
	if g == nil || units <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.units[queue] += uint64(units)
}

// of returns how many units a queue has.
func (g *gateSide) of(queue string) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.units[queue]
}

// Of returns a Tracer for the handlers behind gate: what Mutex, RWMutex, Pool, WorkQueue
// and Cache record with a request's context is known to the gate, which then names, and
// with GateConfig.Culprit.Mode enforce cancels, the request that others wait for.
// Begin is for work that is no request.
//
//	gate, err := spillgate.NewWith(cfg)
//	tr, err := tracer.Of(gate, tracer.Config{})
//	orders := tr.NewMutex("orders")
//	…
//	if err := orders.Lock(ctx); err != nil { // in a handler
//
// Without cfg.Path the file is temporary and no other process sees it. It is an error if
// there is no gate, or if it does not look for culprits, if it has a tracer already, or if this system has no
// task files. A program may go on with the nil *Tracer that comes with the error: its locks
// work untraced. Call Close after the gate's requests have ended.
func Of(gate *live.Gate, cfg Config) (*Tracer, error) {
	if gate == nil {
		return nil, errors.New("tracer: no gate: make it first, with spillgate.New")
	}
	if cfg.Path == "" {
		dir, err := os.MkdirTemp("", "spillgate-*")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir) // the file lives on in memory
		cfg.Path = filepath.Join(dir, "tasks")
	}
	engine, err := taskfile.Attach(cfg.Path, taskfile.Geometry{Slots: cfg.Slots, Resources: cfg.Resources, Kinds: cfg.Kinds})
	if err != nil {
		return nil, err
	}
	if err := engine.SetMode(taskfile.Precise); err != nil { // nobody ticks
		return nil, errors.Join(err, engine.Close())
	}
	t, err := Open(cfg)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	t.gate = &gateSide{engine: engine, stop: func() {}, units: map[string]uint64{}}
	stop, err := gate.Trace(live.Tracing{Engine: engine, Begin: t.beginRequest, Units: t.gate.of})
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.gate.stop = stop
	return t, nil
}

// beginRequest begins the task of a request behind the gate.
func (t *Tracer) beginRequest(key uint64) live.Traced {
	info := Info{Key: key, Background: true}
	slot := t.file.Begin(taskfile.Task{Key: key, Flags: info.flags(false)})
	if !slot.Traced() {
		return nil
	}
	task := &Task{tracer: t, slot: slot, info: info, gated: true}
	t.live[slot.Index()].Store(task)
	t.notice()
	return task
}

func (g *gateSide) close() error {
	if g == nil {
		return nil
	}
	g.stop()
	return g.engine.Close()
}
