package live

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/needs"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// A look shows how many units a queue has, by the gate's tracer or by its name, and of a lock nothing of the kind.
func TestUnitsOfQueues(t *testing.T) {
	needs.Dir(t, "/proc/self/ns") // Linux
	gate, err := NewGate(GateConfig{Config: admission.Config{Objective: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	path := filepath.Join(t.TempDir(), "tasks")
	engine, err := taskfile.Attach(path, taskfile.Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	stop, err := gate.Trace(Tracing{Engine: engine, Begin: func(uint64) Traced { return nil }, Units: func(queue string) uint64 { return map[string]uint64{"pool": 8}[queue] }})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	file, err := taskfile.Open(path, taskfile.Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, kind := range map[string]taskfile.ResourceKind{"pool": taskfile.Queue, "lock": taskfile.Lock, "workers (3)": taskfile.Queue} {
		if _, err := file.Resource(name, kind); err != nil {
			t.Fatal(err)
		}
	}
	f := gate.finder
	f.mu.Lock()
	defer f.mu.Unlock()
	for range 2 {
		f.see()
		for _, r := range f.sample.Resources[slotsResource+1:] {
			if want := map[string]uint64{"pool": 8, "workers (3)": 3}[r.Name]; r.Units != want {
				t.Errorf("%s has %d units, expected %d", r.Name, r.Units, want)
			}
		}
		if len(f.sample.Resources) != 4 {
			t.Errorf("%d resources, expected 4", len(f.sample.Resources))
		}
	}
}
