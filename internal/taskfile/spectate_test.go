package taskfile

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// A spectator sees what the engine sees, and not a byte of the file changes for it.
func TestASpectatorWritesNothing(t *testing.T) {
	e, f := onDisk(t, small)
	if err := e.SetMode(Precise); err != nil {
		t.Fatal(err)
	}
	orders, _ := f.Resource("orders", Lock)
	task := f.Begin(Task{Kind: f.Kind("UPDATE")})
	task.Acquire(orders, 1)
	if _, err := Attach(f.Path(), small); !errors.Is(err, ErrTaken) {
		t.Errorf("a second engine: %v, expected %v", err, ErrTaken)
	}
	before := bytes.Clone(f.mem)
	s, err := Spectate(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	look, err := s.engine.Look(time.Second)
	if err != nil || len(look.Sample.Tasks) != 1 || len(look.Sample.Holds) != 1 || s.KindName(look.Sample.Tasks[0].Kind) != "UPDATE" {
		t.Errorf("a look of %+v, %v, expected one task that holds", look, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(before, f.mem) {
		t.Error("the file has changed")
	}
	if _, err := Spectate(f.Path() + ".none"); err == nil {
		t.Error("a file that does not exist is opened")
	}
}

// A name is known as soon as it is complete, however often it was asked for before, and stays so.
func TestNamesOfKindsComeLater(t *testing.T) {
	f := inMemory(Geometry{Slots: 1, Resources: 1, Kinds: 3})
	e := attached(t, f)
	for i, name := range []string{"first", "second", "third", "fourth"} {
		if got := e.KindName(Fingerprint(name)); got != "" {
			t.Errorf("%q is called %q before it is there", name, got)
		}
		want := name
		if i == 3 {
			want = "" // there is no room for it
		}
		if got := e.KindName(f.Kind(name)); got != want {
			t.Errorf("%q is called %q", name, got)
		}
		if got := e.KindName(Fingerprint("first")); got != "first" {
			t.Errorf("the first is called %q after the %d. came", got, i+1)
		}
	}
}
