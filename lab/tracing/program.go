package tracing

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/tracer"
)

// program is a load and a benchmark of one language.
type program struct {
	name string
	// needs is a file of the sources, from the module's root; tool what builds them.
	needs, tool string
	build       func(ctx context.Context, dir string) (load, bench []string, err error)
	mostEvent   float64 // ns, in mode coarse
}

func programs() []program {
	return []program{
		{name: "C", needs: "tracer/c/test/load.c", tool: "cc", build: buildC, mostEvent: 10},
		{name: "Go", build: func(context.Context, string) (load, bench []string, err error) { return nil, nil, nil }, mostEvent: 15},
		{name: "Java", needs: "tracer/java/test/spillgate/tracer/Load.java", tool: "javac", build: buildJava, mostEvent: 25},
	}
}

// missing says why the program cannot be built here, "" if it can.
func (p *program) missing() string {
	if p.needs == "" {
		return ""
	}
	if _, err := os.Stat(p.needs); err != nil {
		return fmt.Sprintf("%s is not measured: %s is not here; run this in the module's root directory", p.name, p.needs)
	}
	if _, err := exec.LookPath(p.tool); err != nil {
		return fmt.Sprintf("%s is not measured: there is no %s on the PATH", p.name, p.tool)
	}
	return ""
}

func buildC(ctx context.Context, dir string) (load, bench []string, err error) {
	for _, name := range []string{"load", "bench"} {
		to := filepath.Join(dir, name)
		if err := command(ctx, "cc", "-std=c11", "-O2", "-pthread", "-o", to, "tracer/c/test/"+name+".c", "tracer/c/spillgate_tracer.c"); err != nil {
			return nil, nil, err
		}
	}
	return []string{filepath.Join(dir, "load")}, []string{filepath.Join(dir, "bench")}, nil
}

func buildJava(ctx context.Context, dir string) (load, bench []string, err error) {
	sources, err := filepath.Glob("tracer/java/src/spillgate/tracer/*.java")
	if err != nil {
		return nil, nil, err
	}
	args := append([]string{"--release", "17", "-d", dir, "tracer/java/test/spillgate/tracer/Load.java", "tracer/java/test/spillgate/tracer/Bench.java"}, sources...)
	if err := command(ctx, "javac", args...); err != nil {
		return nil, nil, err
	}
	// A thread that ends takes the account of its processor time with it.
	return []string{"java", "-XX:-UseDynamicNumberOfCompilerThreads", "-cp", dir, "spillgate.tracer.Load"}, []string{"java", "-cp", dir, "spillgate.tracer.Bench"}, nil
}

func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("tracing: %s: %w\n%s", name, err, out)
	}
	return nil
}

// count is what a load has served in the processor time that it has used. engine is what this
// process, the engine, has used by then. Both are in nanoseconds.
type count struct{ used, served, engine float64 }

// counts takes the lines of a load.
type counts struct {
	mu   sync.Mutex
	rest []byte
	next chan count
}

func newCounts() *counts { return &counts{next: make(chan count, 64)} }

// Write takes a piece of what the load writes. It never blocks: a count that nobody waits
// for is dropped.
func (c *counts) Write(piece []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, piece...)
	for {
		line, rest, whole := bytes.Cut(c.rest, []byte("\n"))
		if !whole {
			return len(piece), nil
		}
		c.rest = rest
		used, served, _ := bytes.Cut(line, []byte(" "))
		u, errUsed := strconv.ParseFloat(string(used), 64)
		s, errServed := strconv.ParseFloat(string(served), 64)
		if errUsed != nil || errServed != nil {
			continue
		}
		select {
		case c.next <- count{u, s, float64(processorTime())}:
		default:
		}
	}
}

// processorTime returns what this process has used, threadTime what its thread has. Getrusage is
// late by a tick of the kernel, 4 ms.
func processorTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }
func threadTime() time.Duration    { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(id, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// speed is what a load does for a while.
type speed struct {
	rate  float64 // requests per second of its processor time, the median of short spans
	share float64 // part of the processor time that this process, the engine, used
}

// measure takes so many counts from now on, the first settled of which are only waited for.
func (c *counts) measure(ctx context.Context, settled, n int) (speed, error) {
	for len(c.next) > 0 {
		<-c.next // of before
	}
	var rates []float64
	var last count
	var load, self float64
	settled++ // the first is not wholly of now
	for i := range settled + n + 1 {
		var now count
		select {
		case now = <-c.next:
		case <-time.After(10 * time.Second):
			return speed{}, fmt.Errorf("tracing: the load counts no more")
		case <-ctx.Done():
			return speed{}, ctx.Err()
		}
		used := now.used - last.used
		if i > settled && used <= 0 {
			return speed{}, fmt.Errorf("tracing: the load used %.0f ns of processor time for %.0f requests, expected more than none", used, now.served-last.served)
		}
		if i > settled {
			rates = append(rates, (now.served-last.served)/used*1e9)
			load, self = load+used, self+now.engine-last.engine
		}
		last = now
	}
	return speed{quantile(rates, 0.5), self / (self + load)}, nil
}

// start starts the load of p on a task file, on all processors, with requests of so many steps.
func (p *program) start(ctx context.Context, load []string, path string, steps int, out *counts) (*proc.Child, error) {
	threads := runtime.NumCPU()
	spec := proc.Spec{Name: p.name + " load", Ready: "ready", Output: out}
	if load == nil {
		return role.Start(ctx, order{Load: path, Threads: threads, Steps: steps}, spec)
	}
	spec.Path = load[0]
	if at, err := exec.LookPath(load[0]); err == nil {
		spec.Path = at
	}
	spec.Args = append(load[1:len(load):len(load)], path, strconv.Itoa(threads), strconv.Itoa(steps))
	return proc.Start(ctx, spec)
}

// goLoad is the load in Go, as tracer/c/test/load.c does it.
func goLoad(path string, threads, steps int) error {
	tr, err := tracer.Open(tracer.Config{Path: path})
	if err != nil {
		return err
	}
	served := make([]struct {
		n    atomic.Uint64
		rest [120]byte // a line of the cache of its own
	}, threads)
	lock, errLock := tr.Resource("lock", tracer.Lock)
	pool, errPool := tr.Resource("pool", tracer.Queue)
	if errLock != nil || errPool != nil {
		return fmt.Errorf("tracing: the file has no room: %w, %w", errLock, errPool)
	}
	for i := range served {
		go func() {
			memory := new([1 << 15]uint64)
			for x := uint64(1); ; {
				x = goRequest(tr, lock, pool, memory, x, steps)
				served[i].n.Add(1)
			}
		}()
	}
	fmt.Println("ready")
	for ; ; time.Sleep(countEvery) {
		sum := uint64(0)
		for i := range served {
			sum += served[i].n.Load()
		}
		fmt.Println(processorTime().Nanoseconds(), sum)
	}
}

// countEvery is how often a load says what it has served.
const countEvery = 20 * time.Millisecond

// goRequest is so many steps of work, through more memory than the first cache has, and 16
// events.
func goRequest(tr *tracer.Tracer, lock, pool tracer.Resource, memory *[1 << 15]uint64, x uint64, steps int) uint64 {
	_, task := tr.Begin(context.Background(), tracer.Info{})
	defer task.End()
	task.Acquire(pool, 1)
	for range steps {
		x = x*6364136223846793005 + 1442695040888963407
		memory[x>>49] += x
	}
	for range 3 {
		task.WaitBegin(lock)
		task.WaitEnd(lock)
		task.Acquire(lock, 1)
		task.Release(lock, 1)
	}
	task.Release(pool, 1)
	return x
}
