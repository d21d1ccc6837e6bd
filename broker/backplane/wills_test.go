package backplane

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// keepWill stores a will, or takes it away where state is empty.
func (p *Plane) keepWill(t *testing.T, client, connection, state string) (before *Will) {
	t.Helper()
	var as []byte
	if state != "" {
		as = []byte(state)
	}
	before, err := p.KeepWill(t.Context(), client, connection, 0, as)
	if err != nil {
		t.Fatal(err)
	}
	return before
}

// The others are told of the wills of a node that has died, again and again until a will is dropped, and of those of a node that is there
// never. A client that is back is told of its own.
func TestWillsOfDeadNode(t *testing.T) {
	home := New(Config{Node: "n1", Data: t.TempDir(), Listen: "127.0.0.1:0"}, slog.New(slog.DiscardHandler))
	home.willsEvery, home.willSilence = 10*time.Millisecond, 50*time.Millisecond
	told := make(chan *Will, 100)
	home.OnWill(func(_ context.Context, w *Will) bool {
		if w.Client == "c" {
			told <- w
		}
		return true
	})
	open(t, home)
	elsewhere := func(name string) *Plane {
		return open(t, New(Config{Node: name, URL: home.ClientURL()}, slog.New(slog.DiscardHandler)))
	}
	dying, third := elsewhere("n2"), elsewhere("n3")
	home.keepWill(t, "here", "1", `1`)
	for _, client := range []string{"c", "polite", "back"} {
		dying.keepWill(t, client, "2", `{"of":"`+client+`"}`)
		await(t, "the others know", func() bool { return home.HasWill(client) && dying.HasWill(client) })
	}
	dying.ForgetWill("polite", "2")
	await(t, "the goodbye is known", func() bool { return !home.HasWill("polite") })
	if before := dying.keepWill(t, "here", "3", `3`); before != nil {
		t.Errorf("the will of a client of a node that is there is given to another one: %+v", before)
	}
	time.Sleep(3 * home.willSilence) // of a node that is there nothing is told, however long
	if len(told) > 0 {
		t.Fatalf("of a node that is there %+v is told", <-told)
	}
	dying.Close()
	w := <-told
	if string(w.State) != `{"of":"c"}` || w.Connection != "2" {
		t.Errorf("%+v is told", w)
	}
	home.UndueWill(w)
	w = <-told
	home.DropWill(w)
	await(t, "it is dropped", func() bool { return !home.HasWill("c") })
	before := third.keepWill(t, "back", "4", "")
	if before == nil || string(before.State) != `{"of":"back"}` {
		t.Errorf("a client that is back is told %+v", before)
	}
	await(t, "it is taken away", func() bool { return !home.HasWill("back") })
}

// Where others have published the will of a connection, since they could not hear its node, that node finds out.
func TestWillIsTaken(t *testing.T) {
	p := opened(t)
	p.keepWill(t, "c", "1", `1`)
	await(t, "it is known", func() bool { return p.HasWill("c") })
	if p.WillTaken("c", "1") {
		t.Error("nobody has taken it")
	}
	w, err := p.loadWill(t.Context(), willKeys+"c")
	if err != nil {
		t.Fatal(err)
	}
	if !p.TakeWill(t.Context(), w) {
		t.Error("it cannot be taken")
	}
	if p.TakeWill(t.Context(), w) {
		t.Error("it is taken twice")
	}
	await(t, "that is known", func() bool { return p.WillTaken("c", "1") })
	p.ForgetWill("c", "1")
	if p.WillTaken("c", "1") {
		t.Error("it is not forgotten")
	}
}

// What a process has stored and takes care of no more, as after an attempt that had no answer, is dropped.
func TestWillOfNobody(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.willsEvery = 10 * time.Millisecond
	open(t, p)
	p.keepWill(t, "c", "1", `1`)
	await(t, "it is known", func() bool { return p.HasWill("c") })
	p.wills.mu.Lock()
	delete(p.wills.here, willKeys+"c")
	p.wills.mu.Unlock()
	await(t, "it is dropped", func() bool { return !p.HasWill("c") })
}
