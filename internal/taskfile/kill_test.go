package taskfile

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/tracers"
)

// TestDeathAtAnyInstant goes on for killFor at least, in which two processes that kill
// owners come to some thousands of deaths; on a busy machine it goes on until fewestOwners
// at each of them and fewestEngines have died, because fewer prove little.
const (
	killFor       = 6 * time.Second
	fewestOwners  = 50
	fewestEngines = 3
)

// TestEngineProcess is no test: TestDeathAtAnyInstant runs it as an engine, in a
// process that it kills.
func TestEngineProcess(t *testing.T) {
	path := os.Getenv("TASKFILE_ENGINE")
	if path == "" {
		t.Skip("runs as the engine of TestDeathAtAnyInstant")
	}
	e, err := Attach(path, Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	mode := Coarse
	for n := 0; ; n++ {
		if n%8 == 0 {
			mode = Coarse + Precise - mode
		}
		if err := e.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		look, err := e.Look(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		plausible(t, &look.Sample)
		for _, task := range look.Sample.Tasks {
			e.Cancel(task.ID, Culprit) // most have ended by then
		}
		e.Reclaim()
		for range 100 { // the engine's process traces too
			s := e.file.Begin(Task{Key: uint64(n)})
			s.Acquire(n%3, 1)
			s.WaitBegin(0)
			s.WaitEnd(0)
			s.Release(n%3, 1)
			s.End()
		}
		if n == 0 {
			fmt.Println("attached")
		}
	}
}

// TestDeathAtAnyInstant kills processes that trace, and the engine, at random,
// and checks after each death of an engine what the dead left.
func TestDeathAtAnyInstant(t *testing.T) {
	program := tracers.C(t, []string{"-O2"}, "tracer/c/test/owners.c", "tracer/c/spillgate_tracer.c")
	path := filepath.Join(t.TempDir(), "tasks")
	f, err := Open(path, Geometry{Slots: 32, Resources: 3, Kinds: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var owners []func() int
	for range 2 {
		owners = append(owners, startOwners(t, program, path, rng.Uint32()))
	}
	engines := 0
	for end := time.Now().Add(killFor); time.Now().Before(end) || engines < fewestEngines; engines++ {
		killEngine(t, path, time.Duration(rng.IntN(20))*time.Millisecond)
		inspect(t, f)
		if t.Failed() {
			return
		}
	}
	killed := 0
	for _, stop := range owners {
		killed += stop()
	}
	t.Logf("%d owners and %d engines killed, %d tasks found no slot", killed, engines, f.Untraced())
	everythingIsFree(t, path)
	if killed < len(owners)*fewestOwners {
		t.Errorf("%d owners were killed, want %d at least", killed, len(owners)*fewestOwners)
	}
}

// startOwners starts the program that kills owners and returns what stops it
// and says how many it killed.
func startOwners(t *testing.T, program, path string, seed uint32) func() int {
	cmd := exec.CommandContext(t.Context(), program, path, strconv.Itoa(int(seed)), strconv.Itoa(fewestOwners))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() int {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		killed, err := strconv.Atoi(strings.TrimSpace(out.String()))
		if err != nil {
			t.Error(err)
		}
		return killed
	}
}

// killEngine runs an engine and kills it some time after it has attached.
func killEngine(t *testing.T, path string, after time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEngineProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), "TASKFILE_ENGINE="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("attached"))
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "attached" {
		rest, _ := io.ReadAll(out)
		t.Errorf("the engine says %s%s", said, rest)
	}
	time.Sleep(after)
	cmd.Process.Kill()
	cmd.Wait() // it was killed
}

// inspect looks at the file while no engine lives.
func inspect(t *testing.T, f *File) {
	t.Helper()
	inspectSlots(t, f, func(owner Token) bool { return !owner.alive() })
	inspectNames(t, f)
}

// inspectSlots looks at what stands still: the slots of the dead.
func inspectSlots(t *testing.T, f *File, still func(owner Token) bool) {
	t.Helper()
	for i := range f.geo.Slots {
		w := f.words(i)
		owner := Token(w.owner)
		if owner == 0 || !still(owner) || owner != Token(w.owner) {
			continue
		}
		for r, c := range f.cells(i) {
			touched := w.touched>>r&1 == 1
			if !touched && c != (Cell{}) {
				t.Errorf("slot %d: cell %d is not touched and holds %+v", i, r, c)
			}
			if w.sequence%2 == 0 {
				continue // no task: what is there is being cleared
			}
			if between := c.Gets - c.Frees - c.Used; c.Gets < c.Frees && c.Used > 0 || int64(between) > 2 {
				t.Errorf("slot %d: cell %d is no instant of an event: %+v", i, r, c)
			}
			if c.Used > 0 && c.HeldSince == 0 && c.Gets-c.Frees != c.Used {
				t.Errorf("slot %d: cell %d holds since never: %+v", i, r, c)
			}
		}
		if w.delivered > w.sequence || w.cancel > w.sequence {
			t.Errorf("slot %d: a cancel of the future: %+v", i, w)
		}
	}
}

func inspectNames(t *testing.T, f *File) {
	t.Helper()
	for i := range f.resourceNames() {
		if name, _, ok := f.resourceNames()[i].read(); ok && strings.HasPrefix(name, "r") {
			continue
		}
		if f.resourceNames()[i].state == nameReady {
			t.Errorf("name %d is complete and wrong: %+v", i, f.resourceNames()[i])
		}
	}
}

// everythingIsFree attaches an engine after all are dead, and takes every slot.
func everythingIsFree(t *testing.T, path string) {
	t.Helper()
	e, err := Attach(path, Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Reclaim(); err != nil {
		t.Fatal(err)
	}
	if err := e.SetMode(Coarse); err != nil {
		t.Fatal(err)
	}
	untraced := e.file.Untraced()
	for range e.file.geo.Slots {
		s := e.file.Begin(Task{})
		for r := range e.file.geo.Resources {
			if c := e.file.cells(s.Index())[r]; c != (Cell{}) {
				t.Errorf("a task begins with %+v", c)
			}
		}
	}
	if now := e.file.Untraced(); now != untraced {
		t.Errorf("%d slots are lost", now-untraced)
	}
	look, err := e.Look(time.Second)
	if err != nil || len(look.Sample.Tasks) != e.file.geo.Slots {
		t.Errorf("%d tasks (%v)", len(look.Sample.Tasks), err)
	}
}
