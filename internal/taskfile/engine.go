package taskfile

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/spillgate/spillgate/internal/mono"
)

// Reason says why a task is cancelled.
type Reason uint64

const (
	// Culprit: the task keeps others from a resource.
	Culprit Reason = 1 + iota
	// Operator: a person asked for it.
	Operator
)

func (r Reason) String() string {
	switch r {
	case Culprit:
		return "culprit"
	case Operator:
		return "operator"
	}
	return fmt.Sprintf("reason %d", uint64(r))
}

// ErrEnded is that a task is not cancelled because it has ended.
var ErrEnded = errors.New("taskfile: the task has ended")

// Engine is the engine's side of a file. Tick and Cancel may be called
// concurrently with each other and with one caller of the other methods.
type Engine struct {
	file   *File
	fixed  [fixedBytes]byte // of the header, as it was when the file was opened
	tick   sync.Mutex
	mode   Mode
	turned chan struct{} // has one in it after turn, for who keeps the clock
	gone   atomic.Bool
	reader reader

	kinds   map[uint64]string // that are known, by fingerprint
	unnamed []int32           // entries of the table of kinds that are not in kinds
}

// Attach opens the file at path, creating it if there is none, and makes this
// process its engine. It refuses while another engine lives. The mode is Off
// until SetMode.
func Attach(path string, g Geometry) (*Engine, error) {
	f, err := Open(path, g)
	if err != nil {
		return nil, err
	}
	e, err := attach(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return e, nil
}

func attach(f *File) (*Engine, error) {
	e := &Engine{file: f, reader: newReader(f), turned: make(chan struct{}, 1)}
	err := guarded(func() error {
		copy(e.fixed[:], f.mem)
		for {
			old := atomic.LoadUint64(&f.live.engine)
			if Token(old).alive() {
				return fmt.Errorf("%w: process %d is that of %s; one at a time", ErrTaken, Token(old).PID(), f.path)
			}
			if atomic.CompareAndSwapUint64(&f.live.engine, old, uint64(f.self)) {
				break
			}
		}
		now, word := f.watch.now(), atomic.LoadUint64(&f.live.clock)
		if modeOf(word) != Off {
			e.reader.frozen, e.reader.attached = word&^modeBits, now
		}
		atomic.StoreUint64(&f.live.clock, packClock(now, Off))
		atomic.StoreUint64(&f.live.keeps, 0)
		e.reader.remember()
		return nil
	})
	return e, err
}

// Now returns the present on the file's clock, CLOCK_MONOTONIC.
func (e *Engine) Now() mono.Time { return mono.Time(e.file.watch.now()) }

// SetMode tells the tracers how much to record. Tasks that run keep the mode in
// which they began, apart from how they read the clock.
func (e *Engine) SetMode(m Mode) error {
	e.tick.Lock()
	defer e.tick.Unlock()
	e.mode = m
	e.turn()
	return e.writeClock()
}

// turn tells who keeps the clock that something has changed.
func (e *Engine) turn() {
	select {
	case e.turned <- struct{}{}:
	default:
	}
}

// moves returns how often tracers have moved the clock.
func (e *Engine) moves() (n uint64) {
	_ = e.guarded(func() error {
		n = atomic.LoadUint64(&e.file.live.moves)
		return nil
	})
	return n
}

// Mode returns what SetMode asked for last.
func (e *Engine) Mode() Mode {
	e.tick.Lock()
	defer e.tick.Unlock()
	return e.mode
}

// Tick writes the present into the file. It is called every 10 ms at least while
// the mode is Coarse and tasks that begin do not move the clock: instants are as exact as the time between two calls. A
// late call is harmless. It costs about as much as reading the clock.
func (e *Engine) Tick() error {
	e.tick.Lock()
	defer e.tick.Unlock()
	return e.writeClock()
}

func (e *Engine) writeClock() error {
	return e.guarded(func() error {
		atomic.StoreUint64(&e.file.live.clock, packClock(e.file.watch.now(), e.mode))
		return nil
	})
}

// Cancel asks the tracer of a task to cancel it. The tracer is told within its
// watching period, 20 ms at most. ErrEnded is that the task has ended, which
// may be so although Cancel returns nil: the request then reaches nobody.
func (e *Engine) Cancel(id uint64, why Reason) error {
	index, sequence := int(id%maxSlots), id/maxSlots
	if index >= e.file.geo.Slots || sequence%2 == 0 {
		return fmt.Errorf("taskfile: no task has the id %d", id)
	}
	return e.guarded(func() error {
		w := e.file.words(index)
		if atomic.LoadUint64(&w.sequence) != sequence {
			return ErrEnded
		}
		put(&w.reason, uint64(why))
		atomic.StoreUint64(&w.cancel, sequence)
		atomic.AddUint64(&e.file.live.cancels, 1)
		return nil
	})
}

// Close sets the mode to Off, keeps nothing out any more and gives the file up. The file stays.
func (e *Engine) Close() error {
	err := e.SetMode(Off)
	if err == nil {
		err = e.guarded(func() error {
			atomic.StoreUint64(&e.file.live.keeps, 0)
			atomic.CompareAndSwapUint64(&e.file.live.engine, uint64(e.file.self), 0)
			return nil
		})
	}
	if errors.Is(err, ErrGone) {
		err = nil // there is nothing left to give up
	}
	return errors.Join(err, e.file.Close())
}

// guarded runs f unless the file is gone, and remembers if it goes.
func (e *Engine) guarded(f func() error) error {
	if e.gone.Load() {
		return ErrGone
	}
	err := guarded(f)
	if errors.Is(err, ErrGone) {
		e.gone.Store(true)
	}
	return err
}

// intact reports whether the part of the header that never changes is as it was.
func (e *Engine) intact() error {
	if !bytes.Equal(e.file.mem[:fixedBytes], e.fixed[:]) {
		e.gone.Store(true)
		return located(refuse("check", "its header was changed while it was in use; remove it and start again"), e.file.path)
	}
	return nil
}
