package tracer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/needs"
	"github.com/spillgate/spillgate/internal/taskfile"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// bench is an engine and a tracer on one file, with the clock running.
func bench(t testing.TB) (*taskfile.Engine, *Tracer) {
	t.Helper()
	needs.Dir(t, "/proc/self/ns") // Linux
	path := filepath.Join(t.TempDir(), "tasks")
	engine, err := taskfile.Attach(path, taskfile.Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.SetMode(taskfile.Precise); err != nil {
		t.Fatal(err)
	}
	tr, err := Open(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(tr.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	return engine, tr
}

// await looks until ok, and fails after a long time.
func await(t *testing.T, engine *taskfile.Engine, what string, ok func(s *culprit.Sample) bool) *taskfile.Look {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		look, err := engine.Look(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if ok(&look.Sample) {
			return look
		}
	}
	t.Fatalf("never: %s", what)
	return nil
}

func TestACulpritIsCancelledThroughItsContext(t *testing.T) {
	engine, tr := bench(t)
	orders := tr.NewMutex("orders")
	var all sync.WaitGroup
	cause := make(chan error, 1)
	held := make(chan struct{})
	all.Go(func() {
		ctx, task := tr.Begin(t.Context(), Info{Key: 1, Kind: tr.Kind("report")})
		defer task.End()
		if err := orders.Lock(ctx); err != nil {
			t.Error(err)
		}
		defer orders.Unlock(ctx)
		close(held)
		<-ctx.Done() // a handler that works as long as it may
		cause <- context.Cause(ctx)
	})
	<-held
	for range 3 {
		all.Go(func() {
			ctx, task := tr.Begin(t.Context(), Info{})
			defer task.End()
			if err := orders.Lock(ctx); err != nil {
				t.Error(err)
				return
			}
			orders.Unlock(ctx)
		})
	}
	look := await(t, engine, "three wait for one", func(s *culprit.Sample) bool {
		waiting := 0
		for _, h := range s.Holds {
			if h.WaitingSince != culprit.Unset {
				waiting++
			}
		}
		return waiting == 3
	})
	for _, h := range look.Sample.Holds {
		if h.Used > 0 {
			task := look.Sample.Tasks[h.Task]
			if engine.KindName(task.Kind) != "report" || look.Origins[h.Task].PID != os.Getpid() {
				t.Errorf("the holder is %+v, %q", task, engine.KindName(task.Kind))
			}
			if err := engine.Cancel(task.ID, taskfile.Culprit); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := <-cause; !errors.Is(err, ErrCancelled) || !strings.Contains(err.Error(), "culprit") {
		t.Errorf("the cause is %v", err)
	}
	all.Wait()
	if look, err := engine.Look(time.Second); err != nil || len(look.Sample.Tasks) != 0 {
		t.Errorf("%d tasks are left (%v)", len(look.Sample.Tasks), err)
	}
}

func TestAWaiterIsCancelled(t *testing.T) {
	engine, tr := bench(t)
	for name, enter := range map[string]func() (lock, wait func(context.Context) error, unlock func(context.Context)){
		"mutex": func() (_, _ func(context.Context) error, _ func(context.Context)) {
			m := tr.NewMutex("m")
			return m.Lock, m.Lock, m.Unlock
		},
		"writer behind a reader": func() (_, _ func(context.Context) error, _ func(context.Context)) {
			m := tr.NewRWMutex("rw")
			return m.RLock, m.Lock, m.RUnlock
		},
		"reader behind a writer": func() (_, _ func(context.Context) error, _ func(context.Context)) {
			m := tr.NewRWMutex("rw")
			return m.Lock, m.RLock, m.Unlock
		},
		"pool": func() (_, _ func(context.Context) error, _ func(context.Context)) {
			p := tr.NewPool("p", 2)
			two := func(ctx context.Context) error { return p.Acquire(ctx, 2) }
			return two, two, func(ctx context.Context) { p.Release(ctx, 2) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			lock, wait, unlock := enter()
			ctx, holder := tr.Begin(t.Context(), Info{})
			defer holder.End()
			if err := lock(ctx); err != nil {
				t.Fatal(err)
			}
			failed := make(chan error, 1)
			go func() {
				ctx, task := tr.Begin(t.Context(), Info{Key: 2})
				defer task.End()
				failed <- wait(ctx)
			}()
			look := await(t, engine, "the second waits", func(s *culprit.Sample) bool {
				return len(s.Holds) == 2 && (s.Holds[0].WaitingSince != culprit.Unset || s.Holds[1].WaitingSince != culprit.Unset)
			})
			for i, o := range look.Origins {
				if o.Key == 2 {
					engine.Cancel(look.Sample.Tasks[i].ID, taskfile.Operator)
				}
			}
			if err := <-failed; !errors.Is(err, ErrCancelled) {
				t.Errorf("the waiter's error is %v", err)
			}
			unlock(ctx)
		})
	}
}

func TestReadersShare(t *testing.T) {
	engine, tr := bench(t)
	m := tr.NewRWMutex("table")
	for range 2 {
		ctx, task := tr.Begin(t.Context(), Info{})
		defer task.End()
		if err := m.RLock(ctx); err != nil {
			t.Fatal(err)
		}
		defer m.RUnlock(ctx)
	}
	look := await(t, engine, "two hold", func(s *culprit.Sample) bool { return len(s.Holds) == 2 })
	for _, h := range look.Sample.Holds {
		if !h.Shared || h.Used != 1 {
			t.Errorf("%+v", h)
		}
	}
}

func TestAWorkQueueIsBounded(t *testing.T) {
	_, tr := bench(t)
	q := tr.NewWorkQueue("workers", 1, 1)
	running, stop := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		q.Do(t.Context(), func(context.Context) error {
			close(running)
			<-stop
			return nil
		})
	})
	<-running
	full := errors.New("f's own")
	all.Go(func() {
		if err := q.Do(t.Context(), func(context.Context) error { return full }); err != full {
			t.Errorf("the one that waited returned %v", err)
		}
	})
	for q.waiting.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := q.Do(t.Context(), nil); err != ErrFull {
		t.Errorf("the third says %v", err)
	}
	close(stop)
	all.Wait()
}

func TestACacheSaysWhoDisplaces(t *testing.T) {
	engine, tr := bench(t)
	c := NewCache[int, string](tr, "pages", 10)
	ctx, task := tr.Begin(t.Context(), Info{})
	defer task.End()
	load := func(context.Context) (string, uint64, error) { return "v", 4, nil }
	for _, key := range []int{1, 2, 1, 3} { // 3 displaces 2, because 1 was used since
		if v, err := c.Get(ctx, key, load); v != "v" || err != nil {
			t.Fatal(v, err)
		}
	}
	if _, err := c.Get(ctx, 9, func(context.Context) (string, uint64, error) { return "", 0, os.ErrNotExist }); err != os.ErrNotExist {
		t.Error(err)
	}
	if _, err := c.Get(ctx, 9, func(context.Context) (string, uint64, error) { return "large", 11, nil }); err != nil {
		t.Error(err)
	}
	if len(c.byKey) != 2 || c.used != 8 || c.byKey[2] != nil {
		t.Errorf("%d keys, %d units", len(c.byKey), c.used)
	}
	look := await(t, engine, "a hold", func(s *culprit.Sample) bool { return len(s.Holds) == 1 })
	h := look.Sample.Holds[0]
	if h.Gets != 12 || h.Waits != 4 || h.Used != 12 || h.WaitTime <= 0 || h.WaitingSince != culprit.Unset {
		t.Errorf("%+v; expected 12 units taken and 4 displaced", h)
	}
}

func TestABranchCancelsTheRequest(t *testing.T) {
	engine, tr := bench(t)
	ctx, task := tr.Begin(t.Context(), Info{Key: 5})
	defer task.End()
	_, part := Branch(ctx)
	defer part.End()
	look := await(t, engine, "two tasks", func(s *culprit.Sample) bool { return len(s.Tasks) == 2 })
	for i, own := range look.Sample.Tasks {
		if look.Origins[i].Key != 5 {
			t.Errorf("%+v", look.Origins[i])
		}
		if own.Background { // the branch
			engine.Cancel(own.ID, taskfile.Culprit)
		}
	}
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), ErrCancelled) {
		t.Error(context.Cause(ctx))
	}
}

func TestWithoutATracerEverythingWorks(t *testing.T) {
	tr, err := Open(Config{})
	if err == nil || tr != nil {
		t.Fatal(tr, err)
	}
	ctx, task := tr.Begin(t.Context(), Info{Kind: tr.Kind("x")})
	if task != nil || From(ctx) != nil {
		t.Error("a nil Tracer makes tasks")
	}
	if _, part := Branch(ctx); part != nil {
		t.Error("a branch of nothing")
	}
	m, rw, p := tr.NewMutex("m"), tr.NewRWMutex("rw"), tr.NewPool("p", 1)
	c := NewCache[string, int](tr, "c", 1)
	if v, err := c.Get(ctx, "k", func(context.Context) (int, uint64, error) { return 7, 1, nil }); v != 7 || err != nil {
		t.Error(v, err)
	}
	if err := errors.Join(m.Lock(ctx), rw.Lock(ctx), p.Acquire(ctx, 1)); err != nil {
		t.Error(err)
	}
	m.Unlock(ctx)
	rw.Unlock(ctx)
	p.Release(ctx, 1)
	task.SetProgress(1, 2)
	task.SetIdle(true)
	task.End()
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

func TestAProgramOutlivesItsTruncatedFile(t *testing.T) {
	engine, tr := bench(t)
	ctx, task := tr.Begin(t.Context(), Info{})
	m := tr.NewMutex("m")
	path := tr.file.Path()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	// Nothing may touch the mapping until the watcher has let go of it, so the
	// test waits as an idle program would.
	<-tr.lost
	if err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	m.Unlock(ctx)
	task.End()
	if _, again := tr.Begin(t.Context(), Info{}); again != nil {
		t.Error("a task is traced into nothing")
	}
	if _, err := engine.Look(0); !errors.Is(err, taskfile.ErrGone) {
		t.Error(err)
	}
}
