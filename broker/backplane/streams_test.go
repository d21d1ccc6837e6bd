package backplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/engine"
)

// opened returns a plane of one node.
func opened(t *testing.T) *Plane {
	t.Helper()
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	hub := engine.New(engine.Config{})
	t.Cleanup(hub.Close)
	t.Cleanup(p.Close)
	if err := p.Open(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	return p
}

// deaf is a JetStream that makes every other consumer without saying so, as where the node
// is dead that it is placed on. It takes no name twice.
type deaf struct {
	jetstream.JetStream
	mu    sync.Mutex
	names []string
}

func (d *deaf) CreateConsumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	c, err := d.JetStream.CreateConsumer(ctx, stream, cfg)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name := c.CachedInfo().Name
	if slices.Contains(d.names, name) {
		return nil, jetstream.ErrConsumerExists
	}
	if d.names = append(d.names, name); len(d.names)%2 == 1 {
		return nil, context.DeadlineExceeded
	}
	return c, nil
}

// What a stream has is handled once and in order, although consumers are lost.
func TestFollow(t *testing.T) {
	p := opened(t)
	s, err := p.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{JetStream: p.js}
	p.js = d
	var mu sync.Mutex
	var got []uint64
	count := func() int { mu.Lock(); defer mu.Unlock(); return len(got) }
	p.done.Go(func() {
		p.follow("T", 1, func(all []arrived) {
			mu.Lock()
			defer mu.Unlock()
			for i := range all {
				got = append(got, all[i].position)
			}
		})
	})
	const rounds, each = 4, 50
	for round := range rounds {
		for range each {
			if _, err := d.Publish(t.Context(), "t", nil); err != nil {
				t.Fatal(err)
			}
		}
		for end := time.Now().Add(time.Minute); count() < (round+1)*each-1; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("round %d: %d messages came", round, count())
			}
		}
		for name := range s.ConsumerNames(t.Context()).Name() {
			_ = s.DeleteConsumer(t.Context(), name) // some are deleted twice over
		}
	}
	for i, at := range got {
		if want := uint64(i + 2); at != want {
			t.Fatalf("message %d is at %d of the stream, want %d", i, at, want)
		}
	}
	if len(d.names) < 2*rounds-1 {
		t.Errorf("only %d consumers were made", len(d.names))
	}
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
