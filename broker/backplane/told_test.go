package backplane

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// What nodes have told counts once it is heard, and the log is not cut while one of them tells what cannot be read.
func TestHearsWhatNodesTell(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.trimEvery = time.Hour // it would do what this test does
	open(t, p)
	ctx := t.Context()
	needed := func() map[string]bool {
		t.Helper()
		revision, err := p.tell(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, groups := p.needed(ctx, revision, time.Now())
		return groups
	}
	put := func(what string) {
		t.Helper()
		if _, err := p.nodes.Put(ctx, "other", []byte(what)); err != nil {
			t.Fatal(err)
		}
	}
	if needed() == nil {
		t.Error("what is needed is not known, although all nodes have told")
	}
	for _, unreadable := range []string{"", "far 1"} {
		if put(unreadable); needed() != nil {
			t.Errorf("what is needed is known, although a node told %q", unreadable)
		}
	}
	if put("0 SHARED_x SHARED_y"); !needed()["SHARED_x"] || !needed()["SHARED_y"] {
		t.Error("the other node's shared subscriptions are not known")
	}
	if _, groups := p.needed(ctx, p.told.revision, time.Now().Add(deadAfter+time.Minute)); groups["SHARED_x"] {
		t.Error("the log is kept for a node that has told nothing for a minute")
	}
	if err := p.nodes.Delete(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	if needed()["SHARED_x"] {
		t.Error("a node that was removed still has shared subscriptions")
	}
	soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if p.toldBy(soon, p.told.revision+1) != nil {
		t.Error("it is known what no node has told")
	}
}
