package taskfile

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func init() {
	if os.Getenv("TASKFILE_LEADERLESS") != "" {
		runtime.LockOSThread() // the test below runs on the first thread of the process, and ends it
	}
}

// TestLeaderlessProcess is no test: TestAProcessOutlivesItsFirstThread runs it.
func TestLeaderlessProcess(t *testing.T) {
	path := os.Getenv("TASKFILE_LEADERLESS")
	if path == "" {
		t.Skip("runs in a process of TestAProcessOutlivesItsFirstThread")
	}
	f, err := Open(path, small)
	if err != nil {
		t.Fatal(err)
	}
	f.Begin(Task{Key: 7})
	if _, err := os.Stdout.WriteString("begun\n"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	leader(func() { _, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0) })
	<-ended
}

// leader runs f on the first thread of the process, which TestMain of leaderless processes waits in.
func leader(f func()) { onLeader <- f }

var onLeader = make(chan func())

// TestMain gives the first thread of a leaderless process to leader.
func TestMain(m *testing.M) {
	if os.Getenv("TASKFILE_LEADERLESS") == "" {
		os.Exit(m.Run())
	}
	go func() { os.Exit(m.Run()) }() // it ends here only if the test failed
	(<-onLeader)()
}

// TestAProcessOutlivesItsFirstThread: what it holds is shown and kept, although the kernel calls the process a zombie.
func TestAProcessOutlivesItsFirstThread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	e, err := Attach(path, small)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.SetMode(Precise); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLeaderlessProcess$")
	cmd.Env = append(os.Environ(), "TASKFILE_LEADERLESS="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if text, err := bufio.NewReader(out).ReadString('\n'); err != nil || text != "begun\n" {
		t.Fatalf("the process says %q, %v", text, err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, ended, ok := statOf(cmd.Process.Pid); ok && ended {
			break
		}
		if time.Now().After(end) {
			t.Skip("the first thread of a Go program does not end here")
		}
	}
	for range 2 {
		freed, err := e.Reclaim()
		if err != nil || freed != 0 {
			t.Fatalf("%d slots of a live process are freed, %v", freed, err)
		}
		look, err := e.Look(time.Second)
		if err != nil || len(look.Sample.Tasks) != 1 {
			t.Fatalf("%d tasks are seen, %v", len(look.Sample.Tasks), err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // dead, and not waited for
		if freed, err := e.Reclaim(); err != nil || freed == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the slot of a zombie is not freed")
		}
	}
}
