package guard

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
)

// What a guard advises stands for its time, is renewed, and is nothing in mode monitor.
func TestKeepOut(t *testing.T) {
	l := &track.Look{Sample: culprit.Sample{Tasks: []culprit.Task{{ID: 1, Kind: 7}, {ID: 2, Kind: 8}}, Resources: []culprit.Resource{{Name: "other"}, {Name: "workers"}}},
		Sessions: []track.Session{{Route: "GET /slow"}, {Route: "GET /fast"}}}
	limit := func(kind uint64, would bool) *culprit.Decision {
		return &culprit.Decision{Candidates: []culprit.Candidate{{Kind: kind, Resource: 1}},
			Action: culprit.Action{Kind: kind, Would: would, Limit: culprit.Limit{Kind: kind, For: time.Minute}}}
	}
	g := &Guard{mode: culprit.Enforce}
	began := time.Now()
	for i, step := range []struct {
		decision *culprit.Decision
		after    time.Duration
		mode     culprit.Mode
		routes   []string
		seconds  float64 // of the first
	}{
		{&culprit.Decision{}, 0, culprit.Enforce, nil, 0},
		{limit(7, true), 0, culprit.Enforce, nil, 0},
		{limit(7, false), 0, culprit.Enforce, []string{"GET /slow"}, 60},
		{&culprit.Decision{}, 50 * time.Second, culprit.Enforce, []string{"GET /slow"}, 10},
		{limit(7, false), 50 * time.Second, culprit.Enforce, []string{"GET /slow"}, 60},
		{limit(8, false), 60 * time.Second, culprit.Enforce, []string{"GET /slow", "GET /fast"}, 50},
		{&culprit.Decision{}, 110 * time.Second, culprit.Enforce, []string{"GET /fast"}, 10},
		{&culprit.Decision{}, 111 * time.Second, culprit.Monitor, nil, 0},
		{&culprit.Decision{}, 112 * time.Second, culprit.Enforce, nil, 0},
	} {
		g.mode = step.mode
		g.keepOut(l, step.decision, began.Add(step.after))
		var routes []string
		kept := g.keptOut(step.mode, began.Add(step.after))
		for _, k := range kept {
			routes = append(routes, k.Route)
			if k.Resource != "workers" {
				t.Errorf("step %d: %+v", i, k)
			}
		}
		if !slices.Equal(routes, step.routes) || len(routes) > 0 && kept[0].For != step.seconds {
			t.Errorf("step %d: %+v, expected %v, the first for %v s", i, kept, step.routes, step.seconds)
		}
	}
	for kind := range uint64(2 * mostKeptOut) {
		g.keepOut(l, limit(kind+1, false), began)
	}
	if n := len(g.keptOut(culprit.Enforce, began)); n != mostKeptOut {
		t.Errorf("%d kinds are kept out, expected %d", n, mostKeptOut)
	}
}

// While nothing can be seen, and once the guard is disarmed, a proxy is not told to keep out what was advised before for longer than was advised.
func TestKeepOutEnds(t *testing.T) {
	g, err := New(Config{URL: "postgres://h/d", Objective: time.Second, Mode: culprit.Enforce}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	advise := func(d time.Duration) {
		g.keepOut(&track.Look{}, &culprit.Decision{Action: culprit.Action{Kind: 7, Limit: culprit.Limit{Kind: 7, For: d}}}, time.Now())
		g.lost(errors.New("the server is gone"), time.Second)
	}
	advise(time.Hour)
	if kept := g.Status().KeptOut; len(kept) != 1 || !(kept[0].For < 3600) {
		t.Errorf("%+v, expected one kind for what is left of an hour", kept)
	}
	g.keeps[0].until = time.Now()
	if kept := g.Status().KeptOut; len(kept) != 0 {
		t.Errorf("%+v after its time", kept)
	}
	advise(time.Minute)
	g.Disarm()
	if s := g.Status(); len(s.KeptOut) != 0 || !strings.HasPrefix(s.Mode, "monitor (disarmed") {
		t.Errorf("a guard that was disarmed: mode %s, %+v", s.Mode, s.KeptOut)
	}
}

// keeps is a Source that keeps kinds out.
type keeps struct {
	Source
	kinds []uint64
	err   error
}

func (k *keeps) KeepOut(_ context.Context, kind uint64, d time.Duration) error {
	if k.kinds = append(k.kinds, kind); d != lease {
		return errors.New("another lease than expected")
	}
	return k.err
}

// A server that can is asked to keep out what is kept out, anew only when half of its lease is over.
func TestKeepOutThere(t *testing.T) {
	var log lines
	g := &Guard{mode: culprit.Enforce, log: slog.New(slog.NewTextHandler(&log, nil))}
	server := &keeps{}
	ask := func(want ...uint64) {
		t.Helper()
		server.kinds = nil
		if g.keepOutThere(t.Context(), server); !slices.Equal(server.kinds, want) {
			t.Errorf("the server was asked for %v, expected %v", server.kinds, want)
		}
	}
	ask()
	g.keeps = []keeping{{kind: 7, until: time.Now().Add(time.Minute)}, {kind: 8, until: time.Now().Add(-time.Second)}}
	ask(7)
	ask()
	g.leased(7, time.Now().Add(lease/2-time.Millisecond))
	server.err = errors.New("no right")
	ask(7)
	ask() // a failure is told once in a while
	if !strings.Contains(log.String(), "no right") {
		t.Error(log.String())
	}
	var deaf struct{ Source }
	g.keepOutThere(t.Context(), deaf)
}

func TestSchemes(t *testing.T) {
	for _, url := range []string{"apache://127.0.0.1:80/run/tasks", "php-fpm://127.0.0.1:9001/status?listen=127.0.0.1:9000"} {
		setup, err := Setup(url)
		if Check(url) != nil || err != nil || setup == "" || len((&Config{URL: url, Objective: time.Second}).Check()) > 0 {
			t.Errorf("%s: %v, %q, %v", url, Check(url), setup, err)
		}
	}
	if Check("apache://127.0.0.1") == nil || Check("nginx://127.0.0.1") == nil {
		t.Error("a URL without a task file, or of another server, is accepted")
	}
}
