package taskfile

import (
	"testing"
	"time"
)

const ms = uint64(time.Millisecond)

func TestEventsFillACell(t *testing.T) {
	f := inMemory(small)
	f.at(1000*ms, Coarse)
	for _, test := range []struct {
		name   string
		events func(s *Slot)
		want   Cell
	}{
		{"a hold that lasts", func(s *Slot) {
			s.Acquire(1, 3)
		}, Cell{Gets: 3, HeldSince: 1000 * ms, Used: 3}},
		{"a hold that ended", func(s *Slot) {
			s.Acquire(1, 3)
			f.at(1004*ms, Coarse)
			s.Release(1, 1)
			s.Release(1, 2)
		}, Cell{Gets: 3, Frees: 3, HoldTime: 4 * ms}},
		{"more given back than held", func(s *Slot) {
			s.Acquire(1, 1)
			s.Release(1, 5)
			s.Release(1, 5)
		}, Cell{Gets: 1, Frees: 10}},
		{"a wait, then a second one", func(s *Slot) {
			s.WaitBegin(1)
			f.at(1008*ms, Coarse)
			s.WaitEnd(1)
			s.WaitEnd(1) // had not begun
			s.WaitBegin(1)
		}, Cell{Waits: 1, WaitTime: 8 * ms, WaitingSince: 1008 * ms}},
		{"an eviction that took a while, and one that did not", func(s *Slot) {
			s.WaitBegin(1)
			f.at(1004*ms, Coarse)
			s.Evicted(1, 7)
			s.Evicted(1, 2)
		}, Cell{Waits: 9, WaitTime: 4 * ms}},
		{"a wait before the beginning", func(s *Slot) {
			s.Waited(1, 5*ms)
		}, Cell{Waits: 1, WaitTime: 5 * ms}},
		{"a clock that goes back counts nothing", func(s *Slot) {
			s.WaitBegin(1)
			f.at(900*ms, Coarse)
			s.WaitEnd(1)
		}, Cell{Waits: 1}},
		{"resources that are not there", func(s *Slot) {
			s.Acquire(-1, 1)
			s.Acquire(3, 1)
			s.WaitBegin(1 << 40)
		}, Cell{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.at(1000*ms, Coarse)
			s := f.Begin(Task{})
			defer s.End()
			test.events(&s)
			if got := f.cells(s.Index())[1]; got != test.want {
				t.Errorf("the cell is %+v,\n            want %+v", got, test.want)
			}
		})
	}
}

func TestATaskStartsWithEmptyCells(t *testing.T) {
	f := inMemory(Geometry{Slots: 1, Resources: 64, Kinds: 1})
	f.at(1000*ms, Coarse)
	for range 2 {
		s := f.Begin(Task{})
		for r := range 64 {
			if got := f.cells(0)[r]; got != (Cell{}) {
				t.Fatalf("cell %d is %+v", r, got)
			}
			s.Acquire(r, 1)
			s.SetShared(r, r%2 == 0)
		}
		if f.words(0).touched != 1<<64-1 || f.words(0).shared != 0x5555555555555555 {
			t.Fatalf("touched %#x, shared %#x", f.words(0).touched, f.words(0).shared)
		}
		s.End()
	}
}

func TestModeOffTracesNothing(t *testing.T) {
	f := inMemory(small)
	s := f.Begin(Task{})
	s.Acquire(0, 1)
	s.WaitBegin(0)
	s.WaitEnd(0)
	s.SetProgress(1, 2)
	s.SetFlags(Idle)
	s.SetShared(0, true)
	s.Delivered()
	if _, cancelled := s.Cancelled(); cancelled || s.Traced() {
		t.Error("a task of mode off is traced")
	}
	s.End()
	for i := slotHead; i < len(f.mem)-f.geo.slotsOffset(); i++ {
		if f.mem[f.geo.slotsOffset()+i] != 0 {
			t.Fatalf("byte %d of the slots was written", i)
		}
	}
}

func TestWithoutAFreeSlotATaskIsCounted(t *testing.T) {
	f := inMemory(small)
	f.at(1000*ms, Coarse)
	var slots []Slot
	for range small.Slots {
		slots = append(slots, f.Begin(Task{}))
	}
	if s := f.Begin(Task{}); s.Traced() || f.Untraced() != 1 {
		t.Errorf("a fifth task has a slot: %v; untraced %d", s.Traced(), f.Untraced())
	}
	slots[2].End()
	slots[2].End() // does nothing
	if s := f.Begin(Task{}); !s.Traced() || s.Index() != 3 && s.Index() != slots[2].Index() && f.Untraced() != 1 {
		t.Error("a slot that was freed is not taken")
	}
}

func TestLatencyCounters(t *testing.T) {
	for i := range latencies - 1 {
		if got := latency(latencyFloor(i)); got != i {
			t.Errorf("the shortest of counter %d is in counter %d", i, got)
		}
		if got := latency(latencyFloor(i+1) - 1); got != i {
			t.Errorf("the longest of counter %d is in counter %d", i, got)
		}
	}
	if got := latency(1<<64 - 1); got != latencies-1 {
		t.Errorf("the longest age is in counter %d", got)
	}
}

func TestEndCountsWhatWasNotCancelled(t *testing.T) {
	f := inMemory(small)
	end := func(flags Flags, cancelled bool) {
		f.at(1000*ms, Coarse)
		s := f.Begin(Task{Flags: flags})
		if cancelled {
			s.Delivered()
		}
		f.at(1100*ms, Coarse)
		s.End()
	}
	end(0, false)
	end(Background, false)
	end(0, true)
	var finished uint64
	var counts [latencies]uint32
	for i := range f.geo.Slots {
		finished += f.words(i).finished
		for k, c := range f.latencies(i) {
			counts[k] += c
		}
	}
	if finished != 1 || counts[latency(100*ms)] != 1 {
		t.Errorf("%d are counted, %d of them with their age; one was a foreground task that ended by itself", finished, counts[latency(100*ms)])
	}
}
