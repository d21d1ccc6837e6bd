package taskfile

import (
	"math/bits"
	"sync/atomic"
)

// Flags say what a task is.
type Flags uint64

const (
	// Background work has no latency objective.
	Background Flags = 1 << iota
	// Barred tasks must not be cancelled.
	Barred
	// Idle tasks hold things and run nothing, such as an open transaction
	// between two statements.
	Idle
)

// Task describes a task that begins. Its zero value is a foreground task of
// unknown kind.
type Task struct {
	// Key is the application's own number for the task, 0 if it has none.
	Key uint64
	// Kind is the fingerprint of what the task does, 0 if unknown.
	Kind uint64
	// Flags say what the task is.
	Flags Flags
	// Started is when the task came, in nanoseconds of CLOCK_MONOTONIC; 0 is
	// now. Earlier than now is a task that waited before it began.
	Started uint64
}

// Slot records one running task. Its methods are events; they are called by one
// goroutine at a time. The zero Slot is of a task that is not traced: its
// events do nothing.
type Slot struct {
	file     *File
	words    *slotWords
	cells    []Cell
	clock    *uint64
	touched  uint64
	sequence uint64
	index    int
	warm     *uint32 // the index for File.warm, nil if that has not had it yet
}

// Begin takes a free slot for a task. If the mode is off, or no slot is free,
// the Slot is the zero one. A free slot is usually found at once: Begin tries one in
// which a task ended on this processor, as its lines are in the cache, then all in turn,
// and gives up after that.
func (f *File) Begin(t Task) Slot {
	if f.Mode() == Off {
		return Slot{}
	}
	if index, ok := f.warm.Get().(*uint32); ok && f.claim(int(*index)) {
		return f.begin(int(*index), t, index)
	}
	n := uint32(f.geo.Slots)
	first := f.next.Add(1)
	for i := range n {
		index := int((first + i) % n)
		if f.claim(index) {
			return f.begin(index, t, nil)
		}
	}
	atomic.AddUint64(&f.live.untraced, 1)
	return Slot{}
}

// claim makes this process the owner of a slot if it is free.
func (f *File) claim(index int) bool {
	w := f.words(index)
	return atomic.LoadUint64(&w.owner) == 0 && atomic.CompareAndSwapUint64(&w.owner, 0, uint64(f.self))
}

// begin starts a task in a slot that was claimed. warm, if not nil, has its index.
func (f *File) begin(index int, t Task, warm *uint32) Slot {
	w, cells := f.words(index), f.cells(index)
	for mask := w.touched & f.cellMask(); mask != 0; mask &= mask - 1 {
		clearCell(&cells[bits.TrailingZeros64(mask)])
	}
	s := Slot{file: f, words: w, cells: cells, clock: &f.live.clock, index: index, warm: warm}
	if now := f.begins(); t.Started == 0 {
		t.Started = now
	}
	put(&w.touched, 0)
	put(&w.shared, 0)
	put(&w.done, 0)
	put(&w.total, 0)
	put(&w.started, t.Started)
	put(&w.key, t.Key)
	put(&w.kind, t.Kind)
	put(&w.flags, uint64(t.Flags))
	put(&w.thread, 0)
	s.sequence = (w.sequence + 1) | 1
	put(&w.sequence, s.sequence)
	return s
}

func clearCell(c *Cell) {
	put(&c.Gets, 0)
	put(&c.Frees, 0)
	put(&c.Waits, 0)
	put(&c.WaitTime, 0)
	put(&c.WaitingSince, 0)
	put(&c.HoldTime, 0)
	put(&c.HeldSince, 0)
	put(&c.Used, 0)
}

// cellMask has a bit for each resource of the file.
func (f *File) cellMask() uint64 { return ^uint64(0) >> (64 - f.geo.Resources) }

// End ends the task and frees the slot. A foreground task that was not
// cancelled is counted with its age. Further calls do nothing.
func (s *Slot) End() {
	w := s.words
	if w == nil {
		return
	}
	if Flags(w.flags)&Background == 0 && w.delivered != s.sequence {
		count := &s.file.latencies(s.index)[latency(elapsed(w.started, s.now()))]
		put32(count, *count+1)
		put(&w.finished, w.finished+1)
	}
	put(&w.sequence, s.sequence+1)
	put(&w.owner, 0)
	if s.warm == nil {
		index := uint32(s.index)
		s.warm = &index
	}
	s.file.warm.Put(s.warm)
	*s = Slot{}
}

// Traced reports whether the task has a slot.
func (s *Slot) Traced() bool { return s.words != nil }

// Index returns the number of the slot, which no other running task has.
func (s *Slot) Index() int { return s.index }

// SetFlags replaces what the task is.
func (s *Slot) SetFlags(flags Flags) {
	if s.words != nil {
		put(&s.words.flags, uint64(flags))
	}
}

// Cancelled reports whether the engine wants the task to be cancelled, and why.
// It may be called by any goroutine while the task runs.
func (s *Slot) Cancelled() (Reason, bool) {
	if s.words == nil || atomic.LoadUint64(&s.words.cancel) != s.sequence {
		return 0, false
	}
	return Reason(atomic.LoadUint64(&s.words.reason)), true
}

// Delivered records that the application's cancel was called, so that the task
// is no sample of latency. It may be called by any goroutine, until End.
func (s *Slot) Delivered() {
	if s.words != nil {
		put(&s.words.delivered, s.sequence)
	}
}

// elapsed returns the time from since to now, 0 if it is negative.
func elapsed(since, now uint64) uint64 {
	if d := int64(now - since); d > 0 {
		return uint64(d)
	}
	return 0
}
