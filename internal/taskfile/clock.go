package taskfile

import (
	"sync/atomic"
	"time"
)

// Mode says how much a tracer records.
type Mode uint8

const (
	// Off: a task that begins is not traced.
	Off Mode = iota
	// Coarse: instants are of the file's clock, which engine or tracers move every few milliseconds.
	Coarse
	// Precise: the tracer reads the clock for each instant.
	Precise
)

func (m Mode) String() string {
	switch m {
	case Coarse:
		return "coarse"
	case Precise:
		return "precise"
	}
	return "off"
}

// modeBits is the part of the clock word that holds the mode.
const modeBits = 3

// packClock returns the clock word of an instant and a mode.
func packClock(now uint64, m Mode) uint64 { return now&^modeBits | uint64(m) }

// modeOf returns the mode in a clock word.
func modeOf(word uint64) Mode {
	if m := Mode(word & modeBits); m <= Precise {
		return m
	}
	return Off
}

// stopwatch reads CLOCK_MONOTONIC through the runtime's clock, which runs at
// the same pace and costs no system call.
type stopwatch struct {
	base time.Time
	at   uint64 // CLOCK_MONOTONIC at base
}

// now returns the present in nanoseconds.
func (s *stopwatch) now() uint64 { return s.at + uint64(time.Since(s.base)) }

// movedAfter is how old the clock must be for a task that begins to move it: as exact as a clock that ticks at its fastest,
// and each move takes a line of the cache from all other processors.
const movedAfter = uint64(time.Millisecond)

// begins returns the instant at which a task begins, and moves the clock there if that is old and there is an engine.
// A reading costs some 20 ns, once a task; a thread that wakes to write the clock costs a virtual machine
// a thousand times that.
func (f *File) begins() uint64 {
	word := atomic.LoadUint64(&f.live.clock)
	if modeOf(word) == Coarse && atomic.LoadUint64(&f.live.engine) == 0 {
		return word &^ modeBits // nobody reads it
	}
	now := f.precisely()
	if elapsed(f.begun.Load(), now) >= movedAfter {
		f.begun.Store(now)
	}
	if modeOf(word) == Coarse && elapsed(word, now) >= movedAfter && atomic.CompareAndSwapUint64(&f.live.clock, word, packClock(now, Coarse)) { // else it was moved, or the mode has changed
		atomic.AddUint64(&f.live.moves, 1)
	}
	return now
}

// Begun returns for how long no task of this process has begun, to a millisecond. It is known while there is an engine.
func (f *File) Begun() time.Duration { return time.Duration(elapsed(f.begun.Load(), f.watch.now())) }
