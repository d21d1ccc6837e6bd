package taskfile

import "sync/atomic"

// Acquire records that the task now holds n more units of resource r. A
// resource that has no number in the file does nothing.
func (s *Slot) Acquire(r int, n uint64) {
	c := s.cell(r)
	if c == nil {
		return
	}
	put(&c.Gets, c.Gets+n)
	if c.Used == 0 {
		put(&c.HeldSince, s.now())
	}
	put(&c.Used, c.Used+n)
}

// Release records that the task gave back n units of resource r. It gives back
// what it holds at most.
func (s *Slot) Release(r int, n uint64) {
	c := s.cell(r)
	if c == nil {
		return
	}
	used := c.Used
	left := used - min(n, used)
	if left == 0 && used > 0 {
		since := c.HeldSince
		put(&c.HeldSince, 0)
		if held := elapsed(since, s.now()); held > 0 { // a store of what is there already would say nothing
			put(&c.HoldTime, c.HoldTime+held)
		}
	}
	put(&c.Used, left)
	put(&c.Frees, c.Frees+n)
}

// WaitBegin records that the task waits for resource r from now on.
func (s *Slot) WaitBegin(r int) {
	if c := s.cell(r); c != nil {
		put(&c.WaitingSince, s.now())
	}
}

// WaitEnd records that the wait is over, whether or not it was successful.
func (s *Slot) WaitEnd(r int) {
	if c := s.cell(r); c != nil && c.WaitingSince != 0 {
		s.endWait(c, 1)
	}
}

// Evicted records that the task displaced n units of memory resource r, its own
// or those of others. If it waits for the resource, the wait is over.
func (s *Slot) Evicted(r int, n uint64) {
	if c := s.cell(r); c != nil {
		s.endWait(c, n)
	}
}

func (s *Slot) endWait(c *Cell, n uint64) {
	if since := c.WaitingSince; since != 0 {
		put(&c.WaitingSince, 0)
		if waited := elapsed(since, s.now()); waited > 0 {
			put(&c.WaitTime, c.WaitTime+waited)
		}
	}
	put(&c.Waits, c.Waits+n)
}

// Waited records a wait of ns nanoseconds that is over, as of a task that waited
// in a queue before it began.
func (s *Slot) Waited(r int, ns uint64) {
	if c := s.cell(r); c != nil {
		put(&c.WaitTime, c.WaitTime+ns)
		put(&c.Waits, c.Waits+1)
	}
}

// SetShared says whether the next hold or wait of lock r goes together with
// other shared ones. It holds until it is called again.
func (s *Slot) SetShared(r int, shared bool) {
	if s.cell(r) == nil {
		return
	}
	mask := s.words.shared &^ (1 << (uint(r) & 63))
	if shared {
		mask |= 1 << (uint(r) & 63)
	}
	if mask != s.words.shared {
		put(&s.words.shared, mask)
	}
}

// SetProgress records that done of total units of the task's work are done.
// Total 0 is unknown.
func (s *Slot) SetProgress(done, total uint64) {
	if s.words != nil {
		put(&s.words.total, total)
		put(&s.words.done, done)
	}
}

// cell returns the cell of resource r, nil if there is none.
func (s *Slot) cell(r int) *Cell {
	if uint(r) >= uint(len(s.cells)) {
		return nil
	}
	if s.touched>>(uint(r)&63)&1 == 0 {
		s.touched |= 1 << (uint(r) & 63)
		put(&s.words.touched, s.touched)
	}
	return &s.cells[r]
}

// now returns the present as the mode has it.
func (s *Slot) now() uint64 {
	word := atomic.LoadUint64(s.clock)
	if word&modeBits == uint64(Precise) {
		return s.file.precisely()
	}
	return word &^ modeBits
}

// precisely reads the clock. It is a function of its own so that now is inlined.
//
//go:noinline
func (f *File) precisely() uint64 { return f.watch.now() }
