package backplane

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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
	age := func(key string) (floor uint64) {
		t.Helper()
		p.told.mu.Lock()
		n, revision := p.told.all[key], p.told.revision
		n.at = n.at.Add(-deadAfter - time.Minute)
		p.told.all[key] = n
		p.told.mu.Unlock()
		floor, groups := p.needed(ctx, revision, time.Now())
		if groups["SHARED_x"] {
			t.Error("a node that has told nothing for a minute has shared subscriptions")
		}
		return floor
	}
	needed()
	if err := p.SaveSession(ctx, "c", &Session{Floor: 7, Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	await(t, "the session is known", func() bool { return p.Known("c") })
	p.position.Store(9)
	if needed(); age("other") != 7 {
		t.Error("the log is kept for a node that has told nothing for a minute")
	}
	if age(token(p.cfg.Node)) != 0 {
		t.Error("the log is cut by what nodes told, although what this one tells now is not heard")
	}
	put("0 SHARED_x SHARED_y")
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

// Who becomes a member of a shared subscription, and goes, while nobody looks because the log is empty, leaves it as long as anybody does.
func TestGroupHadMembers(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.trimEvery = time.Hour // it would do what this test does
	open(t, p)
	ctx := t.Context()
	g, err := p.OpenGroup(ctx, "g", "a")
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	name := g.cfg.Durable
	tell := func(what string) {
		t.Helper()
		revision, err := p.nodes.Put(ctx, "other", []byte(what))
		if err != nil {
			t.Fatal(err)
		}
		if p.toldBy(ctx, revision) == nil {
			t.Fatal("it is not heard")
		}
	}
	ends := func() bool {
		t.Helper()
		if _, err := p.undrawn(ctx, 0, map[string]bool{}); err != nil {
			t.Fatal(err)
		}
		_, err := p.stream.Consumer(ctx, name)
		return errors.Is(err, jetstream.ErrConsumerNotFound)
	}
	long := func() {
		p.groups.mu.Lock()
		defer p.groups.mu.Unlock()
		p.groups.left = map[string]time.Time{name: time.Now().Add(-2 * idleTime)}
	}
	long()
	tell("0 " + name)
	tell("0")
	if ends() {
		t.Error("it ends with its last member")
	}
	if long(); !ends() {
		t.Error("it goes on without members")
	}
}
