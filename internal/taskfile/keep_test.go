package taskfile

import (
	"errors"
	"testing"
	"time"
)

// A kind is kept out until its time is over or the engine has gone, and its entry serves another kind then.
func TestKeepOut(t *testing.T) {
	f := inMemory(Geometry{Slots: 1, Resources: 1})
	e := attached(t, f)
	now := func() uint64 { return f.watch.now() }
	keep := func(kind uint64, d time.Duration) {
		t.Helper()
		if err := e.KeepOut(kind, d); err != nil {
			t.Fatal(err)
		}
	}
	keep(7, time.Second)
	if !keptOut(f, 7, now()) || keptOut(f, 8, now()) || keptOut(f, 7, now()+uint64(time.Second)) {
		t.Errorf("%+v: expected kind 7 alone, for a second", f.kept()[:2])
	}
	keep(7, 0)
	keep(9, 2*LongestKeep)
	if keptOut(f, 7, now()) || !keptOut(f, 9, now()) || f.live.keeps != 1 {
		t.Errorf("%d entries, %+v: expected kind 9 in the place of kind 7, for %v at most", f.live.keeps, f.kept()[:2], LongestKeep)
	}
	for kind := range uint64(mostKept - 1) {
		keep(100+kind, time.Minute)
	}
	if err := e.KeepOut(1, time.Minute); !errors.Is(err, ErrFull) {
		t.Errorf("%v: expected that there is no room for another kind", err)
	}
	keep(100, time.Minute)
	if e.KeepOut(0, time.Minute) == nil {
		t.Error("kind 0 is kept out")
	}
	f.live.keeps = 1 << 63 // damage
	keep(9, 0)
	if f.live.keeps > mostKept || keptOut(f, 9, now()) {
		t.Errorf("%d entries, expected %d at most and kind 9 let in", f.live.keeps, mostKept)
	}
	if _, err := attach(f); err != nil || f.live.keeps != 0 {
		t.Errorf("%v, %d entries: expected that a new engine begins with none", err, f.live.keeps)
	}
}
