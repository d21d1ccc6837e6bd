// Package proc runs the servers and generators of a measurement as child
// processes and makes sure that none outlives it.
//
//	Start ──fork, pinned──▶ child ──"listening on 127.0.0.1:4711"──▶ Child.Addr
//	  │                       │
//	  │ ctx ends, Stop, or    │ its own process group; everything in
//	  │ the parent dies       ▼ it is killed when the child ends
//	  └──────────────────▶ SIGKILL
//
// How a child is tied to its parent:
//
//   - The end of ctx kills the child's process group, and so does the end of
//     the child itself: what it forked goes with it.
//   - On Linux the kernel kills the child when its parent dies in whatever way.
//     The kernel means the thread that forked, so each child gets a thread that
//     lives as long as it does.
//   - Everywhere, a child's standard input is a pipe that the parent never
//     writes to and that ends with the parent. A Go child that calls
//     ExitWithParent leaves then.
//
// A Ctrl-C in the terminal reaches the parent alone, because a child is in a
// group of its own; the parent ends the children through ctx.
//
// What this package does not do: it does not restart children, and on a
// parent's sudden death it cannot reach grandchildren that do not watch their
// own parent.
package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Spec describes a child process. Zero fields take the default named in their
// comment.
type Spec struct {
	// Name is what errors call the child. Default: Path.
	Name string
	// Path is the program. Default: the running program itself, so that a
	// hidden subcommand or a variable in Env can make it another role.
	Path string
	// Args are the arguments after the program's name.
	Args []string
	// Env is added to the parent's environment, as KEY=value.
	Env []string

	// CPUs pins the child to these processors, numbered from 0. Default: not
	// pinned. Only on Linux; ignored elsewhere.
	CPUs []int
	// GOMAXPROCS is set in the child's environment. Default: the number of
	// CPUs if it is pinned, else left alone.
	GOMAXPROCS int
	// GOGC is set in the child's environment: "off", or a percentage. State it
	// with any result: at 100, collection alone can look like an overload.
	// Default: left alone.
	GOGC string
	// Nice is added to the child's nice value, -20 to 19. Negative values raise
	// its priority if the system permits that, and are ignored if not. With
	// another process busy on the same core, -10 brought the p99 send lag of
	// a 2,000/s generator from 4.4 ms to 25 µs. Only on Linux. Default 0.
	Nice int
	// RealTime puts the child before every ordinary process of its processors
	// (SCHED_RR), if the system permits that; Nice counts where it does not.
	// With compilers at work on both cores, a generator of 2,000/s at Nice -10
	// had a p99 send lag of 3.5 ms, which is the kernel's tick. A child that
	// never rests leaves ordinary processes 5 % of its processor, so use it for
	// runs of seconds. Only on Linux.
	RealTime bool
	// First puts a RealTime child before others of them: a generator sends on time
	// beside servers that are real-time too. Only on Linux.
	First bool

	// Ready is how the line on standard output begins that says the child is
	// ready; the word after it becomes Child.Addr. Default "listening on ".
	Ready string
	// ReadyTimeout bounds the wait for that line. Default 10 s. Negative: do
	// not wait.
	ReadyTimeout time.Duration
	// Output also receives what the child writes on standard output and
	// standard error, in pieces. Default: nowhere.
	Output io.Writer
}

func (s Spec) withDefaults() (Spec, error) {
	if s.Path == "" {
		self, err := os.Executable()
		if err != nil {
			return s, fmt.Errorf("where is this program? %w", err)
		}
		s.Path = self
	}
	if s.Name == "" {
		s.Name = s.Path
	}
	if s.GOMAXPROCS == 0 {
		s.GOMAXPROCS = len(s.CPUs)
	}
	if s.Ready == "" {
		s.Ready = "listening on "
	}
	if s.ReadyTimeout == 0 {
		s.ReadyTimeout = 10 * time.Second
	}
	return s, s.validate()
}

func (s Spec) validate() error {
	var errs []error
	for _, cpu := range s.CPUs {
		if cpu < 0 || cpu >= maxCPU {
			errs = append(errs, fmt.Errorf("CPUs has %d, must be 0 to %d", cpu, maxCPU-1))
		}
	}
	if s.GOMAXPROCS < 0 {
		errs = append(errs, fmt.Errorf("GOMAXPROCS is %d, must be above 0", s.GOMAXPROCS))
	}
	if n, err := strconv.Atoi(s.GOGC); s.GOGC != "" && s.GOGC != "off" && (err != nil || n < 0) {
		errs = append(errs, fmt.Errorf("GOGC is %q, must be \"off\" or a percentage", s.GOGC))
	}
	if s.Nice < -20 || s.Nice > 19 {
		errs = append(errs, fmt.Errorf("Nice is %d, must be -20 to 19", s.Nice))
	}
	return errors.Join(errs...)
}

// maxCPU is the number of processors that a pinning can name.
const maxCPU = 1024

// A Child is a process started by Start. Its methods are safe for concurrent
// use.
type Child struct {
	name   string
	pid    int
	addr   string
	output *output
	exited chan struct{} // closed when the child and its group are gone

	mu     sync.Mutex
	reaped bool
	state  *os.ProcessState
	err    error
}

// Start starts a child and waits until it says that it is ready. When ctx ends,
// then or later, the child is killed. If Start fails, nothing is left running.
func Start(ctx context.Context, spec Spec) (*Child, error) {
	spec, err := spec.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("proc: %s: %w", spec.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("proc: %s not started: %w", spec.Name, err)
	}
	c := &Child{name: spec.Name, exited: make(chan struct{}), output: newOutput(spec.Ready, spec.Output)}
	started := make(chan error, 1)
	go c.own(spec, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("proc: %s: %w", spec.Name, err)
	}
	go func() {
		select {
		case <-ctx.Done():
			c.signal(syscall.SIGKILL)
		case <-c.exited:
		}
	}()
	if spec.ReadyTimeout < 0 {
		return c, nil
	}
	if err := c.awaitReady(ctx, spec); err != nil {
		c.signal(syscall.SIGKILL)
		<-c.exited
		return nil, fmt.Errorf("proc: %s: %w%s", spec.Name, err, c.output.quote())
	}
	return c, nil
}

func (c *Child) awaitReady(ctx context.Context, spec Spec) error {
	timeout := time.NewTimer(spec.ReadyTimeout)
	defer timeout.Stop()
	select {
	case c.addr = <-c.output.ready:
		return nil
	case <-c.exited:
		select {
		case c.addr = <-c.output.ready: // ready, and gone since; Wait tells
			return nil
		default:
		}
		return fmt.Errorf("ended (%v) before it wrote %q", c.state, spec.Ready)
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return fmt.Errorf("did not write %q within %v", spec.Ready, spec.ReadyTimeout)
	}
}

// own starts the child and stays on the thread that forked it until it is gone,
// because the kernel ties the child's life to that thread.
func (c *Child) own(spec Spec, started chan<- error) {
	// Never unlocked: the thread's affinity and priority are now the child's,
	// so it must end with this goroutine instead of being used again.
	runtime.LockOSThread()
	if err := shapeThread(spec); err != nil {
		started <- err
		return
	}
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(os.Environ(), spec.Env...)
	if spec.GOMAXPROCS > 0 {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(spec.GOMAXPROCS))
	}
	if spec.GOGC != "" {
		cmd.Env = append(cmd.Env, "GOGC="+spec.GOGC)
	}
	cmd.Stdout = c.output
	cmd.Stderr = stderr{c.output}
	cmd.SysProcAttr = groupAttr()
	cmd.WaitDelay = time.Second // for output pipes that a stranger holds open
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		started <- err
		return
	}
	defer lifeline.Close()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	c.pid = cmd.Process.Pid
	rankSession(c.pid, spec.Nice)
	started <- nil

	awaitExit(c.pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.pid, syscall.SIGKILL) // what it forked
	c.err = cmd.Wait()
	c.state = cmd.ProcessState
	c.reaped = true
	close(c.exited)
}

// signal sends sig to the child's group, unless it is gone.
func (c *Child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped { // else the number may belong to somebody else
		_ = syscall.Kill(-c.pid, sig)
	}
}

// Addr returns the word that followed Spec.Ready, such as "127.0.0.1:4711".
func (c *Child) Addr() string { return c.addr }

// Pid returns the child's process id. It is not the child's any more once
// Exited is closed.
func (c *Child) Pid() int { return c.pid }

// Exited is closed when the child has ended and its group has been killed.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Output returns the last 64 KiB of what the child wrote on standard output
// and standard error, interleaved as they arrived.
func (c *Child) Output() string { return c.output.tail() }

// Wait waits for the child to end. It returns nil if that was with status 0.
func (c *Child) Wait() error {
	<-c.exited
	if c.err != nil {
		return fmt.Errorf("proc: %s: %w%s", c.name, c.err, c.output.quote())
	}
	return nil
}

// CPUTime waits for the child to end and returns the processor time, of user
// and system, that it used.
func (c *Child) CPUTime() time.Duration {
	<-c.exited
	if c.state == nil {
		return 0
	}
	return c.state.UserTime() + c.state.SystemTime()
}

// Stop asks the child to end (SIGTERM), kills it if it has not within grace,
// and returns when it is gone.
func (c *Child) Stop(grace time.Duration) {
	c.signal(syscall.SIGTERM)
	patience := time.NewTimer(max(grace, 0))
	defer patience.Stop()
	select {
	case <-c.exited:
		return
	case <-patience.C:
	}
	c.signal(syscall.SIGKILL)
	<-c.exited
}

// ExitWithParent makes a process that was started by Start leave, with status
// 1, when its parent is gone. It returns at once and reads standard input from
// then on.
func ExitWithParent() {
	go func() {
		_, _ = io.CopyN(io.Discard, os.Stdin, math.MaxInt64)
		os.Exit(1)
	}()
}
