package backplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/spillgate/spillgate/broker/engine"
)

// opened returns a plane of one node.
func opened(t *testing.T) *Plane {
	t.Helper()
	return open(t, New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler)))
}

func open(t *testing.T, p *Plane) *Plane {
	t.Helper()
	hub := engine.New(engine.Config{})
	t.Cleanup(hub.Close)
	t.Cleanup(p.Close)
	if err := p.Open(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	return p
}

// A session is stored by the connection that loaded it last, and by no other.
func TestSessionHasOneWriter(t *testing.T) {
	p := opened(t)
	ctx := t.Context()
	save := func(s *Session) error { return p.SaveSession(ctx, "c", s) }
	load := func() *Session {
		t.Helper()
		s, err := p.LoadSession(ctx, "c")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := &Session{Writer: "a"}
	for i := range 2 { // the first of its kind, and over itself
		if err := save(a); err != nil {
			t.Fatal(i, err)
		}
	}
	b := load()
	b.Writer = "b"
	unanswered := *b
	if err := save(b); err != nil {
		t.Fatal("whoever loaded it: ", err)
	}
	if err := save(a); !errors.Is(err, ErrTaken) {
		t.Errorf("whoever had it before: %v, want %v", err, ErrTaken)
	}
	if err := save(&unanswered); err != nil || unanswered.Revision <= b.Revision {
		t.Errorf("once more, after no answer came: %v, revision %d after %d", err, unanswered.Revision, b.Revision)
	}
	if err := p.DeleteSession(ctx, "c", b.Revision); err == nil {
		t.Error("it was deleted by its old revision")
	}
	if err := p.DeleteSession(ctx, "c", unanswered.Revision); err != nil {
		t.Error("deleting it: ", err)
	}
	for range 2 {
		if err := save(&unanswered); !errors.Is(err, ErrTaken) || load() != nil {
			t.Errorf("after it was deleted: %v, want %v", err, ErrTaken)
		}
	}
	old := &Session{Writer: "c", Until: time.Now().Add(-time.Second)}
	if err := save(old); err != nil || load() != nil {
		t.Error("one that is expired: ", fmt.Sprint(err, load()))
	}
	if err := save(&Session{Writer: "d"}); err != nil {
		t.Error("in place of one that is expired: ", err)
	}
}

// A message that the log does not have is told apart from a log that cannot be asked.
func TestAt(t *testing.T) {
	p := opened(t)
	if _, found, err := p.At(t.Context(), 7); found || err != nil {
		t.Errorf("of an empty log: %v, %v", found, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := p.At(ctx, 7); err == nil {
		t.Error("without an answer: no error")
	}
}
