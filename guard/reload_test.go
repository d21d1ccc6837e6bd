package guard

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// stage is a server in which a session of user "app" keeps five others waiting once it is seized.
type stage struct {
	tracker *track.Tracker
	seized  atomic.Bool
	since   mono.Time // that it is, as the looks see it
}

func (s *stage) Look(context.Context) (*track.Look, error) {
	now := live.Now()
	s.tracker.Begin(now)
	if !s.seized.Load() {
		s.since = 0
		return s.tracker.End(20), nil
	}
	if s.since == 0 {
		s.since = now
	}
	holder := s.tracker.Task(track.Key{Process: 1}, s.since)
	task, session := s.tracker.At(holder)
	task.Idle, task.Kind, task.Steps, session.User = true, 7, culprit.StepsOf(culprit.Session), "app"
	s.tracker.Holds(holder, 0, s.since, 0, false)
	for i := range int64(5) {
		victim := s.tracker.Task(track.Key{Process: 2 + i}, s.since)
		s.tracker.Waits(victim, 0, s.since)
		s.tracker.Edge(victim, holder, 0)
	}
	return s.tracker.End(0), nil
}

func (s *stage) Act(context.Context, uint64, culprit.Step) (bool, error) {
	s.seized.Store(false)
	return true, nil
}
func (s *stage) Alive(context.Context) error { return nil }
func (s *stage) Close()                      {}

// A running guard takes other rules and another mode, and keeps what it has learned; what needs a
// restart is said, and a mistake leaves all as it was.
func TestReload(t *testing.T) {
	cfg := SetConfig{Servers: []Config{{Name: "db", URL: "postgres://u@h/d", Objective: 50 * time.Millisecond, Period: 10 * time.Millisecond,
		Mode: culprit.Enforce, Rules: Rules{Deny: []Rule{{User: "app"}}}}}}
	set, err := NewSet(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := &stage{tracker: track.New([]culprit.Resource{{Name: "lock", Kind: culprit.Lock}})}
	set.guards[0].open = func(context.Context) (Source, error) { return server, nil }
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = set.Run(ctx) })
	defer running.Wait()
	defer stop()
	w := &watched{Guard: set.guards[0]}
	change := func(f func(c *SetConfig)) (ignored []string, err error) {
		next := cfg
		next.Servers = slices.Clone(cfg.Servers)
		f(&next)
		return set.Reload(next)
	}

	w.eventually(t, "baseline", func(s Status) bool { return s.Baseline > 0 })
	server.seized.Store(true)
	w.eventually(t, "denied culprit", func(s Status) bool {
		return s.State == "named" && len(s.Candidates) > 0 && s.Candidates[0].Why == "barred: denied"
	})
	if _, err := change(func(c *SetConfig) { c.Servers[0].Objective, c.Servers[0].Rules = -1, Rules{} }); err == nil {
		t.Error("a configuration with a mistake was taken")
	}
	ignored, err := change(func(c *SetConfig) {
		c.Audit, c.Servers[0].Objective, c.Servers[0].Mode, c.Servers[0].Rules = "audit.jsonl", time.Second, culprit.Monitor, Rules{}
	})
	if want := []string{"guard.audit", "guard.servers[0].slo"}; err != nil || !slices.Equal(ignored, want) {
		t.Errorf("not taken: %v, %v; expected %v", ignored, err, want)
	}
	would := w.eventually(t, "cancel in mode monitor", func(s Status) bool { return len(s.Cancels) > 0 })
	if !would.Cancels[0].Would || would.Mode != "monitor" || would.Baseline == 0 {
		t.Errorf("after a reload: %+v, expected a cancel that would be, and a baseline: nothing is learned while victims wait", would)
	}
	if _, err := change(func(c *SetConfig) { c.Servers[0].Rules = Rules{} }); err != nil {
		t.Error(err)
	}
	w.eventually(t, "cancel in mode enforce", func(s Status) bool {
		return len(s.Cancels) == 2 && !s.Cancels[1].Would && s.Cancels[1].Verdict == "relieved" && s.Mode == "enforce"
	})
	if _, err := change(func(c *SetConfig) { c.Servers[0].Name = "other" }); err != nil {
		t.Error(err)
	}
}

// A configuration that forbids counts at once: while the server cannot be seen, and for what was decided on a look that began before it.
func TestReloadThatForbids(t *testing.T) {
	cfg := SetConfig{Servers: []Config{{Name: "db", URL: "postgres://u@h/d", Objective: 50 * time.Millisecond, Mode: culprit.Enforce}}}
	with := func(f func(c *Config)) SetConfig {
		next := SetConfig{Servers: slices.Clone(cfg.Servers)}
		f(&next.Servers[0])
		return next
	}
	for name, tt := range map[string]struct {
		next SetConfig
		mode string
		done int
	}{
		"as before": {cfg, "enforce", 1},
		"monitor":   {with(func(c *Config) { c.Mode = culprit.Monitor }), "monitor", 0},
		"deny":      {with(func(c *Config) { c.Rules.Deny = []Rule{{User: "app"}} }), "enforce", 0},
		"switch":    {with(func(c *Config) { c.KillSwitch = t.TempDir() }), "monitor (the kill switch ", 0},
	} {
		set, err := NewSet(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		g := set.guards[0]
		server := &stage{tracker: track.New([]culprit.Resource{{Name: "lock", Kind: culprit.Lock}})}
		server.seized.Store(true)
		look, err := server.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		g.keeps = []keeping{{kind: 7, until: time.Now().Add(time.Hour)}}
		if _, err := set.Reload(tt.next); err != nil {
			t.Fatal(err)
		}
		if s := g.Status(); !strings.HasPrefix(s.Mode, tt.mode) || (len(s.KeptOut) > 0) != (tt.mode == "enforce") {
			t.Errorf("%s: mode %q, kept out %v, before any look", name, s.Mode, s.KeptOut)
		}
		if err := g.act(t.Context(), server, look, culprit.Action{Task: look.Sample.Tasks[0].ID, Step: culprit.Session}); err != nil {
			t.Error(err)
		}
		s := g.Status()
		if len(s.Cancels) != 1 || (s.Cancels[0].Error == "") != (tt.done == 1) || server.seized.Load() != (tt.done == 0) {
			t.Errorf("%s: %+v, the server is still seized: %v", name, s.Cancels, server.seized.Load())
		}
	}
}
