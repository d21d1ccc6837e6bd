package tracer

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/taskfile"
)

// Config says where the task file is. Path is required.
type Config struct {
	// Path is the task file, the same for the engine and for every process of
	// the application. The first of them creates it, with mode 0600. It belongs
	// into a directory that a boot empties, such as /run or /dev/shm.
	Path string
	// Slots is how many tasks of all processes are traced at once, 1 to 65,536,
	// default 1,024, about 2 KB each. Resources is how many have a name, 1 to
	// 64, default 16. Kinds is how many kinds of tasks have a name, up to
	// 4,096, default 256. An existing file keeps its own.
	Slots, Resources, Kinds int
}

// Tracer writes the tasks of this process into a task file. Its methods may be
// called concurrently. A nil *Tracer traces nothing.
type Tracer struct {
	file *taskfile.File
	live []running // by slot
	stop chan struct{}
	lost chan struct{} // closed when the file was truncated
	done chan struct{}
	gate *gateSide // nil: the engine is somewhere else

	seen   atomic.Uint64 // cancels that the watcher was told of, or saw
	cancel chan struct{} // has one in it if there are more
}

// watchEvery is how often a tracer looks for cancels: FORMAT.md asks for 20 ms
// or less. A look costs one load and one fstat. Waking the thread for it costs about a
// hundred times as much. watchSeldom is for mode off, and while tasks begin, which see a cancel first.
const (
	watchEvery  = 16 * time.Millisecond
	watchSeldom = 100 * time.Millisecond
	// begunLately is for how long no task may have begun for that: where tasks begin at random and one was seen to
	// begin within this time, the next seldom takes watchEvery.
	begunLately = 4 * time.Millisecond
)

// Open returns a Tracer on the file that cfg names. Its error says what is
// wrong with the file, or that this system has no task files; a program may go
// on with the nil *Tracer that comes with it. Close ends a goroutine.
func Open(cfg Config) (*Tracer, error) {
	if cfg.Path == "" {
		return nil, errors.New("tracer: Config.Path is empty; expected the path of the task file, which is the engine's as well")
	}
	file, err := taskfile.Open(cfg.Path, taskfile.Geometry{Slots: cfg.Slots, Resources: cfg.Resources, Kinds: cfg.Kinds})
	if err != nil {
		return nil, err
	}
	t := &Tracer{file: file, live: make([]running, file.Geometry().Slots), stop: make(chan struct{}), lost: make(chan struct{}), done: make(chan struct{}), cancel: make(chan struct{}, 1)}
	go t.watch()
	return t, nil
}

// Close waits for the tasks that run to end, and lets go of the file. No task
// may begin any more.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	for t.busy() { // a count would be one more line for all processors to fight for
		time.Sleep(time.Millisecond)
	}
	close(t.stop)
	<-t.done
	return errors.Join(t.gate.close(), t.file.Close())
}

// running is the task in a slot, on a line of the cache of its own: slots side by side
// are of different processors.
type running struct {
	atomic.Pointer[Task]
	_ [120]byte
}

// busy reports whether a task runs.
func (t *Tracer) busy() bool {
	for i := range t.live {
		if t.live[i].Load() != nil {
			return true
		}
	}
	return false
}

// notice wakes the watcher if there are cancels that it has not seen. A task that begins calls it.
func (t *Tracer) notice() {
	if seen, now := t.seen.Load(), t.file.Cancels(); now != seen && t.seen.CompareAndSwap(seen, now) {
		select {
		case t.cancel <- struct{}{}:
		default: // it has not looked since the last
		}
	}
}

// watch delivers cancels until Close.
func (t *Tracer) watch() {
	defer close(t.done)
	again, pause := false, watchEvery
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		told := false
		select {
		case <-t.stop:
			return
		case <-t.cancel:
			told = true
		case <-timer.C:
		}
		if !t.file.Whole() {
			// The memory that replaces it says that the mode is off.
			t.file.Detach()
			close(t.lost)
			<-t.stop
			return
		}
		// A task whose cancel comes while it begins is not in the list yet,
		// therefore the second look.
		now := t.file.Cancels()
		if changed := t.seen.Swap(now) != now || told; changed || again {
			again = changed
			t.deliver()
		}
		pause = watchEvery
		if !again && (t.file.Mode() == taskfile.Off || t.file.Begun() < begunLately) {
			pause = watchSeldom
		}
		timer.Reset(pause)
	}
}

// deliver cancels the tasks that the engine named.
func (t *Tracer) deliver() {
	for i := range t.live {
		if task := t.live[i].Load(); task != nil {
			task.deliver()
		}
	}
}

// ResourceKind says how a resource is contended for.
type ResourceKind uint64

const (
	// Lock is held by one task, or by readers.
	Lock = ResourceKind(taskfile.Lock)
	// Memory is a pool or cache whose units are displaced.
	Memory = ResourceKind(taskfile.Memory)
	// Queue is a set of workers or connections that tasks queue for.
	Queue = ResourceKind(taskfile.Queue)
	// System is processor time, input and output.
	System = ResourceKind(taskfile.System)
)

// Resource is something that tasks contend for. The zero Resource is not traced.
type Resource struct{ number int } // plus one

// Resource returns the resource of this name and kind. Processes that name the
// same resource share it. The error is that the name is empty, no UTF-8 or has
// control characters, or that the file has no room for more; the Resource is
// then not traced.
func (t *Tracer) Resource(name string, kind ResourceKind) (Resource, error) {
	if t == nil {
		return Resource{}, nil
	}
	n, err := t.file.Resource(name, taskfile.ResourceKind(kind))
	return Resource{n + 1}, err
}

// Kind is a fingerprint of what a task does. The zero Kind is unknown.
type Kind uint64

// Kind returns the kind of this name, such as a method or a statement without
// its values. The same name has the same Kind everywhere. It is called once
// for a kind, not for each task.
func (t *Tracer) Kind(name string) Kind {
	if t == nil {
		return 0
	}
	return Kind(t.file.Kind(name))
}
