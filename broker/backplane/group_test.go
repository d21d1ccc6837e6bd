package backplane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// The log is kept for what a shared subscription has not done with, and the subscription for as long as it has members, at this node or by a
// session, and somewhat longer.
func TestGroupEnds(t *testing.T) {
	p := New(Config{Node: "n1", Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	p.trimEvery = time.Hour // it would do what this test does
	open(t, p)
	ctx := t.Context()
	g, err := p.OpenGroup(ctx, "g", "a/#")
	if err != nil {
		t.Fatal(err)
	}
	name := GroupOf("g", "a/#")
	if e, err := p.nodes.Get(ctx, token(p.cfg.Node)); err != nil || !strings.Contains(string(e.Value()), name) {
		t.Errorf("other nodes are not told of it: %v", err)
	}
	topic, err := p.hub.Topic([]byte("a/b"))
	if err != nil {
		t.Fatal(err)
	}
	var at uint64
	for _, what := range []string{"other", "a/b", "other"} {
		m := &engine.Message{Topic: topic, Payload: []byte("x"), QoS: 1, Expires: mono.Never}
		pk := packetOf(m, live.Now(), p.name(m))
		msg := nats.NewMsg(subjectOf(logSubjects, what))
		msg.Data = pk.append(nil)
		ack, err := p.js.PublishMsg(ctx, msg)
		if err != nil {
			t.Fatal(err)
		}
		at = ack.Sequence
	}
	undrawn := func(members map[string]bool) uint64 {
		t.Helper()
		position, err := p.undrawn(ctx, at, members)
		if err != nil {
			t.Fatal(err)
		}
		return position
	}
	with := map[string]bool{name: true}
	await(t, "the message to be kept", func() bool { return undrawn(with) == 0 }) // that of another topic need not be, which NATS does not tell
	var drawn []*Drawn
	await(t, "the message to be drawn", func() bool {
		if err := g.draw(ctx, 1, func(_ context.Context, m *engine.Message, d *Drawn) {
			if m.Topic.Name() != "a/b" || m.Position != 2 {
				t.Errorf("drew %s at %d", m.Topic.Name(), m.Position)
			}
			drawn = append(drawn, d)
		}); err != nil {
			t.Log(err)
		}
		return len(drawn) == 1
	})
	if n := undrawn(with); n >= 2 {
		t.Errorf("what is drawn is kept after %d", n)
	}
	drawn[0].Done()
	await(t, "it to be done with", func() bool { return undrawn(with) == at })

	none := map[string]bool{}
	is := func(what string, there bool, members map[string]bool) {
		t.Helper()
		if n, err := p.undrawn(ctx, 0, members); n != 0 || err != nil { // as where a session needs all of the log
			t.Errorf("of a log that is needed, what is before %d is not: %v", n, err)
		}
		if _, err := p.stream.Consumer(ctx, name); errors.Is(err, jetstream.ErrConsumerNotFound) == there {
			t.Errorf("%s: %v", what, err)
		}
	}
	long := func() { // pass
		p.groups.mu.Lock()
		defer p.groups.mu.Unlock()
		for n := range p.groups.left {
			p.groups.left[n] = p.groups.left[n].Add(-2 * idleTime)
		}
	}
	is("it has members", true, with)
	g.Close()
	is("it has none for a moment", true, none)
	again, err := p.OpenGroup(ctx, "g", "a/#")
	if err != nil {
		t.Fatal(err)
	}
	if revision, err := p.tell(ctx); err != nil || p.toldBy(ctx, revision) == nil { // or what OpenGroup told is heard later
		t.Fatal(err)
	}
	p.groups.mu.Lock()
	p.groups.left[name] = time.Now()
	p.groups.mu.Unlock()
	long()
	is("it has one here, which nobody has told yet", true, none)
	again.Close()
	is("it has one elsewhere", true, with)
	long()
	is("it has none again, for a moment", true, none)
	long()
	is("it may have members, for all that is known", true, nil)
	is("it has had none for long", false, none)

	p.groups.n = maxGroups
	if _, err := p.OpenGroup(ctx, "h", "a"); !errors.Is(err, ErrGroups) || len(p.groups.here) != 0 {
		t.Errorf("one more than there may be: %v", err)
	}
}

// What waits behind a message that no member takes is drawn again, and not for long held here and elsewhere.
func TestDrawnInVain(t *testing.T) {
	p := opened(t)
	ctx := t.Context()
	g, err := p.OpenGroup(ctx, "g", "a")
	if err != nil {
		t.Fatal(err)
	}
	topic, err := p.hub.Topic([]byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	const n = 3
	for range n {
		m := &engine.Message{Topic: topic, Payload: []byte("x"), QoS: 1, Expires: mono.Never}
		pk := packetOf(m, live.Now(), p.name(m))
		msg := nats.NewMsg(subjectOf(logSubjects, "a"))
		msg.Data = pk.append(nil)
		if _, err := p.js.PublishMsg(ctx, msg); err != nil {
			t.Fatal(err)
		}
	}
	var drawn []uint64
	await(t, "a message to be drawn", func() bool {
		_ = g.draw(ctx, n, func(ctx context.Context, m *engine.Message, d *Drawn) {
			drawn = append(drawn, m.Position)
			<-ctx.Done()
			d.Back()
		})
		return len(drawn) > 0
	})
	if len(drawn) != 1 {
		t.Errorf("%v are drawn although the first is not taken", drawn)
	}
	drawn = nil
	await(t, "all to be drawn", func() bool {
		_ = g.draw(ctx, n, func(_ context.Context, m *engine.Message, d *Drawn) {
			drawn = append(drawn, m.Position)
			d.Done()
		})
		return len(drawn) >= n
	})
	if slices.Sort(drawn); !slices.Equal(drawn, []uint64{1, 2, 3}) {
		t.Errorf("%v are drawn", drawn)
	}
}
