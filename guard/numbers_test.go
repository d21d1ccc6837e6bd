package guard

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
)

// fleeting is a stage whose connection breaks when it acts, or when it is told to.
type fleeting struct {
	*stage
	acts   chan uint64 // tasks that were acted on
	breaks *atomic.Bool
}

var errGone = errors.New("the connection is gone")

func (f *fleeting) Look(ctx context.Context) (*track.Look, error) {
	if f.breaks.Load() {
		return nil, errGone
	}
	return f.stage.Look(ctx)
}

func (f *fleeting) Act(ctx context.Context, task uint64, step culprit.Step) (bool, error) {
	f.acts <- task
	return f.stage.Act(ctx, task, step)
}

// TestTasksOfTheNextConnectionAreOthers: a source counts tasks from one. After a restart of the
// server the culprit has a number that an earlier culprit had; it is cancelled all the same.
// the step that a first cancel takes.
func TestTasksOfTheNextConnectionAreOthers(t *testing.T) {
	g, err := New(Config{Name: "db", URL: "postgres://u@h/d", Objective: 50 * time.Millisecond, Period: 10 * time.Millisecond, Mode: culprit.Enforce}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	acts, breaks := make(chan uint64, 100), &atomic.Bool{}
	server := atomic.Pointer[stage]{}
	g.open = func(context.Context) (Source, error) {
		breaks.Store(false)
		s := &stage{tracker: track.New([]culprit.Resource{{Name: "lock", Kind: culprit.Lock}})}
		server.Store(s)
		return &fleeting{s, acts, breaks}, nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	defer running.Wait()
	defer stop()
	w := &watched{Guard: g}
	var first uint64
	for n := 1; n <= 2; n++ {
		w.eventually(t, "connection", func(s Status) bool { return s.Connected && s.Baseline > 0 && s.State == "normal" })
		was := server.Load()
		was.seized.Store(true)
		s := w.eventually(t, "cancel", func(s Status) bool { return len(s.Cancels) == n })
		if task := <-acts; task != 1 {
			t.Errorf("connection %d: the source was told to cancel its task %d, expected 1", n, task)
		}
		if id := s.Cancels[n-1].ID; id == first {
			t.Errorf("both culprits have the number %d to the engine", id)
		} else {
			first = id
		}
		breaks.Store(true)
		w.eventually(t, "another connection", func(Status) bool { return server.Load() != was })
	}
}

// cut is a stage whose connection for cancels is gone.
type cut struct {
	*stage
	closed chan struct{}
}

func (c *cut) Act(context.Context, uint64, culprit.Step) (bool, error) { return false, errGone }
func (c *cut) Alive(context.Context) error                             { return errGone }
func (c *cut) Close()                                                  { close(c.closed) }

// hasty is a stage whose operator stops all cancels while a look is under way.
type hasty struct {
	*stage
	kill string
	acts atomic.Int64
}

func (h *hasty) Look(ctx context.Context) (*track.Look, error) {
	if h.seized.Load() {
		if err := os.WriteFile(h.kill, nil, 0o600); err != nil {
			return nil, err
		}
	}
	return h.stage.Look(ctx)
}

func (h *hasty) Act(context.Context, uint64, culprit.Step) (bool, error) {
	h.acts.Add(1)
	return true, nil
}

// TestTheKillSwitchCountsAtTheCancel: not at the look that led to it.
func TestTheKillSwitchCountsAtTheCancel(t *testing.T) {
	kill := filepath.Join(t.TempDir(), "kill")
	g, err := New(Config{Name: "db", URL: "postgres://u@h/d", Objective: 50 * time.Millisecond, Period: 10 * time.Millisecond, Mode: culprit.Enforce, KillSwitch: kill}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &hasty{stage: &stage{tracker: track.New([]culprit.Resource{{Name: "lock", Kind: culprit.Lock}})}, kill: kill}
	for at := 0; h.acts.Load() == 0 && at < 100; at++ { // the switch is there at the end of each look, and gone at its beginning
		h.seized.Store(at >= 50)
		if err := os.RemoveAll(kill); err != nil {
			t.Fatal(err)
		}
		if _, err := g.step(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	s := g.Status()
	if h.acts.Load() != 0 || len(s.Cancels) == 0 || !s.Cancels[0].Would || !strings.Contains(s.Mode, "kill switch") {
		t.Errorf("%d cancels while the switch was there; told are %+v, the mode is %s", h.acts.Load(), s.Cancels, s.Mode)
	}
	// Nor is a cancel carried out that was decided on before.
	look, err := h.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g.ids.enter(look)
	if err := g.act(t.Context(), h, look, culprit.Action{Task: look.Sample.Tasks[0].ID, Step: culprit.Session}); err != nil {
		t.Fatal(err)
	}
	if s := g.Status(); h.acts.Load() != 0 || !strings.Contains(s.Cancels[len(s.Cancels)-1].Error, "kill switch") {
		t.Errorf("%d cancels while the switch was there; told are %+v", h.acts.Load(), s.Cancels)
	}
}

// swaying is a stage whose operator allows cancels before each look, and takes them back while it is under way.
type swaying struct {
	*stage
	before func()
	acts   atomic.Int64
}

func (s *swaying) Look(ctx context.Context) (*track.Look, error) {
	s.before()
	return s.stage.Look(ctx)
}

func (s *swaying) Act(context.Context, uint64, culprit.Step) (bool, error) {
	s.acts.Add(1)
	return true, nil
}

// TestARuleCountsAtTheCancel: one that came while the look was under way, too.
func TestARuleCountsAtTheCancel(t *testing.T) {
	cfg := Config{Name: "db", URL: "postgres://u@h/d", Objective: 50 * time.Millisecond, Period: 10 * time.Millisecond, Mode: culprit.Enforce}
	for name, change := range map[string]func(*Config){"a rule of deny": func(c *Config) { c.Rules.Deny = []Rule{{User: "app"}} }, "mode monitor": func(c *Config) { c.Mode = culprit.Monitor }} {
		g, err := New(cfg, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			t.Fatal(err)
		}
		barred := cfg.withDefaults()
		change(&barred)
		s := &swaying{stage: &stage{tracker: track.New([]culprit.Resource{{Name: "lock", Kind: culprit.Lock}})}}
		s.before = func() { g.next.Store(&barred) }
		for at := 0; s.acts.Load() == 0 && at < 100; at++ {
			s.seized.Store(at >= 50)
			g.cfg = cfg.withDefaults() // as until this look
			g.next.Store(nil)
			if _, err := g.step(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if status := g.Status(); s.acts.Load() != 0 || len(status.Candidates) == 0 {
			t.Errorf("%s: %d cancels; the status is %+v", name, s.acts.Load(), status)
		}
	}
}

// TestALostCancelOpensAnotherConnection: at once, not at the next check of it.
func TestALostCancelOpensAnotherConnection(t *testing.T) {
	g, err := New(Config{Name: "db", URL: "postgres://u@h/d", Objective: 50 * time.Millisecond, Period: 10 * time.Millisecond, Mode: culprit.Enforce}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := &cut{&stage{tracker: track.New([]culprit.Resource{{Name: "lock", Kind: culprit.Lock}})}, make(chan struct{})}
	next := &stage{tracker: track.New([]culprit.Resource{{Name: "lock", Kind: culprit.Lock}})}
	next.seized.Store(true)
	opened := false
	g.open = func(context.Context) (Source, error) {
		if opened {
			return next, nil
		}
		opened = true
		return first, nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	defer running.Wait()
	defer stop()
	w := &watched{Guard: g}
	w.eventually(t, "baseline", func(s Status) bool { return s.Baseline > 0 })
	first.seized.Store(true)
	<-first.closed
	w.eventually(t, "cancel over the next connection", func(Status) bool { return !next.seized.Load() })
}
