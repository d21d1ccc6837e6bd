package taskfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/needs"
)

func TestOpenRefusesWhatIsNotItsFile(t *testing.T) {
	needs.Dir(t, "/proc/self/ns")
	place, self, err := here()
	if err != nil {
		t.Fatal(err)
	}
	whole := make([]byte, small.fileBytes())
	copy(whole, encodeHeader(small, place))
	write := func(path string, perm os.FileMode, b []byte) {
		if err := errors.Join(os.WriteFile(path, b, perm), os.Chmod(path, perm)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		word string
		make func(path string)
	}{
		{"type", func(path string) { os.Mkdir(path, 0o700) }},
		{"type", func(path string) {
			write(path+"x", 0o600, whole)
			os.Symlink(path+"x", path)
		}},
		{"mode", func(path string) { write(path, 0o640, whole) }},
		{"short", func(path string) { write(path, 0o600, nil) }},
		{"short", func(path string) { write(path, 0o600, whole[:headerBytes-1]) }},
		{"size", func(path string) { write(path, 0o600, whole[:len(whole)-1]) }},
		{"size", func(path string) { write(path, 0o600, append(whole[:len(whole):len(whole)], 0)) }},
		{"boot", func(path string) {
			b := append([]byte{}, whole...)
			copy(b, encodeHeader(small, Place{PIDNamespace: place.PIDNamespace}))
			write(path, 0o600, b)
		}},
		{"namespace", func(path string) {
			b := append([]byte{}, whole...)
			copy(b, encodeHeader(small, Place{Boot: place.Boot}))
			write(path, 0o600, b)
		}},
	} {
		t.Run(test.word, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tasks")
			test.make(path)
			_, err := openAs(path, small, place, self)
			var r *Refusal
			if !errors.As(err, &r) || !errors.Is(err, ErrRefused) || r.Word != test.word || !strings.Contains(err.Error(), path) {
				t.Errorf("open says %v, expected a refusal %q that names the file", err, test.word)
			}
		})
	}
}

func TestWhoeverComesFirstCreates(t *testing.T) {
	needs.Dir(t, "/proc/self/ns")
	dir := t.TempDir()
	path := filepath.Join(dir, "tasks")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			f, err := Open(path, small)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := f.Resource("orders", Lock); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v (%v), expected the file alone", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
}

func TestOneEngineAtATime(t *testing.T) {
	e, f := onDisk(t, small)
	if _, err := Attach(f.Path(), small); err == nil || !strings.Contains(err.Error(), "one at a time") {
		t.Errorf("a second engine attaches: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Attach(f.Path(), small)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(second.Close(), f.Close()); err != nil {
		t.Error(err)
	}
}

func TestRunEndsWithItsFile(t *testing.T) {
	e, f := onDisk(t, small)
	if err := e.SetMode(Coarse); err != nil {
		t.Fatal(err)
	}
	looks := 0
	err := e.Run(t.Context(), Loop{Period: time.Millisecond, Objective: time.Second, See: func(*Look) {
		if looks++; looks == 10 {
			if err := os.Truncate(f.Path(), 0); err != nil {
				t.Error(err)
			}
		}
	}})
	if !errors.Is(err, ErrGone) || looks != 10 {
		t.Errorf("after %d looks Run says %v", looks, err)
	}
	if err := errors.Join(e.Close(), f.Close()); err != nil {
		t.Error(err)
	}
}

func TestATruncatedFileIsAnErrorForItsEngine(t *testing.T) {
	e, f := onDisk(t, small)
	if err := e.SetMode(Coarse); err != nil {
		t.Fatal(err)
	}
	s := f.Begin(Task{})
	s.Acquire(0, 1)
	look, err := e.Look(0)
	if err != nil || len(look.Sample.Tasks) != 1 {
		t.Fatalf("%v, %v", look, err)
	}
	id := look.Sample.Tasks[0].ID
	if err := os.Truncate(f.Path(), 0); err != nil {
		t.Fatal(err)
	}
	if f.Whole() {
		t.Error("a truncated file is whole")
	}
	if err := f.Detach(); err != nil {
		t.Fatal(err)
	}
	s.Acquire(0, 1) // writes private memory
	s.End()
	if _, err := e.Look(0); !errors.Is(err, ErrGone) {
		t.Errorf("Look says %v", err)
	}
	for name, err := range map[string]error{"Tick": e.Tick(), "Cancel": e.Cancel(id, Culprit), "SetMode": e.SetMode(Precise)} {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s says %v", name, err)
		}
	}
	if _, err := e.Reclaim(); !errors.Is(err, ErrGone) {
		t.Errorf("Reclaim says %v", err)
	}
	if err := errors.Join(e.Close(), f.Close()); err != nil {
		t.Error(err)
	}
}
