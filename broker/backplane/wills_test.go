package backplane

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
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

// Of a node that is heard again nothing is told, though it was silent long enough: one that was cut off itself gets to read the wills of the
// others when it is not any more.
func TestWillsOfNodeThatIsBack(t *testing.T) {
	home := New(Config{Node: "n1", Data: t.TempDir(), Listen: "127.0.0.1:0"}, slog.New(slog.DiscardHandler))
	told := make(chan *Will, 10)
	home.OnWill(func(_ context.Context, w *Will) bool { told <- w; return true })
	open(t, home)
	back := open(t, New(Config{Node: "n2", URL: home.ClientURL()}, slog.New(slog.DiscardHandler)))
	back.keepWill(t, "c", "1", `1`)
	await(t, "it is known", func() bool { return home.HasWill("c") })
	left := home.left(back.origin, 0)
	if len(left) != 1 {
		t.Fatalf("it has left %d wills", len(left))
	}
	home.bequeath(back.origin, left)
	if len(told) > 0 {
		t.Error("it is told")
	}
	back.Close()
	home.bequeath(back.origin, left)
	if len(told) == 0 {
		t.Error("it is not told when the node has gone")
	}
	if again := home.left(back.origin, 0); len(again) > 0 {
		t.Error("it would be told twice")
	}
}

// The wills of a node are told several at a time, each once.
func TestManyWills(t *testing.T) {
	p := opened(t)
	const n = willsInTurn + 10
	var mu sync.Mutex
	told, here, both := map[string]int{}, 0, make(chan struct{})
	p.OnWill(func(_ context.Context, w *Will) bool {
		mu.Lock()
		told[w.Client]++
		if here++; here == 2 {
			close(both)
		}
		mu.Unlock()
		select {
		case <-both:
		case <-time.After(time.Minute):
			t.Error("one is told after the other")
		}
		p.DropWill(w)
		return true
	})
	for i := range n {
		p.keepWill(t, fmt.Sprint("c", i), "1", `1`)
	}
	const gone = 7
	await(t, "they are known", func() bool { return len(p.left(p.origin, 0)) == n })
	p.bequeath(gone, p.left(p.origin, 0))
	mu.Lock()
	defer mu.Unlock()
	for client, times := range told {
		if times != 1 {
			t.Errorf("%s is told %d times", client, times)
		}
	}
	if len(told) != n {
		t.Errorf("%d of %d are told", len(told), n)
	}
}

// A node that knows no wills takes none for a session: it would keep the log for that, and purge it.
func TestWillIsNoSession(t *testing.T) {
	p := opened(t)
	p.keepWill(t, "c", "1", `1`)
	e, err := p.kv.Get(t.Context(), willKeys+"c")
	if err != nil {
		t.Fatal(err)
	}
	if json.Unmarshal(e.Value(), &Session{}) == nil {
		t.Errorf("%q can be read as a session", e.Value())
	}
}

// A will that cannot be stored in time is stored later, unless it is forgotten before.
func TestWillIsStoredLater(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.willsEvery = time.Millisecond
	open(t, p)
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, client := range []string{"forgotten", "kept"} {
		if _, err := p.KeepWill(late, client, "1", 0, json.RawMessage("{}")); err == nil {
			t.Fatal("a will is stored in no time")
		}
		if client == "forgotten" {
			p.ForgetWill(client, "1")
		}
	}
	await(t, "the will to be stored", func() bool { return p.HasWill("kept") })
	await(t, "the other to be dropped", func() bool { return !p.HasWill("forgotten") })
	if _, err := p.KeepWill(t.Context(), "kept", "2", 0, json.RawMessage("{}")); err != nil {
		t.Error(err)
	}
	for _, client := range []string{"forgotten", "kept"} {
		if w, err := p.loadWill(t.Context(), willKeys+keyOf(client)); err != nil || (w != nil) != (client == "kept") || w != nil && w.Connection != "2" {
			t.Errorf("%s: %+v, %v", client, w, err)
		}
	}
}

// Also one that could not be stored for another reason than that there was no time, once that reason is gone.
func TestWillIsStoredAfterAnError(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.willsEvery = time.Millisecond
	open(t, p)
	key := willKeys + keyOf("c")
	if _, err := p.kv.Put(t.Context(), key, []byte("of another version")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.KeepWill(t.Context(), "c", "1", 0, json.RawMessage("{}")); err == nil {
		t.Fatal("it takes the place of what cannot be read")
	}
	if err := p.kv.Purge(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	await(t, "the will to be stored", func() bool { return p.HasWill("c") })
}

// A will that is stored later takes the place of none of a later connection: its attempt was under way when the client came back.
func TestWillOfAnEarlierConnection(t *testing.T) {
	p := open(t, New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler)))
	p.keepWill(t, "c", "2", "2")
	await(t, "the will to be known", func() bool { return p.HasWill("c") })
	w := &Will{Client: "c", Process: p.origin, Connection: "1", State: json.RawMessage("1")}
	data, err := w.stored()
	if err != nil {
		t.Fatal(err)
	}
	key := willKeys + keyOf("c")
	if _, err := p.storeWill(t.Context(), key, w, data, true); err == nil {
		t.Error("it is stored")
	}
	if w, err := p.loadWill(t.Context(), key); err != nil || w == nil || w.Connection != "2" {
		t.Errorf("the later one is %+v, %v", w, err)
	}
}
