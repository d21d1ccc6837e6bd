package backplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
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

// kept returns the retained message that this node has of a topic, empty without one.
func (p *Plane) kept(t *testing.T, topic string) (payload string) {
	t.Helper()
	b := p.hub.NewBatch()
	b.Begin(live.Now())
	p.hub.Retained(b, topic, func(m *engine.Message) { payload = string(m.Payload) })
	return payload
}

// of returns a message of a topic.
func (p *Plane) of(t *testing.T, topic, payload string) *engine.Message {
	t.Helper()
	at, err := p.hub.Topic([]byte(topic))
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Message{Topic: at, Payload: []byte(payload), Expires: mono.Never, Retain: true}
}

// A retained message that is sent to its stream once more, because no answer came, does not replace a later one.
func TestRetainedOnce(t *testing.T) {
	p := opened(t)
	topic, err := p.hub.Topic([]byte("t"))
	if err != nil {
		t.Fatal(err)
	}
	message := func(payload string) *engine.Message {
		return &engine.Message{Topic: topic, Payload: []byte(payload), Expires: mono.Never, QoS: 1, Retain: true}
	}
	first := message("first")
	e := entry{first.Keep(), 0, p.name(first)}
	u := p.send(e)
	if _, err := p.await(u.retained); err != nil {
		t.Fatal(err)
	}
	if !p.Append(message("second"), 0) {
		t.Fatal("it is not taken")
	}
	await(t, "the second is retained", func() bool { return p.kept(t, "t") == "second" })
	if err := p.again(&u); err != nil {
		t.Fatal(err)
	}
	if !p.Append(&engine.Message{Topic: topic, Payload: []byte("other"), Expires: mono.Never, QoS: 1}, 0) {
		t.Fatal("it is not taken")
	}
	await(t, "the log has all", func() bool { return p.Position() == 3 })
	if got := p.retainedAs(t, "t"); got != "second" {
		t.Errorf("the stream has %q as the last one", got)
	}
}

// Both streams know a number for longer than a message is sent to them again.
func TestKnownForLong(t *testing.T) {
	p := open(t, New(Config{Node: "n1", Data: t.TempDir(), Patience: time.Hour}, slog.New(slog.DiscardHandler)))
	for _, name := range []string{logStream, retainedStream} {
		s, err := p.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.CachedInfo().Config.Duplicates; got != 2*time.Hour {
			t.Errorf("%s knows a number for %v", name, got)
		}
	}
}

// The stream of retained messages is bounded: one for which it has no room is stored, delivered and not retained. What was deleted is
// forgotten in time, and so are sessions.
func TestRetainedBound(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.Bound(4 << 10)
	open(t, p)
	payload := make([]byte, 1<<10)
	const n = 64
	for i := range n {
		topic, err := p.hub.Topic(fmt.Append(nil, "t/", i))
		if err != nil {
			t.Fatal(err)
		}
		if !p.Append(&engine.Message{Topic: topic, Payload: payload, Expires: mono.Never, QoS: 1, Retain: true}, 0) {
			t.Fatal("it is not taken")
		}
	}
	await(t, "all are in the log", func() bool { return p.Position() == n })
	state := func(stream string) jetstream.StreamState {
		t.Helper()
		s, err := p.js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State
	}
	if s := state(retainedStream); s.Bytes > 16<<10 || s.Msgs < 4 {
		t.Errorf("%d messages of %d bytes are retained, of %d", s.Msgs, s.Bytes, n)
	}
	topic, err := p.hub.Topic([]byte("t/0"))
	if err != nil {
		t.Fatal(err)
	}
	if !p.Append(&engine.Message{Topic: topic, Expires: mono.Never, QoS: 1, Retain: true}, 0) {
		t.Fatal("it is not taken")
	}
	await(t, "it is deleted", func() bool { return p.Position() == n+1 && p.kept(t, "t/0") == "" })
	ttl := func(stream, subject string) string {
		t.Helper()
		s, err := p.js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := s.GetLastMsgForSubject(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		return raw.Header.Get(jetstream.MsgTTLHeader)
	}
	if got := ttl(retainedStream, subjectOf(retainedSubjects, "t/0")); got != goneFor.String() {
		t.Errorf("that it is deleted is kept for %q", got)
	}
	s := &Session{Writer: "a"}
	if err := p.SaveSession(t.Context(), "c", s); err != nil {
		t.Fatal(err)
	}
	if err := p.DeleteSession(t.Context(), "c", s.Revision); err != nil {
		t.Fatal(err)
	}
	if got := ttl(sessionStream, bucketSubjects+sessionBucket+".c"); got != goneFor.String() {
		t.Errorf("that a session is deleted is kept for %q", got)
	}
}

// retainedAs returns what the stream of retained messages has of a topic.
func (p *Plane) retainedAs(t *testing.T, topic string) string {
	t.Helper()
	s, err := p.js.Stream(t.Context(), retainedStream)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.GetLastMsgForSubject(t.Context(), subjectOf(retainedSubjects, topic))
	if err != nil {
		t.Fatal(err)
	}
	pk, err := decode(raw.Data)
	if err != nil {
		t.Fatal(err)
	}
	return string(pk.payload)
}

// A node finds out whether a client is connected to any, and disconnects nobody by that.
func TestConnected(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.OnKick(func(string, string) bool { t.Error("it is disconnected"); return true })
	open(t, p)
	ctx := t.Context()
	if p.Connected(ctx, "c") {
		t.Error("it is connected to no node")
	}
	if err := p.Claim(ctx, "c", ""); err != nil {
		t.Fatal(err)
	}
	if !p.Connected(ctx, "c") {
		t.Error("it is connected here")
	}
	p.sessions.mu.Lock()
	p.sessions.subs = nil // as if that were another node
	p.sessions.mu.Unlock()
	other, err := p.Dial(nats.NoEcho())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	p.nc, other = other, p.nc
	if !p.Connected(ctx, "c") {
		t.Error("it is connected to another node")
	}
	p.nc, other = other, p.nc
}

// What a node has no room for is counted, also after nobody wants it any more.
func TestLost(t *testing.T) {
	p := opened(t)
	p.Wanted(engine.Interest{Filter: "a"})
	await(t, "it is subscribed to", func() bool { p.interested(); return !p.interest.open.Load() })
	full, err := p.nc.ChanSubscribe(subjectOf(liveSubjects, "a"), make(chan *nats.Msg, 1)) // which nobody empties
	if err != nil {
		t.Fatal(err)
	}
	p.interest.applying.Lock()
	p.interest.subs[engine.Interest{Filter: "a"}] = append(p.interest.subs[engine.Interest{Filter: "a"}], full)
	p.interest.applying.Unlock()
	if err := p.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	other, err := p.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 4 {
		if err := other.Publish(subjectOf(liveSubjects, "a"), nil); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "three are counted", func() bool { return p.Stats().Lost == 3 })
	p.Unwanted(engine.Interest{Filter: "a"})
	await(t, "it is not any more", func() bool { p.interested(); return !p.interest.open.Load() })
	if n := p.Stats().Lost; n != 3 {
		t.Errorf("%d are counted afterwards", n)
	}
}

// One retained message of QoS 0 that the stream does not take makes this node deaf to others of the topic no longer than that.
func TestRetainedNotTaken(t *testing.T) {
	p := opened(t)
	m := packet{retain: true, number: number{p.origin, 1}, topic: []byte("t"), payload: []byte("lost")}
	p.retained.sent("t")
	p.notRetained(nil, &nats.Msg{Data: m.append(nil)}, nats.ErrTimeout)
	other := packet{retain: true, number: number{p.origin + 1, 1}, topic: []byte("t"), payload: []byte("other's")}
	p.storeRetained(p.of(t, "t", "other's"), other.append(nil))
	await(t, "the other node's is here", func() bool { return p.kept(t, "t") == "other's" })
}

// While the stream of retained messages does not answer, those of QoS 0 hold up no other message.
func TestRetainedUnanswered(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.mostAside = 1
	open(t, p)
	ctx := t.Context()
	if err := p.js.DeleteStream(ctx, retainedStream); err != nil {
		t.Fatal(err)
	}
	got := make(chan *nats.Msg, 1000)
	other, err := p.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, subject := range []string{liveSubjects + "n.last", retainedSubjects + ">"} { // or NATS says that there is no stream
		to := got
		if subject == retainedSubjects+">" {
			to = make(chan *nats.Msg, 1000)
		}
		if _, err := other.ChanSubscribe(subject, to); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Flush(); err != nil {
		t.Fatal(err)
	}
	const n = 300 // each would take 200 ms
	for i := range n {
		p.Forward(nil, p.of(t, fmt.Sprint("r/", i), "x"))
	}
	p.Forward(nil, p.of(t, "last", "x"))
	select {
	case <-got:
	case <-time.After(n / 2 * 200 * time.Millisecond):
		t.Error("a message waits until the stream has not answered for all before it")
	}
	if lost := p.Stats().Lost; lost < n-10 {
		t.Errorf("%d messages are counted as not retained", lost)
	}
}

// More retained messages of QoS 0 than may be under way, at once, are all retained where the stream answers.
func TestRetainedAtOnce(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.mostAside = 64
	open(t, p)
	const n = 3000
	for i := range n {
		p.Forward(nil, p.of(t, fmt.Sprint("r/", i), "x"))
	}
	await(t, "all are stored", func() bool {
		s, err := p.js.Stream(t.Context(), retainedStream)
		return p.Stats().Lost > 0 || err == nil && s.CachedInfo().State.Msgs == n
	})
	if lost := p.Stats().Lost; lost > 0 {
		t.Errorf("%d messages are not retained", lost)
	}
}

// A retained message of QoS 0 for which the stream has no room is not retained at its own node either: the one before stays,
// and where there was none, none is.
func TestRetainedWithoutRoom(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.Bound(4 << 10)
	open(t, p)
	publish := func(name, payload string) {
		t.Helper()
		topic, err := p.hub.Topic([]byte(name))
		if err != nil {
			t.Fatal(err)
		}
		m := &engine.Message{Topic: topic, Payload: []byte(payload), Expires: mono.Never, Retain: true}
		p.hub.Retain(m) // as the engine does
		p.Forward(nil, m)
	}
	idle := func(topic string) bool {
		p.retained.mu.Lock()
		defer p.retained.mu.Unlock()
		return p.retained.own[topic] == 0
	}
	publish("t", "before")
	await(t, "the stream has it", func() bool { return idle("t") })
	long := strings.Repeat("x", 3<<10)
	for i := range 10 {
		publish(fmt.Sprint("other/", i), long)
	}
	publish("t", long)
	publish("new", long)
	await(t, "the one before is here again", func() bool { return p.kept(t, "t") == "before" })
	await(t, "there is none", func() bool { return idle("new") && p.kept(t, "new") == "" })
	if n := p.Stats().Lost; n < 3 {
		t.Errorf("%d are counted as lost", n)
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

// A node starts, and cuts its log, although the last of what it reads as it starts is forgotten: that something was deleted.
func TestStartsAfterForgotten(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := func() (*Plane, func()) {
		t.Helper()
		p, hub := New(Config{Node: "n1", Data: dir}, slog.New(slog.DiscardHandler)), engine.New(engine.Config{})
		end := func() { p.Close(); hub.Close() }
		if err := p.Open(ctx, hub); err != nil {
			end()
			t.Fatal(err)
		}
		return p, end
	}
	forgotten := func(p *Plane, stream string) func() bool {
		return func() bool {
			s, err := p.js.Stream(ctx, stream)
			return err == nil && s.CachedInfo().State.Msgs == 1
		}
	}
	p, end := begin()
	m := packet{retain: true, number: number{1, 1}, topic: []byte("kept"), payload: []byte("x")}
	p.storeRetained(p.of(t, "kept", "x"), m.append(nil))
	await(t, "it is retained", func() bool { return p.kept(t, "kept") == "x" })
	m = packet{retain: true, number: number{1, 2}, topic: []byte("gone")}
	gone := retainedMsg(p.of(t, "gone", ""), m.append(nil))
	gone.Header.Set(jetstream.MsgTTLHeader, "1s")
	if _, err := p.js.PublishMsg(ctx, gone); err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"kept", "gone"} {
		s := &Session{Writer: "a"}
		if err := p.SaveSession(ctx, client, s); err != nil {
			t.Fatal(err)
		}
		if client == "gone" {
			if err := p.kv.Purge(ctx, keyOf(client), jetstream.LastRevision(s.Revision), jetstream.PurgeTTL(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
	}
	await(t, "what was deleted is forgotten", forgotten(p, retainedStream))
	await(t, "the session is forgotten", forgotten(p, sessionStream))
	end()
	p, end = begin()
	defer end()
	if got := p.kept(t, "kept"); got != "x" || !p.Known("kept") {
		t.Errorf("%q is retained; the session is known: %v", got, p.Known("kept"))
	}
	if !p.knowsAll(ctx) {
		t.Error("it waits for a session of which it has heard")
	}
}

// A message is found by its number, and a search that came to nothing says how far it came.
func TestHas(t *testing.T) {
	p := opened(t)
	ctx := t.Context()
	for _, name := range []string{"t", "u", "t", "u"} {
		topic, err := p.hub.Topic([]byte(name))
		if err != nil {
			t.Fatal(err)
		}
		if !p.Append(&engine.Message{Topic: topic, Payload: []byte("x"), Expires: mono.Never, QoS: 2}, 0) {
			t.Fatal("it is not taken")
		}
	}
	await(t, "the log has all", func() bool { return p.Position() == 4 })
	for _, tt := range []struct {
		topic         string
		after, number uint64
		found         bool
		searched      uint64
	}{{"t", 0, 3, true, 0}, {"t", 0, 2, false, 3}, {"t", 1, 1, false, 3}, {"u", 4, 1, false, 4}, {"none", 2, 1, false, 2}} {
		found, searched, err := p.Has(ctx, tt.topic, tt.after, p.origin, tt.number)
		if err != nil || found != tt.found || !found && searched != tt.searched {
			t.Errorf("%+v: %v, up to %d, %v", tt, found, searched, err)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if found, searched, err := p.Has(over, "t", 1, p.origin, 3); err == nil || found || searched != 1 {
		t.Errorf("without an answer: %v, up to %d, %v", found, searched, err)
	}
}

// A retained message that expires leaves the stream, whatever its QoS.
func TestRetainedLeavesTheStream(t *testing.T) {
	p := opened(t)
	for qos := range byte(2) {
		m := p.of(t, fmt.Sprint("t/", qos), "x")
		m.QoS, m.Expires = qos, live.Now().Add(300*time.Millisecond)
		if qos == 0 {
			p.hub.Retain(m) // as the engine does
			p.Forward(nil, m)
		} else if !p.Append(m, 0) {
			t.Fatal("it is not taken")
		}
	}
	await(t, "the stream has had two, and none is left", func() bool {
		info, err := p.retainedLog.Info(t.Context())
		return err == nil && info.State.LastSeq == 2 && info.State.Msgs == 0
	})
}

// However often sessions are stored, a node knows soon that it has heard of all: else the log would never be cut.
func TestKnowsBusySessions(t *testing.T) {
	p := opened(t)
	s := &Session{Writer: "a"}
	const n = 100
	knows := 0
	for range n {
		if err := p.SaveSession(t.Context(), "c", s); err != nil {
			t.Fatal(err)
		}
		if p.knowsAll(t.Context()) {
			knows++
		}
	}
	if knows < n*9/10 { // a busy machine may take longer than knowTime now and then
		t.Errorf("after %d of %d changes it waits for one", n-knows, n)
	}
}

// A session whose client has left, which could not be stored, expires as others do, and so long the log is kept for it.
func TestSessionAdrift(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.trimEvery = time.Hour // it would do what this test does
	open(t, p)
	ctx := t.Context()
	if err := p.Claim(ctx, "here", ""); err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"here", "left"} {
		if err := p.SaveSession(ctx, client, &Session{Writer: "a", Expiry: time.Hour}); err != nil {
			t.Fatal(err)
		}
		await(t, "it is known", func() bool { return p.Known(client) })
	}
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		ahead bool // by this node's clock alone
		left  bool
	}{{0, false, true}, {time.Hour, false, true}, {time.Hour + 2*deadAfter, true, true}, {time.Hour + 2*deadAfter, false, false}} {
		if !step.ahead {
			p.told.mu.Lock()
			n := p.told.all[token(p.cfg.Node)]
			n.at = now.Add(step.after)
			p.told.all[token(p.cfg.Node)] = n
			p.told.mu.Unlock()
		}
		p.needed(ctx, 0, now.Add(step.after))
		for client, want := range map[string]bool{"here": true, "left": step.left} {
			if s, err := p.LoadSession(ctx, client); err != nil || (s != nil) != want {
				t.Errorf("after %v the session of the client that is %s: %v, %v", step.after, client, s, err)
			}
		}
	}
}

// Whoever reads on from an early position is given what it subscribes to, and not all that the log has had since.
func TestReadsWhatIsWanted(t *testing.T) {
	p := opened(t)
	const n = 3 * wholeRead
	for i := range n {
		topic := "other/topic"
		if i%wholeRead == 7 {
			topic = "a/b"
		}
		m := p.of(t, topic, "x")
		m.QoS, m.Retain = 1, false
		if !p.Append(m, 0) {
			t.Fatal("it is not taken")
		}
	}
	await(t, "all are stored", func() bool { return p.Position() >= n })
	for _, tt := range []struct {
		filters []string
		want    int
	}{{[]string{"a/+"}, 3}, {nil, 0}, {[]string{"a/b", "#"}, n}} {
		got, before := 0, p.Position()
		at, err := p.Read(t.Context(), 0, tt.filters, func(*engine.Message) bool { got++; return true })
		if err != nil || got != tt.want || at < before {
			t.Errorf("of %q: %d messages up to %d, %v, want %d up to %d at least", tt.filters, got, at, err, tt.want, before)
		}
	}
}
