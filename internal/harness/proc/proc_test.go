package proc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/leaks"
)

// The test program is also the child: this variable says which role it plays.
const roleVar = "SPILLGATE_PROC_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "":
		leaks.Verify(m)
	case "server": // forks a grandchild, says ready, stays
		grandchild := exec.Command("sleep", "1000")
		if err := grandchild.Start(); err != nil {
			panic(err)
		}
		fmt.Println("warming up")
		fmt.Println("grandchild", grandchild.Process.Pid)
		fmt.Print("listening on ")
		fmt.Println("127.0.0.1:4711 (http)")
		stay()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("listening on x")
		stay()
	case "report":
		cpus, _ := proc.CPUs()
		fmt.Println("listening on", runtime.GOMAXPROCS(0), os.Getenv("GOGC"), cpus, niceOfSelf())
		fmt.Fprintln(os.Stderr, "report done")
	case "fails":
		fmt.Fprintln(os.Stderr, "cannot open the moon")
		os.Exit(3)
	case "mute":
		stay()
	case "liar": // says it on the wrong stream
		fmt.Fprintln(os.Stderr, "listening on nothing")
		stay()
	case "parent": // starts a server, tells its pid, and is killed by the test
		child, err := proc.Start(context.Background(), proc.Spec{Env: []string{roleVar + "=" + os.Getenv(roleVar+"_CHILD")}})
		if err != nil {
			panic(err)
		}
		fmt.Println("child", child.Pid())
		stay()
	case "lifeline":
		proc.ExitWithParent()
		fmt.Println("listening on lifeline")
		stay()
	}
}

// stay keeps a child running. (An empty select would be a deadlock to the
// runtime, which ends the process.)
func stay() {
	for {
		time.Sleep(time.Hour)
	}
}

func spec(role string) proc.Spec {
	return proc.Spec{Name: role, Env: []string{roleVar + "=" + role}}
}

func start(t *testing.T, ctx context.Context, s proc.Spec) *proc.Child {
	t.Helper()
	c, err := proc.Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop(0) })
	return c
}

// gone reports whether the process does not run any more. A zombie, which
// somebody else has to reap, does not run.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return errors.Is(err, os.ErrNotExist) && runtime.GOOS == "linux"
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return bytes.HasPrefix(after, []byte("Z"))
}

func awaitGone(t *testing.T, what string, pid int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { // which only ends a hang
		if gone(pid) {
			return
		}
	}
	t.Errorf("%s (pid %d) still runs", what, pid)
}

func pidAfter(t *testing.T, out, word string) int {
	t.Helper()
	_, after, ok := strings.Cut(out, word+" ")
	if ok {
		if pid, err := strconv.Atoi(strings.Fields(after)[0]); err == nil {
			return pid
		}
	}
	t.Fatalf("no %q in output %q", word, out)
	return 0
}

func TestAddressIsFoundInTheOutput(t *testing.T) {
	c := start(t, t.Context(), spec("server"))
	if c.Addr() != "127.0.0.1:4711" {
		t.Errorf("address %q, want 127.0.0.1:4711", c.Addr())
	}
}

// However a child ends, its grandchild ends with it and Wait returns.
func TestNothingIsLeftBehind(t *testing.T) {
	for name, end := range map[string]func(c *proc.Child, cancel func()){
		"context":        func(_ *proc.Child, cancel func()) { cancel() },
		"stop":           func(c *proc.Child, _ func()) { c.Stop(time.Minute) },
		"killed outside": func(c *proc.Child, _ func()) { _ = syscall.Kill(c.Pid(), syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := start(t, ctx, spec("server"))
			grandchild := pidAfter(t, c.Output(), "grandchild")
			if gone(c.Pid()) || gone(grandchild) {
				t.Fatal("child or grandchild ended by itself")
			}
			end(c, cancel)
			if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "server") {
				t.Errorf("Wait = %v, want an error that names the child", err)
			}
			awaitGone(t, "child", c.Pid())
			awaitGone(t, "grandchild", grandchild)
		})
	}
}

func TestStopKillsAStubbornChild(t *testing.T) {
	c := start(t, t.Context(), spec("stubborn"))
	c.Stop(20 * time.Millisecond)
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Wait = %v, want it to say killed", err)
	}
}

// A parent that is killed takes its children with it: on Linux all of them,
// elsewhere those that watch their parent.
func TestChildrenEndWithTheParent(t *testing.T) {
	roles := []string{"lifeline"}
	if runtime.GOOS == "linux" {
		roles = append(roles, "stubborn")
	}
	for _, role := range roles {
		t.Run(role, func(t *testing.T) {
			parent := exec.Command(os.Args[0])
			parent.Env = append(os.Environ(), roleVar+"=parent", roleVar+"_CHILD="+role)
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			_ = parent.Process.Kill()
			_ = parent.Wait()
			if err != nil {
				t.Fatal(err)
			}
			awaitGone(t, "child of the killed parent", pidAfter(t, line, "child"))
		})
	}
}

// The kernel ties a child to the thread that forked it. Threads that end in
// the meantime must not take it along.
func TestChildOutlivesOtherThreads(t *testing.T) {
	c := start(t, t.Context(), spec("stubborn"))
	var locked, ended sync.WaitGroup
	all := make(chan struct{})
	for range 50 { // at once, so that every idle thread is taken
		locked.Add(1)
		ended.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			locked.Done()
			<-all
		})
	}
	locked.Wait()
	close(all)
	ended.Wait()
	time.Sleep(20 * time.Millisecond) // a kill would come now
	select {
	case <-c.Exited():
		t.Fatalf("the child ended: %v", c.Wait())
	default:
	}
}

func TestEnvironmentAndPinning(t *testing.T) {
	cpus, err := proc.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	last := cpus[len(cpus)-1:]
	s := spec("report")
	s.CPUs, s.GOGC, s.Nice = last, "400", 3
	var tee syncBuffer
	s.Output = &tee
	nice := niceOfSelf()
	c := start(t, t.Context(), s)
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("listening on 1 400 %v %d", cpus, nice)
	if runtime.GOOS == "linux" {
		want = fmt.Sprintf("listening on 1 400 %v %d", last, min(nice+3, 19))
	}
	if got := c.Output(); !strings.Contains(got, want) || !strings.Contains(got, "report done") || got != tee.String() {
		t.Errorf("output %q, copy %q; want both streams and %q", got, tee.String(), want)
	}
	if c.CPUTime() <= 0 {
		t.Errorf("CPU time %v, want some", c.CPUTime())
	}
	if after, _ := proc.CPUs(); !slices.Equal(after, cpus) {
		t.Errorf("starting a pinned child changed this process's CPUs from %v to %v", cpus, after)
	}
}

// Whatever thread a pinned child was forked on, the main one included, this
// process is not pinned with it.
func TestPinnedChildrenLeaveTheParentAlone(t *testing.T) {
	cpus, err := proc.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		s := spec("server")
		s.CPUs = cpus[:1]
		start(t, t.Context(), s).Stop(time.Second)
		if after, _ := proc.CPUs(); !slices.Equal(after, cpus) {
			t.Fatalf("after a child pinned to %v this process may use %v, before %v", s.CPUs, after, cpus)
		}
	}
}

func TestPinSelf(t *testing.T) {
	cpus, err := proc.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := proc.PinSelf(cpus); err != nil {
			t.Error(err)
		}
	}()
	if err := proc.PinSelf(cpus[:1]); err != nil {
		t.Fatal(err)
	}
	if after, _ := proc.CPUs(); runtime.GOOS == "linux" && !slices.Equal(after, cpus[:1]) {
		t.Errorf("CPUs %v after pinning to %v", after, cpus[:1])
	}
	if err := proc.PinSelf([]int{-1}); err == nil {
		t.Error("CPU -1 was accepted")
	}
}

func TestFailedStarts(t *testing.T) {
	short := func(role string) proc.Spec {
		s := spec(role)
		s.ReadyTimeout = 50 * time.Millisecond
		return s
	}
	for name, c := range map[string]struct {
		spec proc.Spec
		want string
	}{
		"ends first":   {spec("fails"), `fails: ended (exit status 3) before it wrote "listening on "; it wrote:` + "\ncannot open the moon"},
		"says nothing": {short("mute"), `did not write "listening on " within 50ms`},
		"wrong stream": {short("liar"), `did not write`},
		"no program":   {proc.Spec{Path: "/nonexistent/server"}, "/nonexistent/server"},
		"mistakes":     {proc.Spec{Name: "m", CPUs: []int{-1}, GOGC: "lots", Nice: 40, GOMAXPROCS: -1}, "CPUs has -1"},
		"all mistakes": {proc.Spec{Name: "m", CPUs: []int{-1}, GOGC: "lots", Nice: 40, GOMAXPROCS: -1}, "GOMAXPROCS is -1, must be above 0\nGOGC is \"lots\", must be \"off\" or a percentage\nNice is 40"},
	} {
		if child, err := proc.Start(t.Context(), c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want it to say %q", name, err, c.want)
			if child != nil {
				child.Stop(0)
			}
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := proc.Start(ended, spec("server")); !errors.Is(err, context.Canceled) {
		t.Errorf("Start under an ended context = %v", err)
	}
	if _, err := proc.Start(t.Context(), proc.Spec{Name: "unpinnable", CPUs: []int{1023}}); runtime.GOOS == "linux" && (err == nil || !strings.Contains(err.Error(), "this process may use")) {
		t.Errorf("a processor that is not there: %v", err)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var _ io.Writer = (*syncBuffer)(nil)

// niceOfSelf returns this process's nice value, 0 where it cannot be read.
func niceOfSelf() int {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 17 {
		return 0
	}
	nice, _ := strconv.Atoi(fields[16]) // field 19 of proc_pid_stat(5), and two are cut off
	return nice
}
