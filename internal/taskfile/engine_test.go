package taskfile

import (
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

func TestALookAtTwoTasks(t *testing.T) {
	f := inMemory(small)
	e := attached(t, f)
	f.at(1e12, Coarse)
	orders, _ := f.Resource("orders", Lock)
	f.Resource("pool", Queue)
	holder := f.Begin(Task{Key: 7, Kind: f.Kind("UPDATE"), Flags: Background})
	holder.Acquire(orders, 1)
	holder.SetProgress(40, 100)
	waiter := f.Begin(Task{Flags: Barred | Idle})
	waiter.SetShared(orders, true)
	waiter.WaitBegin(orders)

	look, err := e.Look(0)
	if err != nil {
		t.Fatal(err)
	}
	s := &look.Sample
	if len(s.Tasks) != 2 || len(s.Holds) != 2 || len(s.Resources) != 2 || s.Resources[0] != (culprit.Resource{Name: "orders", Kind: culprit.Lock}) {
		t.Fatalf("%+v", s)
	}
	if got := s.Tasks[0]; got.Kind != Fingerprint("UPDATE") || !got.Background || got.Done != 40 || got.Total != 100 || !got.Steps.Has(culprit.Statement) {
		t.Errorf("the holder is %+v", got)
	}
	if got := s.Tasks[1]; !got.Idle || got.Steps != 0 || got.ID == s.Tasks[0].ID {
		t.Errorf("the waiter is %+v", got)
	}
	if got := s.Holds[0]; got.Used != 1 || got.HeldSince != 1e12 || got.WaitingSince != culprit.Unset || got.Shared {
		t.Errorf("the hold is %+v", got)
	}
	if got := s.Holds[1]; got.Task != 1 || got.WaitingSince != 1e12 || got.HeldSince != culprit.Unset || !got.Shared {
		t.Errorf("the wait is %+v", got)
	}
	if look.Origins[0] != (Origin{PID: 4242, Key: 7}) || e.KindName(Fingerprint("UPDATE")) != "UPDATE" {
		t.Errorf("origin %+v, kind %q", look.Origins[0], e.KindName(s.Tasks[0].Kind))
	}
}

func TestLatenciesAreOfOneLook(t *testing.T) {
	f := inMemory(small)
	run := func(took time.Duration) {
		f.at(1e12, Coarse)
		s := f.Begin(Task{})
		f.at(1e12+uint64(took), Coarse)
		s.End()
	}
	f.at(1e12, Coarse)
	run(time.Second) // before the engine came
	e := attached(t, f)
	for range 90 {
		run(10 * time.Millisecond)
	}
	for range 10 {
		run(200 * time.Millisecond)
	}
	look, err := e.Look(100 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if got := look.Sample.Finished; got != (culprit.Finished{Count: 100, Timed: 100, Late: 10}) {
		t.Errorf("finished %+v", got)
	}
	within := func(q float64, want time.Duration) {
		if got := look.Latencies.Quantile(q); got < want || got > want*9/8 {
			t.Errorf("quantile %.2f is %v, want %v to an eighth above", q, got, want)
		}
	}
	within(.5, 10*time.Millisecond)
	within(.99, 200*time.Millisecond)
	if look, _ = e.Look(0); look.Sample.Finished.Count != 0 || look.Latencies.Quantile(.5) != 0 {
		t.Errorf("the next look sees them again: %+v", look.Sample.Finished)
	}
}

func TestACancelReachesItsTaskAlone(t *testing.T) {
	f := inMemory(Geometry{Slots: 1, Resources: 1, Kinds: 1})
	e := attached(t, f)
	f.at(1e12, Coarse)
	id := func() uint64 {
		look, err := e.Look(0)
		if err != nil || len(look.Sample.Tasks) != 1 {
			t.Fatalf("%+v %v", look, err)
		}
		return look.Sample.Tasks[0].ID
	}
	first := f.Begin(Task{})
	old := id()
	first.End()
	if err := e.Cancel(old, Culprit); !errors.Is(err, ErrEnded) {
		t.Errorf("cancelling a task that ended says %v", err)
	}
	second := f.Begin(Task{})
	// The engine decided on the first task, and its word arrives late.
	f.words(0).cancel = old / maxSlots
	if _, cancelled := second.Cancelled(); cancelled {
		t.Error("a cancel of the task before is taken for its successor's")
	}
	if err := e.Cancel(id(), Operator); err != nil || f.Cancels() != 1 {
		t.Errorf("%v, %d cancels", err, f.Cancels())
	}
	if why, cancelled := second.Cancelled(); !cancelled || why != Operator {
		t.Errorf("cancelled %v for %v", cancelled, why)
	}
	second.Delivered()
	if look, err := e.Look(0); err != nil || !look.Sample.Tasks[0].Ending {
		t.Errorf("%v: a task whose cancel was delivered is not about to end", err)
	}
	second.End()
	third := f.Begin(Task{})
	if look, err := e.Look(0); err != nil || look.Sample.Tasks[0].Ending {
		t.Errorf("%v: the next task of the slot is about to end", err)
	}
	third.End()
	if err := e.Cancel(1<<40+5, Culprit); err == nil {
		t.Error("an id of no slot is cancelled")
	}
}

func TestWhatTheDeadLeaveBehind(t *testing.T) {
	dead := func(owner Token) bool { return owner != fakeToken+1 }
	for _, test := range []struct {
		name     string
		owner    Token
		sequence uint64
		want     uint64 // sequence
		freed    int
	}{
		{"claimed, not begun", fakeToken + 1, 6, 6, 1},
		{"running", fakeToken + 1, 7, 8, 1},
		{"ended, not freed", fakeToken + 1, 8, 8, 1},
		{"of a live process", fakeToken + 2, 7, 7, 0},
		{"of this process", fakeToken, 7, 7, 0},
		{"free", 0, 8, 8, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := inMemory(small)
			w := f.words(2)
			w.owner, w.sequence = uint64(test.owner), test.sequence
			if freed := f.reclaim(dead); freed != test.freed || w.sequence != test.want || freed == 1 && w.owner != 0 {
				t.Errorf("%d freed, owner %d, sequence %d, want %d", freed, w.owner, w.sequence, test.want)
			}
		})
	}
	f := inMemory(small)
	f.resourceNames()[0].state = uint64(fakeToken + 1)
	f.kindNames()[1].state = nameReady
	f.reclaim(dead)
	if f.resourceNames()[0].state != 0 || f.kindNames()[1].state != nameReady {
		t.Error("a name that a dead process was writing is not free, or a complete one is")
	}
}

func TestWhatADeadEngineFroze(t *testing.T) {
	f := inMemory(small)
	f.at(5e11, Coarse) // and then the engine died
	s := f.Begin(Task{})
	s.WaitBegin(0)
	f.Resource("orders", Lock)
	e := attached(t, f)
	look, err := e.Look(0)
	if err != nil {
		t.Fatal(err)
	}
	// The task may have begun at any time since; it is not taken for an old one.
	if got := look.Sample.Tasks[0].Started; got < 1e12 {
		t.Errorf("started %v, the engine attached after 1000 s", got)
	}
	if got := look.Sample.Holds[0].WaitingSince; got < 1e12 || got > look.Sample.At {
		t.Errorf("waiting since %v", got)
	}
}

func TestNamesOfOneResourceAreOne(t *testing.T) {
	f := inMemory(small)
	e := attached(t, f)
	f.at(1e12, Coarse)
	f.resourceNames()[0].write("orders", uint64(Lock))
	f.resourceNames()[1].write("orders", uint64(Lock)) // two processes at once
	f.resourceNames()[2].write("orders", uint64(Queue))
	s := f.Begin(Task{})
	s.Acquire(0, 1)
	s.Acquire(1, 2)
	s.Acquire(2, 4)
	look, err := e.Look(0)
	if err != nil || len(look.Sample.Resources) != 2 || len(look.Sample.Holds) != 2 {
		t.Fatalf("%+v %v", look, err)
	}
	if got := look.Sample.Holds[0]; got.Gets != 3 || got.Used != 3 {
		t.Errorf("the lock's hold is %+v", got)
	}
	if _, err := f.Resource("another", Lock); err == nil {
		t.Error("a full table takes another name")
	}
	if n, err := f.Resource("orders", Queue); n != 2 || err != nil {
		t.Errorf("number %d, %v", n, err)
	}
	f.resourceNames()[0].text[0] = 'O' // breaks its hash
	if n, _ := f.Resource("orders", Lock); n != 1 {
		t.Errorf("number %d of a damaged entry", n)
	}
}

func TestALookDoesNotAllocate(t *testing.T) {
	f := inMemory(Geometry{Slots: 64, Resources: 8, Kinds: 1})
	e := attached(t, f)
	f.at(1e12, Coarse)
	for i := range 40 {
		s := f.Begin(Task{})
		s.Acquire(i%8, 1)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := e.Look(time.Second); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a look", n)
	}
}

func TestTheHeaderIsWatched(t *testing.T) {
	f := inMemory(small)
	e := attached(t, f)
	f.mem[16]++
	if _, err := e.Look(0); !errors.Is(err, ErrRefused) {
		t.Errorf("Look says %v", err)
	}
	if err := e.Tick(); !errors.Is(err, ErrGone) {
		t.Errorf("Tick says %v", err)
	}
}

func TestTheClockIsTheKernels(t *testing.T) {
	e, f := onDisk(t, small)
	defer f.Close()
	defer e.Close()
	other, err := newStopwatch()
	if err != nil {
		t.Fatal(err)
	}
	before := mono.Time(other.now())
	if now, after := e.Now(), mono.Time(other.now()); now < before.Add(-time.Millisecond) || now > after.Add(time.Millisecond) {
		t.Errorf("%v is not between %v and %v", now, before, after)
	}
}

// A queue's name may say how many units it has.
func TestUnits(t *testing.T) {
	for name, want := range map[string]uint64{"workers (8)": 8, "worker threads (150)": 150, "workers": 0, "workers ()": 0, "workers (8) of 2": 0, "a (b) (8)": 0, "a (-1)": 0, "a (99999999999)": 0, " (8)": 8} {
		if got := units(name); got != want {
			t.Errorf("%q: %d, expected %d", name, got, want)
		}
	}
}
