package share

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/placement"
)

// mute is a bucket of keys that is read once, and then answers no question any more.
type mute struct {
	jetstream.KeyValue
	reads int
}

func (m *mute) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	if m.reads++; m.reads == 1 {
		return m.KeyValue.Get(ctx, key)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A node takes the lead from one that has not renewed it, also if nobody answers who has it.
func TestLeadsUnanswered(t *testing.T) {
	b := start(t, 1)
	nc, err := nats.Connect(b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	n := NewNode(Config{Node: name(0), Window: window}, &fakeHub{mu: &b.mu, shares: map[string]engine.Share{}}, nc, b.placer, slog.New(slog.DiscardHandler))
	l := &n.leader
	if err := l.open(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if _, err := l.kv.Put(t.Context(), leaderKey, []byte("gone")); err != nil {
		t.Fatal(err)
	}
	l.kv = &mute{KeyValue: l.kv}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.campaign(ctx) }()
	defer func() { cancel(); <-done }()
	for end := time.Now().Add(time.Minute); l.leading(live.Now()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody leads after a minute")
		}
	}
	if was := l.former(); was != "gone" {
		t.Errorf("it leads after %q", was)
	}
}

// shut is a bucket of keys that answers nobody while it is shut.
type shut struct {
	jetstream.KeyValue
	now atomic.Bool
}

func (s *shut) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if s.now.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return s.KeyValue.Update(ctx, key, value, revision)
}

// A node that could not renew its lead, since nobody answered, goes on with its term and what it has heard, unless another one has taken the lead.
func TestLeadsOn(t *testing.T) {
	b := start(t, 1)
	nc, err := nats.Connect(b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	n := NewNode(Config{Node: name(0), Window: window}, &fakeHub{mu: &b.mu, shares: map[string]engine.Share{}}, nc, b.placer, slog.New(slog.DiscardHandler))
	l := &n.leader
	if err := l.open(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	kv := &shut{KeyValue: l.kv}
	l.kv = kv
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.campaign(ctx) }()
	defer func() { cancel(); <-done }()
	leads := func(yes bool) (term uint64) {
		t.Helper()
		for end := time.Now().Add(time.Minute); (l.leading(live.Now()) > 0) != yes; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("after a minute it does not lead: %v", yes)
			}
		}
		return l.leading(live.Now())
	}
	term := leads(true)
	l.step(live.Now())
	l.reports["n9"] = report{Node: "n9", Term: term}
	kv.now.Store(true)
	leads(false)
	l.step(live.Now())
	kv.now.Store(false)
	again := leads(true)
	if l.step(live.Now()); again != term || l.leads != term || l.reports["n9"].Node == "" {
		t.Errorf("after term %d it leads in %d, and knows %v", term, again, l.reports)
	}
	kv.now.Store(true)
	leads(false)
	if _, err := kv.Put(t.Context(), leaderKey, []byte("other")); err != nil {
		t.Fatal(err)
	}
	kv.now.Store(false)
	if again = leads(true); again == term {
		t.Error("it goes on with a term after which another node has led")
	}
}

// After a time in which a leader was not answered, it may have heard nobody either: no node counts as down before it has had time to say something.
func TestNobodyIsDownAfterALapse(t *testing.T) {
	b := start(t, 2)
	nc, err := nats.Connect(b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	n := NewNode(Config{Node: name(0), Window: window}, &fakeHub{mu: &b.mu, shares: map[string]engine.Share{}}, nc, b.placer, slog.New(slog.DiscardHandler))
	l := &n.leader
	if err := l.open(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if n.state, _, err = b.placer.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	const term = 7
	at := live.Now()
	step := func(leads bool) (changes int) {
		if at = at.Add(l.stepTime()); leads {
			l.goOn(at)
		}
		l.step(at)
		return len(l.changes)
	}
	l.begin(term, at, "")
	step(true)
	for i := range 2 {
		l.reported(at, fmt.Appendf(nil, `{"node":%q,"term":%d}`, name(i), term))
	}
	for range 3 * steps {
		step(false)
	}
	for i := range silentSteps + 1 {
		if changes := step(true); changes > 0 {
			t.Fatalf("%d steps after the lapse %d nodes count as down", i, changes)
		}
	}
	if changes := step(true); changes != 2 {
		t.Errorf("of two silent nodes %d count as down", changes)
	}
}

// What a node had that was removed, and is silent, belongs to the others in the end, its floor included; that of one which is heard does not.
func TestRemovedNode(t *testing.T) {
	whole := placement.Bucket{Rate: 1000, Burst: 100}
	l := leads(10 * time.Second)
	state := &place.State{Nodes: map[string]place.Node{"n1": {}}}
	granted := func(now mono.Time) float64 {
		l.forget(now, state)
		l.divide(now, "t", whole, map[string]float64{"n1": 1}, true)
		s := l.topics["t"]
		if i := slices.Index(s.members, "n2"); i >= 0 && now > mono.Time(30*time.Second) {
			s.adaptor.Fell(i)
		}
		s.adaptor.Step(now)
		return s.adaptor.Grant(slices.Index(s.members, "n1")).Rate
	}
	l.tells(t, 1, "n2", obeyed{Topic: "t", Rate: 890, Burst: 89, Version: 4, Left: 19 * time.Second})
	rate, now := 0.0, mono.Time(0)
	for second := range 60 {
		now = mono.Time(second+1) * mono.Time(time.Second)
		l.tells(t, now, "n1", obeyed{Topic: "t", Rate: max(rate, 100), Burst: 10, Version: 3, Left: 19 * time.Second, Messages: 100, Span: time.Second})
		rate = granted(now)
		if second < 20 && rate > 110 {
			t.Fatalf("after %d s, while the other one may obey its grant, it has %.0f/s", second, rate)
		}
	}
	if rate < 990 {
		t.Errorf("it has %.1f/s in the end, want all but the reserve", rate)
	}
	l.tells(t, now, "n3", obeyed{Topic: "t", Rate: 50, Burst: 5, Version: 9, Left: time.Second})
	l.forget(now.Add(20*time.Second), state)
	if _, ok := l.reports["n3"]; !ok {
		t.Error("one that was heard a moment ago is forgotten")
	}
}

// A topic that no publisher has a place for has its limit all the same: one node has the bucket, and another one as soon as that has the first
// publisher.
func TestKeeper(t *testing.T) {
	b := start(t, 2)
	whole := engine.Share{Rate: 1000, Burst: 100}
	b.update(func(s *place.State) error {
		return s.SetTopic("t", place.Limits{Rate: whole.Rate, Burst: whole.Burst, Objective: 1, Each: 1})
	})
	s, _, err := b.placer.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.run(0)
	b.run(1)
	keeper := 0
	if s.Keeper("t") == name(1) {
		keeper = 1
	}
	b.await("its keeper has the bucket", whole, func() bool { return b.hubs[keeper].share("t").Rate > 0.9*whole.Rate })
	b.mu.Lock()
	other, sends := b.hubs[1-keeper].shares["t"]
	b.mu.Unlock()
	if !sends || other.Rate != 0 {
		t.Errorf("the other one has %+v, %v, want to send all to the keeper", other, sends)
	}
	b.update(func(s *place.State) error {
		s.Topics["t"].Publishers["p"] = place.Publisher{Rate: 1, Node: name(1 - keeper)}
		return nil
	})
	b.await("the first publisher's node has it", whole, func() bool { return b.hubs[1-keeper].share("t").Rate > 0.9*whole.Rate })
}

// A node whose last publisher leaves while nothing waits gives its part up at once, and the leader is told of that before the next step.
func TestGivesUpAtOnce(t *testing.T) {
	hub := &fakeHub{mu: &sync.Mutex{}, shares: map[string]engine.Share{}}
	n := NewNode(Config{Node: "n1", Holders: func(string, []string) {}, Move: func(string, string) bool { return false }}, hub, nil, nil, slog.New(slog.DiscardHandler))
	at := func(node string) *place.State {
		return &place.State{Nodes: map[string]place.Node{"n1": {Address: "h1", Capacity: 1}, "n2": {Address: "h2", Capacity: 1}},
			Topics: map[string]*place.Topic{"t": {Limits: place.Limits{Rate: 100, Burst: 10}, Publishers: map[string]place.Publisher{"p": {Rate: 1, Node: node}}}}}
	}
	n.follow(at("n1"))
	if !n.follow(at("n2")) || n.shares["t"].bucket.Rate != 0 {
		t.Errorf("it has %+v, which is no news", n.shares["t"])
	}
	l := leads(10 * time.Second)
	tells := func(now mono.Time, rate float64, soon bool) {
		t.Helper()
		l.soon = false
		l.tells(t, now, "n1", obeyed{Topic: "t", Rate: rate, Burst: rate / 10, Span: time.Second})
		l.divide(now, "t", placement.Bucket{Rate: 1000, Burst: 100}, map[string]float64{"n2": 1}, true)
		if l.soon != soon {
			t.Errorf("of %.0f/s: the next step is at once: %v", rate, l.soon)
		}
	}
	tells(1, 900, false)
	tells(2, 900, false)
	tells(3, 0, true)
	tells(4, 0, false)
}
