//go:build linux

package taskfile

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/tracers"
)

// stepEvents are the events of tracer/c/test/steps.c, in its order.
var stepEvents = []string{"before", "resource", "begin", "acquire 2", "release 1 of 2", "release the rest", "wait begins", "wait ends", "shared",
	"waited", "wait begins", "evicted 3", "progress", "flags", "end", "after"}

// TestDeathAtEveryInstruction runs every event of the C library instruction by
// instruction. After each instruction that changed the file, the process could
// be dead: the test reads and reclaims a copy. The order of the stores is that
// of FORMAT.md; testdata/stores.txt has it.
func TestDeathAtEveryInstruction(t *testing.T) {
	program := tracers.C(t, []string{"-O2", "-Wl,-z,now"}, "tracer/c/test/steps.c", "tracer/c/spillgate_tracer.c")
	f, err := Open(filepath.Join(t.TempDir(), "tasks"), Geometry{Slots: 1, Resources: 3, Kinds: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.at(f.watch.now(), Coarse)
	runtime.LockOSThread() // one thread alone may trace a process
	defer runtime.UnlockOSThread()
	p := startTraced(t, exec.Command(program, f.Path()))
	s := stepper{t: t, f: f, before: make([]byte, len(f.mem))}
	copy(s.before, f.mem)
	steps := 0
	for p.step() {
		if steps++; steps%4 == 0 {
			f.at(f.watch.now(), Coarse) // waits and holds have a length
		}
		s.compare()
	}
	t.Logf("%d instructions, %d of them stored", steps, s.stores)
	if s.event != len(stepEvents)-1 {
		t.Errorf("it came to event %d of %d", s.event, len(stepEvents)-1)
	}
	golden(t, "testdata/stores.txt", s.log.String())
}

// traced is a process that runs instruction by instruction.
type traced struct {
	t   *testing.T
	cmd *exec.Cmd
}

// startTraced starts a process and lets it run until it stops itself.
func startTraced(t *testing.T, cmd *exec.Cmd) *traced {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) {
		t.Skip("this machine lets no process trace another")
	} else if err != nil {
		t.Fatal(err)
	}
	p := &traced{t, cmd}
	if s := p.wait(); s != syscall.SIGTRAP { // it has begun
		t.Fatalf("it begins with %v", s)
	}
	if err := syscall.PtraceCont(cmd.Process.Pid, 0); err != nil {
		t.Fatal(err)
	}
	if s := p.wait(); s != syscall.SIGSTOP {
		t.Fatalf("it does not stop, %v", s)
	}
	return p
}

// step runs one instruction and returns false when the process stops itself.
func (p *traced) step() bool {
	if err := syscall.PtraceSingleStep(p.cmd.Process.Pid); err != nil {
		p.t.Fatal(err)
	}
	if s := p.wait(); s == syscall.SIGTRAP {
		return true
	}
	p.cmd.Process.Kill()
	p.cmd.Wait() // it was killed
	return false
}

// wait returns the signal that stopped the process, -1 if it ended.
func (p *traced) wait() syscall.Signal {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, 0, nil); err != nil {
		p.t.Fatal(err)
	}
	return status.StopSignal()
}

// stepper compares the file before and after an instruction.
type stepper struct {
	t      *testing.T
	f      *File
	before []byte
	event  int
	stores int
	last   string
	log    strings.Builder
}

func (s *stepper) compare() {
	changed := false
	for at := 0; at < len(s.before); at += 8 {
		if was, is := s.before[at:at+8], s.f.mem[at:at+8]; string(was) != string(is) {
			copy(was, is)
			changed = s.saw(at) || changed
		}
	}
	if changed {
		s.stores++
		s.die()
	}
}

// saw writes down that a word changed, and says whether the tracer did it.
func (s *stepper) saw(at int) bool {
	switch name := s.name(at); name {
	case "clock": // the test
		return false
	case "marker":
		s.event++
		s.last = ""
		fmt.Fprintf(&s.log, "%s\n", stepEvents[s.event])
		return false
	default:
		if name != s.last { // a text of several words is one line
			fmt.Fprintf(&s.log, "\t%s\n", name)
		}
		s.last = name
		return true
	}
}

// name returns what FORMAT.md calls the word at an offset.
func (s *stepper) name(at int) string {
	g := s.f.geo
	slot := at - g.slotsOffset()
	cells := slot - slotHead
	switch {
	case at == clockOffset:
		return "clock"
	case at == headerBytes-8:
		return "marker"
	case at >= headerBytes && at < g.slotsOffset():
		return "name: " + []string{"state", "type", "hash", "length", "text"}[min((at-headerBytes)%nameBytes/8, 4)]
	case slot >= 0 && slot < slotHead/2:
		return strings.Fields("owner sequence started key kind flags done total thread touched finished delivered shared ? ? ?")[slot/8]
	case cells >= 0 && cells < cellBytes*g.Resources:
		words := []string{"gets", "frees", "waits", "wait time", "waiting since", "hold time", "held since", "used"}
		return fmt.Sprintf("cell %d: %s", cells/cellBytes, words[cells%cellBytes/8])
	case cells >= cellBytes*g.Resources && slot < g.slotBytes():
		return "latency counter"
	}
	return fmt.Sprintf("an unnamed word at %d", at)
}

// die checks, on a copy, what the engine would find if the process were dead or
// slow now.
func (s *stepper) die() {
	dead := over(s.f.geo, append([]byte{}, s.before...))
	dead.watch = s.f.watch
	inspectSlots(s.t, dead, func(Token) bool { return true })
	e := &Engine{file: dead, reader: newReader(dead)}
	copy(e.fixed[:], dead.mem)
	owner := dead.words(0).owner
	e.reader.owners[owner] = verdict{true, 1 << 63}
	look, err := e.Look(time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	plausible(s.t, &look.Sample)
	dead.reclaim(func(Token) bool { return false })
	if w := dead.words(0); w.owner != 0 || w.sequence%2 != 0 {
		s.t.Errorf("during %s: reclaimed, the slot has owner %d and sequence %d", stepEvents[s.event], w.owner, w.sequence)
	}
	if n, err := dead.Resource("orders", Lock); err != nil || n > 1 {
		s.t.Errorf("during %s: the name gets number %d (%v)", stepEvents[s.event], n, err)
	}
	next := dead.Begin(Task{})
	for r, c := range dead.cells(0) {
		if !next.Traced() || c != (Cell{}) {
			s.t.Errorf("during %s: the next task begins with %+v at resource %d", stepEvents[s.event], c, r)
		}
	}
}
