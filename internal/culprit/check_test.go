package culprit

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

func TestConfigCheckNamesEveryMistake(t *testing.T) {
	err := Config{Objective: -1, Mode: 9, MinAge: -1, Clear: 2, PerSecond: -1, PerMinute: -1, PerCompletion: -1, Trip: -1, Rearm: -1, LimitFor: -1, Choice: 9, Candidates: 65}.Check()
	for _, name := range []string{"Objective", "Mode", "MinAge", "Clear", "PerSecond", "PerMinute", "PerCompletion", "Trip", "Rearm", "LimitFor", "Choice", "Candidates"} {
		if err == nil || !strings.Contains(err.Error(), name+" is ") {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("an engine without an objective")
	}
	if err := (Config{Objective: time.Second}).Check(); err != nil {
		t.Errorf("the objective alone: %v", err)
	}
}

// A sample with a mistake is refused, and to the engine it is blind.
func TestSampleCheck(t *testing.T) {
	at := mono.Time(time.Second)
	good := func() *Sample {
		return &Sample{At: at, Tasks: []Task{{ID: 1}, {ID: 2}}, Resources: []Resource{{Name: "r", Kind: Lock}},
			Holds: []Hold{{Task: 1, HeldSince: Unset, WaitingSince: 5}}, Edges: []Edge{{1, 0, 0}}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Sample){
		"in the past of all":                           func(s *Sample) { s.At = -1 },
		"at no instant":                                func(s *Sample) { s.At = mono.Never },
		"a task of the future":                         func(s *Sample) { s.Tasks[0].Started = at + 1 },
		"an unknown bar":                               func(s *Sample) { s.Tasks[0].Barred = bars },
		"an undo of less than none":                    func(s *Sample) { s.Tasks[0].Undo = -1 },
		"an unknown kind":                              func(s *Sample) { s.Resources[0].Kind = kinds },
		"a task that starved for less than no time":    func(s *Sample) { s.Tasks[0].Starved = -1 },
		"a task that may starve for less than no time": func(s *Sample) { s.Tasks[0].MayStarve = -1 },
		"others took less than nothing":                func(s *Sample) { s.Taken = -0.1 },
		"others took more than there is":               func(s *Sample) { s.Taken = 1.1 },
		"others took what is no number":                func(s *Sample) { s.Taken = math.NaN() },
		"others use less than none":                    func(s *Sample) { s.Resources[0].Others = -1 },
		"others use what is no number":                 func(s *Sample) { s.Resources[0].Others = math.NaN() },
		"a hold of no task":                            func(s *Sample) { s.Holds[0].Task = 2 },
		"a hold of a negative task":                    func(s *Sample) { s.Holds[0].Task = -1 },
		"a hold of no resource":                        func(s *Sample) { s.Holds[0].Resource = 1 },
		"a wait of the future":                         func(s *Sample) { s.Holds[0].WaitingSince = at + 1 },
		"a hold of the future":                         func(s *Sample) { s.Holds[0].HeldSince = at + 1 },
		"a wait of less than none":                     func(s *Sample) { s.Holds[0].WaitTime = -1 },
		"an edge to no task":                           func(s *Sample) { s.Edges[0].Blocker = 2 },
		"an edge over no resource":                     func(s *Sample) { s.Edges[0].Resource = -1 },
		"more tasks than allowed":                      func(s *Sample) { s.Tasks = make([]Task, MaxTasks+1) },
		"more holds than allowed":                      func(s *Sample) { s.Holds = make([]Hold, MaxHolds+1) },
		"more edges than allowed":                      func(s *Sample) { s.Edges = make([]Edge, MaxEdges+1) },
		"more resources than allowed": func(s *Sample) {
			s.Resources = make([]Resource, MaxResources+1)
		},
	} {
		s := good()
		spoil(s)
		if s.Check() == nil {
			t.Errorf("%s: no error", name)
		}
		e, err := New(Config{Objective: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if d := e.Observe(s); d.Why != Blind {
			t.Errorf("%s: %v, want blind", name, d.Why)
		}
	}
	e, err := New(Config{Objective: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	twice := good()
	twice.Tasks[1].ID = 1
	if d := e.Observe(twice); d.Why != Blind {
		t.Errorf("one ID twice: %v, want blind", d.Why)
	}
	e.Observe(good())
	if d := e.Observe(good()); d.Why != Blind {
		t.Errorf("the same instant again: %v, want blind", d.Why)
	}
}

// A state that another release made is told from one that is damaged: a log of decisions may be older than the program that reads it.
func TestRestoreNamesVersions(t *testing.T) {
	e, _ := crowded(t, 2, 1)
	for version, state := range map[string][]byte{"of version 11, expected 12": {22}, "damaged": {2 * stateVersion}} {
		if err := e.Restore(state); err == nil || !strings.Contains(err.Error(), version) {
			t.Errorf("%v, expected one that says %s", err, version)
		}
	}
}

// Restore takes what AppendState made and nothing else, whatever it is given.
func FuzzRestore(f *testing.F) {
	e, observe := crowded(f, 20, 4)
	for range 4 {
		observe()
	}
	f.Add(e.AppendState(nil))
	f.Add([]byte{2})
	f.Add([]byte{2, 0x80})
	f.Fuzz(func(t *testing.T, state []byte) {
		e, err := New(Config{Objective: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if e.Restore(state) != nil {
			return
		}
		again, err := New(Config{Objective: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Restore(e.AppendState(nil)); err != nil {
			t.Fatalf("a state that was restored cannot be restored again: %v", err)
		}
		s := crowd(10, 3, mono.Time(time.Hour))
		e.Observe(s)
	})
}
