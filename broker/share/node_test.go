package share

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/place"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeHub notes shares and says what it saw.
type fakeHub struct {
	mu       sync.Mutex
	shares   map[string]engine.Share
	messages float64 // in each step
}

func (h *fakeHub) SetShare(topic string, s *engine.Share) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s == nil {
		delete(h.shares, topic)
	} else {
		h.shares[topic] = *s
	}
}

func (h *fakeHub) Seen(string) (engine.Seen, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return engine.Seen{Messages: h.messages, Backlog: 1 + h.messages}, true
}

func (h *fakeHub) Stats() []engine.Stats { return nil }

func (h *fakeHub) sends(n float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages = n
}

func (h *fakeHub) share(topic string) engine.Share {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shares[topic]
}

// bed is nodes that share topics, over one NATS server.
type bed struct {
	t      *testing.T
	url    string
	placer *place.Placer
	hubs   []*fakeHub
	stops  []func()
	moved  sync.Map // client → address
}

const window = 500 * time.Millisecond

func start(t *testing.T, nodes int) *bed {
	t.Helper()
	url, stop, err := place.Embed("127.0.0.1:0", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	p, end, err := place.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	b := &bed{t: t, url: url, placer: p}
	for i := range nodes {
		b.update(func(s *place.State) error {
			return s.SetNode(name(i), place.Node{Address: fmt.Sprintf("h%d:1883", i), Capacity: 1000})
		})
	}
	return b
}

func name(i int) string { return fmt.Sprint("n", i) }

func (b *bed) update(change func(*place.State) error) {
	b.t.Helper()
	if _, err := b.placer.Update(b.t.Context(), change); err != nil {
		b.t.Fatal(err)
	}
}

// run starts a node.
func (b *bed) run(i int) *Node {
	b.t.Helper()
	nc, err := nats.Connect(b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	placer, err := place.Open(b.t.Context(), nc, 1)
	if err != nil {
		b.t.Fatal(err)
	}
	hub := &fakeHub{shares: map[string]engine.Share{}}
	n := NewNode(Config{Node: name(i), Window: window, Holders: func(string, []string) {}, Move: func(client, address string) bool {
		b.moved.Store(client, address)
		return true
	}}, hub, nc, placer, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				b.t.Error(err)
			}
			nc.Close()
		})
	}
	b.t.Cleanup(stop)
	b.hubs, b.stops = append(b.hubs, hub), append(b.stops, stop)
	return n
}

// sum returns what all nodes let through of a topic together.
func (b *bed) sum(topic string) (sum engine.Share) {
	for _, h := range b.hubs {
		s := h.share(topic)
		sum.Rate, sum.Burst = sum.Rate+s.Rate, sum.Burst+s.Burst
	}
	return sum
}

// await waits for ok, and checks all the while that no topic gets more than it has.
func (b *bed) await(what string, whole engine.Share, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if s := b.sum("t"); s.Rate > whole.Rate*(1+1e-9) || s.Burst > whole.Burst*(1+1e-9) {
			b.t.Fatalf("%s: the nodes have %v of %v together", what, s, whole)
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: not within 20 s; the nodes have %v and %v", what, b.hubs[0].share("t"), b.hubs[1].share("t"))
		}
	}
}

// Two nodes divide a bucket, the parts follow the traffic, a leader that goes is
// replaced, and a node that is silent leaves its part to the other.
func TestShares(t *testing.T) {
	b := start(t, 2)
	whole := engine.Share{Rate: 1500, Burst: 100}
	b.update(func(s *place.State) error {
		err := s.SetTopic("t", place.Limits{Rate: whole.Rate, Burst: whole.Burst, Objective: 1, Each: 100})
		for i := range 12 { // more than one node has room for
			err = errors.Join(err, s.Join("t", place.Join{Publisher: fmt.Sprint("p", i)}))
		}
		return err
	})
	b.run(0)
	b.run(1)
	near := func(x, want float64) bool { return math.Abs(x-want) < 0.05*whole.Rate }
	b.await("even parts", whole, func() bool {
		return near(b.hubs[0].share("t").Rate, 750) && near(b.hubs[1].share("t").Rate, 750)
	})
	b.hubs[0].sends(60)
	b.hubs[1].sends(20)
	b.await("parts by traffic", whole, func() bool {
		return near(b.hubs[0].share("t").Rate, 1125) && near(b.hubs[1].share("t").Rate, 375)
	})
	b.stops[0]()
	stopped := time.Now()
	b.await("the other has the rest", whole, func() bool {
		if time.Since(stopped) > 2*window { // what a node does by itself that hears nothing
			b.hubs[0].SetShare("t", &engine.Share{Rate: whole.Rate * 0.05 / 2, Burst: whole.Burst * 0.05 / 2})
		}
		return b.hubs[1].share("t").Rate > 0.9*whole.Rate
	})
}

// A node that holds no publisher of a topic has nothing of its bucket, and its publishers
// are placed and sent on.
func TestMoves(t *testing.T) {
	b := start(t, 2)
	b.update(func(s *place.State) error {
		return errors.Join(s.SetTopic("t", place.Limits{Rate: 100, Burst: 10, Objective: 1, Each: 1}), s.Join("t", place.Join{Publisher: "p"}))
	})
	s, _, err := b.placer.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := s.Topics["t"].Publishers["p"].Node
	nodes := []*Node{b.run(0), b.run(1)}
	home, away := nodes[0], nodes[1]
	hub := b.hubs[1]
	if at == name(1) {
		home, away, hub = away, home, b.hubs[0]
	}
	whole := engine.Share{Rate: 100, Burst: 10}
	b.await("the state", whole, func() bool { return away.Topics() > 0 && home.Topics() > 0 })
	if s := hub.share("t"); s.Rate != 0 {
		t.Errorf("a node without publishers has %v", s)
	}
	away.Publishes("p", "t", "")
	away.Publishes("q", "t", "g") // is new, and is placed with the other
	home.Publishes("r", "t", "")
	b.await("two are sent on", whole, func() bool {
		_, p := b.moved.Load("p")
		_, q := b.moved.Load("q")
		return p && q
	})
	if to, _ := b.moved.Load("q"); to != s.Nodes[at].Address {
		t.Errorf("q was sent to %v", to)
	}
	b.update(func(s *place.State) error { return s.Drain(at, true) })
	b.await("a drained node sends its clients away", whole, func() bool { _, r := b.moved.Load("r"); return r })
	if to := home.Where(t.Context(), "s", "t", ""); to == "" {
		t.Error("a new publisher is to stay at a drained node")
	}
	away.Gone("q")
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"node":"n","term":1,"topics":[{"topic":"t","rate":1}]}`))
	f.Add([]byte(`{"term":1,"grants":[{"topic":"t","rate":-1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := decodeReport(data); err == nil {
			for _, o := range r.Topics {
				if !(o.Rate >= 0) {
					t.Errorf("rate %v", o.Rate)
				}
			}
		}
		if g, err := decodeGrants(data); err == nil {
			for _, o := range g.Grants {
				if !(o.Rate >= 0) {
					t.Errorf("rate %v", o.Rate)
				}
			}
		}
	})
}
