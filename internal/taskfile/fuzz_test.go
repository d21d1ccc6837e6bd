package taskfile

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
)

func FuzzHeader(f *testing.F) {
	whole := inMemory(small).mem
	f.Add(whole[:fixedBytes], int64(len(whole)), false)
	f.Add(whole[:20], int64(20), true)
	f.Fuzz(func(t *testing.T, start []byte, size int64, fixCheck bool) {
		b := make([]byte, headerBytes)
		copy(b, start)
		if fixCheck { // gets behind the check
			binary.LittleEndian.PutUint64(b[checkOffset:], Fingerprint(string(b[:checkOffset])))
		}
		g, err := parseHeader(b, size, fakePlace)
		if err != nil {
			if !errors.Is(err, ErrRefused) {
				t.Errorf("%v is no refusal", err)
			}
			return
		}
		if !g.valid() || int64(g.fileBytes()) != size {
			t.Errorf("%+v with %d bytes was accepted", g, size)
		}
	})
}

// FuzzLook writes anything anywhere behind the fixed part of the header, while
// an engine and a tracer use the file.
func FuzzLook(f *testing.F) {
	f.Add(uint16(0), []byte{1, 2, 3})
	f.Add(uint16(small.slotsOffset()+8), []byte{1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add(uint16(headerBytes), []byte{0, 0, 0, 0, 0, 0, 0, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff})
	f.Fuzz(func(t *testing.T, at uint16, junk []byte) {
		file := inMemory(small)
		e := attached(t, file)
		file.at(1e12, Coarse)
		file.Resource("orders", Lock)
		file.Resource("pool", Memory)
		var slots []Slot
		for i := range 3 {
			s := file.Begin(Task{Key: uint64(i)})
			s.Acquire(i, uint64(i))
			s.WaitBegin(1)
			slots = append(slots, s)
		}
		start := min(fixedBytes+int(at), len(file.mem))
		copy(file.mem[start:], junk)
		for range 2 {
			look, err := e.Look(time.Second)
			if err != nil {
				t.Fatal(err)
			}
			plausible(t, &look.Sample)
			e.KindName(1)
			for i := range slots {
				slots[i].Release(i, 1)
				slots[i].WaitEnd(1)
				slots[i].Cancelled()
				slots[i].End()
			}
			s := file.Begin(Task{})
			s.Acquire(2, 9)
			slots = append(slots[:0], s)
			file.reclaim(func(Token) bool { return false })
			file.Resource("late", Queue)
		}
	})
}

// plausible checks what package culprit demands of a sample.
func plausible(t *testing.T, s *culprit.Sample) {
	t.Helper()
	ids := map[uint64]bool{}
	for i, task := range s.Tasks {
		if ids[task.ID] || task.Started > s.At || task.Started < 0 {
			t.Errorf("task %d: %+v at %v", i, task, s.At)
		}
		ids[task.ID] = true
	}
	pairs := map[[2]int32]bool{}
	for _, h := range s.Holds {
		pair := [2]int32{h.Task, h.Resource}
		if pairs[pair] || h.Task < 0 || int(h.Task) >= len(s.Tasks) || h.Resource < 0 || int(h.Resource) >= len(s.Resources) {
			t.Fatalf("hold %+v", h)
		}
		pairs[pair] = true
		age := s.At.Sub(s.Tasks[h.Task].Started)
		if h.WaitTime < 0 || h.WaitTime > 2*age || h.HoldTime < 0 || h.HoldTime > 2*age {
			t.Errorf("hold %+v of a task of age %v", h, age)
		}
		if h.WaitingSince != culprit.Unset && h.WaitingSince > s.At || h.HeldSince != culprit.Unset && h.HeldSince > s.At {
			t.Errorf("hold %+v is of the future", h)
		}
		if (h.Used == 0) != (h.HeldSince == culprit.Unset) {
			t.Errorf("hold %+v", h)
		}
	}
	if f := s.Finished; f.Late > f.Timed || f.Timed > f.Count {
		t.Errorf("finished %+v", f)
	}
}
