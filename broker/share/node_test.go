package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/placement"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// fakeHub notes shares and says what it saw.
type fakeHub struct {
	mu       *sync.Mutex // of all hubs of a bed
	shares   map[string]engine.Share
	messages float64 // in each step
	waiting  float64
	p99      func() time.Duration // of processing; nil: 0
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
	seen, p99 := engine.Seen{Messages: h.messages, Backlog: 1 + h.messages, Waiting: h.waiting}, h.p99
	h.mu.Unlock()
	if p99 != nil {
		seen.Processing = p99()
	}
	return seen, true
}

func (h *fakeHub) sends(n float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages = n
}

func (h *fakeHub) takes(p99 func() time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.p99 = p99
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
	mu     sync.Mutex // of all hubs, so that all shares are read at one instant
	hubs   []*fakeHub
	nodes  []*Node
	silent []*Node // that do not run, and obey their last grants for as long as those say
	stops  []func()
	moved  sync.Map // client → address

	connected func(ctx context.Context, client string) bool
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
	hub := &fakeHub{mu: &b.mu, shares: map[string]engine.Share{}}
	n := NewNode(Config{Node: name(i), Window: window, Connected: b.connected, Holders: func(string, []string) {}, Move: func(client, address string) bool {
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
	b.hubs, b.nodes, b.stops = append(b.hubs, hub), append(b.nodes, n), append(b.stops, stop)
	return n
}

// sum returns what all nodes let through of a topic together.
func (b *bed) sum(topic string) (sum engine.Share) {
	for {
		sum = engine.Share{}
		now := live.Now()
		for _, n := range b.silent {
			n.expire(now)
		}
		b.mu.Lock()
		for _, h := range b.hubs {
			sum.Rate, sum.Burst = sum.Rate+h.shares[topic].Rate, sum.Burst+h.shares[topic].Burst
		}
		b.mu.Unlock()
		if live.Now().Sub(now) < window/steps { // else a silent node may have had to fall back meanwhile
			return sum
		}
	}
}

// await waits for ok, and checks all the while that no topic gets more than it has.
func (b *bed) await(what string, whole engine.Share, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) { // which only ends a hang
		if s := b.sum("t"); s.Rate > whole.Rate*(1+1e-9) || s.Burst > whole.Burst*(1+1e-9) {
			b.t.Fatalf("%s: the nodes have %v of %v together", what, s, whole)
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: not within a minute; the nodes have %v and %v", what, b.hubs[0].share("t"), b.hubs[1].share("t"))
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
	b.silence(0)
	b.await("the other has the rest", whole, func() bool { return b.hubs[1].share("t").Rate > 0.9*whole.Rate })
}

// A node that is about to end leaves what it holds to others while it still says and hears all that nodes do, and its lead as it ends.
func TestLeave(t *testing.T) {
	b := start(t, 2)
	whole := engine.Share{Rate: 1500, Burst: 100}
	b.update(func(s *place.State) error {
		err := s.SetTopic("t", place.Limits{Rate: whole.Rate, Burst: whole.Burst, Objective: 1, Each: 100})
		for i := range 4 { // one node has room for
			err = errors.Join(err, s.Join("t", place.Join{Publisher: fmt.Sprint("p", i)}))
		}
		return err
	})
	b.run(0)
	b.run(1)
	_, publishers := b.at()
	home := 0
	if publishers[name(1)] > 0 {
		home = 1
	}
	other := 1 - home
	b.await("the bucket is at one node", whole, func() bool { return b.hubs[home].share("t").Rate > .9*whole.Rate })
	b.nodes[home].Leave(t.Context())
	if s, _ := b.at(); b.hubs[home].share("t").Rate > 0 || !s.Nodes[name(home)].Down {
		t.Errorf("it has %v still, and is down: %v", b.hubs[home].share("t"), s.Nodes[name(home)].Down)
	}
	b.await("the bucket is at the other one", whole, func() bool { return b.hubs[other].share("t").Rate > .9*whole.Rate })
	b.nodes[other].Leave(t.Context()) // to nobody
	time.Sleep(3 * window / steps)
	if b.hubs[other].share("t").Rate < .9*whole.Rate {
		t.Errorf("the last node has %v", b.hubs[other].share("t"))
	}
	for i, n := range b.nodes {
		b.stops[i]()
		if e, err := n.leader.kv.Get(t.Context(), leaderKey); err == nil && string(e.Value()) == name(i) {
			t.Errorf("%s has ended, and leads", name(i))
		}
	}
}

// trust has a node that hears nobody backed for good.
func (n *Node) trust() { n.witness.back(0, mono.Never) }

// silence has a node say and hear nothing from now on.
func (b *bed) silence(i int) {
	b.stops[i]()
	b.silent = append(b.silent, b.nodes[i])
}

// A node that gets its first publishers of a topic that nobody sends to has its share of the bucket before they send.
func TestSharesOfTheIdle(t *testing.T) {
	b := start(t, 2)
	whole := engine.Share{Rate: 1500, Burst: 100}
	at := func(node, publisher string) func(*place.State) error {
		return func(s *place.State) error {
			s.Topics["t"].Publishers[publisher] = place.Publisher{Rate: 100, Node: node}
			return nil
		}
	}
	b.update(func(s *place.State) error {
		return errors.Join(s.SetTopic("t", place.Limits{Rate: whole.Rate, Burst: whole.Burst, Objective: 1, Each: 100}), at(name(0), "p")(s))
	})
	b.run(0)
	b.run(1)
	b.await("all at one node", whole, func() bool { return b.hubs[0].share("t").Rate > 0.9*whole.Rate })
	b.update(at(name(1), "q"))
	b.await("half at the other", whole, func() bool { return b.hubs[1].share("t").Rate > 0.45*whole.Rate })
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
	away.Publishes("p", "t", says(""))
	away.Publishes("q", "t", says("g")) // is new, and is placed with the other
	home.Publishes("r", "t", says(""))
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
	if to := home.Where(t.Context(), "s", "t", says("")); to == "" {
		t.Error("a new publisher is to stay at a drained node")
	}
	away.Gone("q")
}

// A client that stays away gives its places up, unless it is connected to another node or has come back.
func TestForgets(t *testing.T) {
	b := start(t, 1)
	b.update(func(s *place.State) error {
		return s.SetTopic("t", place.Limits{Rate: 100, Burst: 10, Objective: 1, Each: 1})
	})
	var n *Node
	asked := make(chan struct{})
	b.connected = func(_ context.Context, client string) bool {
		switch client {
		case "just": // it comes back as it is asked for
			n.Publishes(client, "t", says(""))
		case "late":
			close(asked)
		case "gone": // asking for it takes so long that another one comes back after it was asked for
			select {
			case <-asked:
			case <-time.After(time.Minute):
				t.Error("another one was not asked for at the same time")
			}
			time.Sleep(20 * time.Millisecond)
			n.Publishes("late", "t", says(""))
		}
		return client == "elsewhere"
	}
	n = b.run(0)
	whole := engine.Share{Rate: 100, Burst: 10}
	b.await("the state", whole, func() bool { return n.Topics() > 0 })
	for _, client := range []string{"gone", "elsewhere", "back", "just", "late", "here"} {
		n.Publishes(client, "t", says(""))
	}
	n.Where(t.Context(), "never", "t", says("")) // and it never connects
	b.await("all have places", whole, func() bool { _, at := b.at(); return at[name(0)] == 7 })
	for _, client := range []string{"gone", "elsewhere", "back", "just", "late"} {
		n.Gone(client)
	}
	n.Publishes("back", "t", says(""))
	n.forgetAway(t.Context(), live.Now())
	if s, _ := b.at(); len(s.Topics["t"].Publishers) != 7 {
		t.Errorf("after a moment there are %v", s.Topics["t"].Publishers)
	}
	n.forgetAway(t.Context(), live.Now().Add(forgetAfter))
	s, _ := b.at()
	if _, ok := s.Topics["t"].Publishers["gone"]; ok || len(s.Topics["t"].Publishers) != 5 {
		t.Errorf("after %v there are %v", forgetAfter, s.Topics["t"].Publishers)
	}
}

// Clients of a node that ends while they are away are forgotten by the node that has their places then; publishers that no
// node asked for stay.
func TestForgetsOfAnother(t *testing.T) {
	b := start(t, 1)
	b.update(func(s *place.State) error {
		if err := s.SetTopic("t", place.Limits{Rate: 100, Burst: 10, Objective: 1, Each: 1}); err != nil {
			return err
		}
		return s.Join("t", place.Join{Publisher: "elsewhere", Client: true}, place.Join{Publisher: "entered"}, place.Join{Publisher: "gone", Client: true}, place.Join{Publisher: "here", Client: true})
	})
	b.connected = func(_ context.Context, client string) bool { return client == "elsewhere" }
	n := b.run(0)
	whole := engine.Share{Rate: 100, Burst: 10}
	b.await("the state", whole, func() bool { return n.Topics() > 0 })
	n.Publishes("here", "t", says(""))
	for range 2 { // one that is connected elsewhere is asked for again and again
		n.forgetAway(t.Context(), live.Now().Add(forgetAfter))
		s, _ := b.at()
		if got := fmt.Sprint(slices.Sorted(maps.Keys(s.Topics["t"].Publishers))); got != "[elsewhere entered here]" {
			t.Errorf("there are %s", got)
		}
	}
}

// at counts the publishers of the topic by node.
func (b *bed) at() (state *place.State, publishers map[string]int) {
	b.t.Helper()
	s, _, err := b.placer.Load(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return s, publishersOf(s)
}

// publishersOf counts those of the topic by node.
func publishersOf(s *place.State) map[string]int {
	at := map[string]int{}
	for _, p := range s.Topics["t"].Publishers {
		at[p.Node]++
	}
	return at
}

// Publishers leave a node that misses the objective, with their part of the bucket, and
// no more of them than bring it back; and all of them leave a node that is silent.
func TestMigrates(t *testing.T) {
	again := true
	for tries := 0; again && !t.Failed(); tries++ { // where the machine stands still, a node is silent
		if tries == 5 {
			t.Fatal("a node was silent in each of five tries")
		}
		t.Run("", func(t *testing.T) { again = !migrates(t) })
	}
}

// migrates reports whether no node was silent before it should be.
func migrates(t *testing.T) bool {
	b := start(t, 2)
	whole := engine.Share{Rate: 500, Burst: 50}
	b.update(func(s *place.State) error {
		err := s.SetTopic("t", place.Limits{Rate: whole.Rate, Burst: whole.Burst, Objective: 1, Each: 10})
		for i := range 40 { // one node has room for all
			err = errors.Join(err, s.Join("t", place.Join{Publisher: fmt.Sprint("p", i), Group: fmt.Sprint("g", i%4)}))
		}
		return err
	})
	b.run(0)
	b.run(1)
	s, publishers := b.at()
	home := 0
	if publishers[name(1)] > 0 {
		home = 1
	}
	if publishers[name(home)] != 40 {
		t.Fatalf("the publishers are at %v, want one node", publishers)
	}
	b.hubs[home].sends(20)
	away := name(1 - home)
	b.hubs[home].takes(func() time.Duration { // it meets the objective with 27
		if s, _, err := b.placer.Load(t.Context()); err == nil && publishersOf(s)[away] >= 13 {
			return 500 * time.Millisecond
		}
		return 1500 * time.Millisecond
	})
	silent := func() bool {
		return slices.ContainsFunc(s.Moves, func(m place.Move) bool { return strings.Contains(m.Why, "is silent") })
	}
	b.await("some move", whole, func() bool { s, publishers = b.at(); return publishers[away] >= 13 || silent() })
	b.await("what is over the objective has moved", whole, func() bool {
		s, publishers = b.at()
		return s.Nodes[name(home)].Measured == float64(10*publishers[name(home)]) || silent()
	})
	if silent() {
		return false
	}
	groups := map[string]int{}
	for _, p := range s.Topics["t"].Publishers {
		if p.Node == away {
			groups[p.Group]++
		}
	}
	if publishers[away] > 20 || len(groups) != 4 || len(s.Moves) != publishers[away] || s.Moves[0].Why == "" {
		t.Errorf("moved %d of groups %v, the first %+v", publishers[away], groups, s.Moves[0])
	}
	b.silence(home)
	b.await("all leave a silent node", whole, func() bool {
		s, publishers = b.at()
		return publishers[away] == 40 && s.Nodes[name(home)].Down
	})
	b.silent = nil // it starts anew
	b.hubs[home].SetShare("t", nil)
	b.run(home)
	b.await("it is up again", whole, func() bool { s, _ = b.at(); return !s.Nodes[name(home)].Down })
	return true
}

// A node that loses its publishers while messages wait, and gets some back, has what it
// had.
func TestComesBack(t *testing.T) {
	hub := &fakeHub{mu: &sync.Mutex{}, shares: map[string]engine.Share{}, waiting: 1}
	n := NewNode(Config{Node: "n1", Holders: func(string, []string) {}, Move: func(string, string) bool { return false }}, hub, nil, nil, slog.New(slog.DiscardHandler))
	at := func(node string) *place.State {
		return &place.State{Nodes: map[string]place.Node{"n1": {Address: "h1", Capacity: 1}, "n2": {Address: "h2", Capacity: 1}},
			Topics: map[string]*place.Topic{"t": {Limits: place.Limits{Rate: 100, Burst: 10}, Publishers: map[string]place.Publisher{"p": {Rate: 1, Node: node}}}}}
	}
	n.trust()
	n.follow(at("n1"))
	grant := func(term, version, rate int, lasts time.Duration) {
		n.granted(0, fmt.Appendf(nil, `{"term":%d,"process":%d,"grants":[{"topic":"t","version":%d,"rate":%d,"burst":6,"lasts":%d}]}`, term, n.process, version, rate, lasts))
	}
	grant(1, 3, 60, time.Second)
	n.follow(at("n2"))
	if s := hub.share("t"); s.Rate != 0 {
		t.Errorf("without a publisher it has %v", s)
	}
	n.follow(at("n1"))
	if s := hub.share("t"); s.Rate != 60 {
		t.Errorf("with one again it has %v", s)
	}
	grant(0, 9, 90, 1)
	grant(1, 2, 90, 1)
	if s := hub.share("t"); s.Rate != 60 {
		t.Errorf("it obeys an old grant: %v", s)
	}
	n.expire(2_000_000_000)
	if s := hub.share("t"); s.Rate > 1 {
		t.Errorf("long after the grant it has %v", s)
	}
}

// Grants that waited for a process which was stopped last no longer for that, nor do those that go by what an earlier process of the
// node reported, and what the hub has found to be over is given to it anew.
func TestStaleGrants(t *testing.T) {
	hub := &fakeHub{mu: &sync.Mutex{}, shares: map[string]engine.Share{}}
	n := NewNode(Config{Node: "n1", Holders: func(string, []string) {}, Move: func(string, string) bool { return false }}, hub, nil, nil, slog.New(slog.DiscardHandler))
	n.follow(&place.State{Nodes: map[string]place.Node{"n1": {Address: "h1", Capacity: 1}},
		Topics: map[string]*place.Topic{"t": {Limits: place.Limits{Rate: 100, Burst: 10}, Publishers: map[string]place.Publisher{"p": {Rate: 1, Node: "n1"}}}}})
	grant := func(now mono.Time, process uint64, at, lasts, version int) {
		n.granted(now, fmt.Appendf(nil, `{"term":1,"process":%d,"at":%d,"grants":[{"topic":"t","version":%d,"rate":60,"burst":6,"lasts":%d,"floor_rate":2,"floor_burst":1}]}`, process, at, version, lasts))
	}
	floor := hub.share("t")
	if grant(1000, n.process, 1000, 9000, 3); hub.share("t") != floor {
		t.Errorf("backed by nobody it has %+v", hub.share("t"))
	}
	n.trust()
	grant(5000, n.process, 1000, 2000, 3)
	if s := hub.share("t"); s != floor {
		t.Errorf("of a grant that was over before it came it has %+v", s)
	}
	grant(5000, n.process+1, 4000, 2000, 3)
	grant(5000, n.process, 6000, 2000, 3)
	if s := hub.share("t"); s != floor {
		t.Errorf("of a grant to another process, or from the future, it has %+v", s)
	}
	grant(5000, n.process, 4000, 2000, 3)
	first := hub.share("t")
	if first.Rate != 60 || first.FloorRate != 2 || first.Lease == nil {
		t.Fatalf("it has %+v, want the grant", first)
	}
	grant(5500, n.process, 5000, 2000, 3)
	if s := hub.share("t"); s != first || !first.Lease.Extend(7000) {
		t.Errorf("a grant that goes on is another share: %+v", s)
	}
	if n.expire(6999); hub.share("t") != first {
		t.Error("it gives up what it was granted a moment too early")
	}
	if n.expire(7000); hub.share("t").Rate != 2 || hub.share("t").Lease != nil {
		t.Errorf("after the grant it has %+v, want the floor", hub.share("t"))
	}
}

// A node that had a topic before gets grants that it obeys when the topic comes back to it, also from a leader that knows nothing
// of that time: it obeys none of a version that it knows.
func TestComesBackToAnother(t *testing.T) {
	hub := &fakeHub{mu: &sync.Mutex{}, shares: map[string]engine.Share{}}
	n := NewNode(Config{Node: "n1", Holders: func(string, []string) {}, Move: func(string, string) bool { return false }}, hub, nil, nil, slog.New(slog.DiscardHandler))
	n.leader.n = n
	l := &n.leader
	l.leads, l.reports, l.heard, l.topics = 1, map[string]report{}, map[string]mono.Time{}, map[string]*shared{}
	l.mover = newMover(l, 0)
	whole := placement.Bucket{Rate: 1000, Burst: 100}
	now := mono.Time(time.Hour)
	says := func(node string, rate float64, version uint64, fresh bool) {
		now++
		data, err := json.Marshal(report{Node: node, Term: 1, Topics: []obeyed{{Topic: "t", Rate: rate, Burst: rate / 10, Version: version, Fresh: fresh}}})
		if err != nil {
			t.Fatal(err)
		}
		l.reported(now, data)
	}
	says("n1", 0, 20, false)
	says("n2", 0, 0, false)
	l.divide(now, "t", whole, map[string]float64{"n1": 1}, true)
	for fresh := range 2 {
		says("n1", 5, 20, fresh == 1)
		l.topics["t"].adaptor.Step(now)
		if g := l.topics["t"].adaptor.Grant(0); g.Version <= 20 || g.Rate < 900 {
			t.Errorf("fresh %v: it is granted %.0f/s with version %d, and obeys versions above 20", fresh == 1, g.Rate, g.Version)
		}
	}
	had := l.topics["t"].adaptor.Grant(0).Version
	says("n1", 900, had, false)
	if g := l.topics["t"].adaptor.Grant(0); g.Version != had {
		t.Errorf("what it obeys is granted anew, with version %d after %d", g.Version, had)
	}
	says("n1", 5, had, true) // it had no publisher in between
	if g := l.topics["t"].adaptor.Grant(0); g.Version <= had {
		t.Errorf("as fresh it is granted version %d again", g.Version)
	}
}

// When the node that led is gone for good, the others keep what they obey under the leader that comes: it grants no more than all had
// together, and what the silent one had when that has expired.
func TestLeaderIsGone(t *testing.T) {
	l := leads(10 * time.Second)
	whole := placement.Bucket{Rate: 1000, Burst: 100}
	version := map[string]uint64{"n1": 7, "n2": 8, "n3": 9}
	obeys := map[string]float64{"n1": 500, "n2": 295, "n3": 200}
	shares := map[string]float64{"n1": .5, "n2": .3, "n3": .2} // n3 led
	for step := range 40 {
		now := mono.Time(step) * mono.Time(time.Second)
		for i, node := range []string{"n1", "n2"} {
			if step < 2*i { // n2 tells later
				continue
			}
			data, err := json.Marshal(report{Node: node, Term: 2, Topics: []obeyed{{Topic: "t", Rate: obeys[node], Burst: obeys[node] / 10, Version: version[node],
				Left: 15 * time.Second, Messages: 450, Span: time.Second, Backlog: 20, Waiting: 1000}}})
			if err != nil {
				t.Fatal(err)
			}
			l.reported(now+mono.Time(i), data)
		}
		if step == 12 { // n3 counts as down
			shares = map[string]float64{"n1": .6, "n2": .4}
		}
		known := l.known(now+9, []string{"n1", "n2", "n3"})
		l.divide(now+9, "t", whole, shares, known)
		s := l.topics["t"]
		s.adaptor.Step(now + 9)
		sum, silent := 0.0, now <= mono.Time(20*time.Second)
		for i, node := range s.members {
			g := s.adaptor.Grant(i)
			switch {
			case node == "n1" || node == "n2" && step >= 2:
				obeys[node], version[node] = g.Rate, g.Version
				sum += g.Rate
			case node == "n2":
				sum += obeys[node]
			}
		}
		if silent && (sum < 600 || sum > 795.001) {
			t.Errorf("after %d s n1 and n2 have %.1f together, want about the 795 that they had beside a node that may live", step, sum)
		}
		if step == 39 && sum < 900 {
			t.Errorf("after all the silent node may have obeyed has expired they have %.1f of 1000", sum)
		}
		if step == 0 && obeys["n1"] < 490 {
			t.Errorf("n1 has %.1f as soon as it has told, want what it had", obeys["n1"])
		}
	}
}

// leads returns a leader that no node runs.
func leads(window time.Duration) *leader {
	n := NewNode(Config{Node: "n1", Window: window}, &fakeHub{}, nil, nil, slog.New(slog.DiscardHandler))
	l := &n.leader
	l.n, l.leads, l.reports, l.heard, l.topics = n, 2, map[string]report{}, map[string]mono.Time{}, map[string]*shared{}
	l.mover = newMover(l, 0)
	return l
}

// A node that has fallen back for sure leaves what it had to the others at once, also to a leader that it has told nothing.
func TestFallen(t *testing.T) {
	whole := placement.Bucket{Rate: 1000, Burst: 100}
	for name, told := range map[string]bool{"it has told": true, "it has not": false} {
		l := leads(10 * time.Second)
		tell := func(now mono.Time, node string, rate float64, version uint64) {
			l.tells(t, now, node, obeyed{Topic: "t", Rate: rate, Burst: rate / 10, Version: version, Left: 19 * time.Second, Messages: rate, Span: time.Second, Waiting: 9999})
		}
		shares := map[string]float64{"n1": .1, "n2": .9}
		step := func(now mono.Time) (rate float64) {
			l.divide(now, "t", whole, shares, l.known(now, []string{"n1", "n2"}))
			s := l.topics["t"]
			for i, node := range s.members {
				if l.fell[node] {
					s.adaptor.Fell(i)
				}
			}
			s.adaptor.Step(now)
			return s.adaptor.Grant(slices.Index(s.members, "n1")).Rate
		}
		if told {
			tell(1, "n2", 890, 4)
		}
		now := mono.Time(time.Second)
		tell(now, "n1", 100, 3)
		if rate := step(now); rate > 110 {
			t.Errorf("%s: while it may obey what it had another one is granted %.0f/s", name, rate)
		}
		l.fell = map[string]bool{"n2": true}
		shares = map[string]float64{"n1": 1}
		got := 0.0
		for range 5 { // an adaptor looks at some steps before it follows
			now += mono.Time(time.Second)
			version := l.topics["t"].adaptor.Grant(slices.Index(l.topics["t"].members, "n1")).Version
			tell(now, "n1", max(got, 100), version)
			got = step(now)
		}
		if got < 900 || got > 950 { // it may live, and has the floor that it had when it was alone: 49.75
			t.Errorf("%s: after it has fallen back the other one is granted %.0f/s", name, got)
		}
	}
}

// The only holder of a topic that is cut off keeps its floor: when its publishers have moved, the other one has no more than the rest.
func TestOnlyHolderIsCutOff(t *testing.T) {
	b := start(t, 2)
	whole := engine.Share{Rate: 500, Burst: 50}
	b.update(func(s *place.State) error {
		return errors.Join(s.SetTopic("t", place.Limits{Rate: whole.Rate, Burst: whole.Burst, Objective: 1, Each: 100}), s.Join("t", place.Join{Publisher: "p"}))
	})
	b.run(0)
	b.run(1)
	b.hubs[0].sends(20)
	b.hubs[1].sends(20)
	home := 0
	b.await("one has all", whole, func() bool { home = 1 - home; return b.hubs[home].share("t").Rate > 0.98*whole.Rate })
	b.silence(home)
	b.await("the other has nearly all", whole, func() bool { return b.hubs[1-home].share("t").Rate > 0.93*whole.Rate })
	if s := b.sum("t"); s.Rate > whole.Rate || s.Burst > whole.Burst {
		t.Errorf("the nodes have %v of %v together", s, whole)
	}
}

// tells hands a leader the report of a node about one topic.
func (l *leader) tells(t *testing.T, now mono.Time, node string, o obeyed) {
	t.Helper()
	data, err := json.Marshal(report{Node: node, Term: l.leads, Topics: []obeyed{o}})
	if err != nil {
		t.Fatal(err)
	}
	l.reported(now, data)
}

// A node that has more of a topic than its part of the publishers keeps it under a new leader, too, while others have not told.
func TestKeepsWhatItHas(t *testing.T) {
	l := leads(10 * time.Second)
	l.tells(t, 1, "n1", obeyed{Topic: "t", Rate: 700, Burst: 70, Version: 7, Left: time.Second})
	l.divide(2, "t", placement.Bucket{Rate: 1000, Burst: 100}, map[string]float64{"n1": .5, "n2": .3, "n3": .2}, false)
	s := l.topics["t"]
	s.adaptor.Step(2)
	if g := s.adaptor.Grant(slices.Index(s.members, "n1")); g.Rate < 700 || g.Burst < 70 {
		t.Errorf("n1 has %+v, want the 700 that it had", g)
	}
}

// The smallest bucket is divided as well.
func TestDividesABurstOfOne(t *testing.T) {
	l := leads(10 * time.Second)
	l.divide(2, "t", placement.Bucket{Rate: 1000, Burst: 1}, map[string]float64{"n1": .5, "n2": .5}, true)
	if l.topics["t"] == nil {
		t.Error("it is not divided")
	}
}

// What a node was sent counts as what it obeys, also where it had nothing when the leader began and has not said since that it obeys it.
func TestGrantsOnTheirWay(t *testing.T) {
	l := leads(10 * time.Second)
	whole, shares := placement.Bucket{Rate: 1000, Burst: 100}, map[string]float64{"n1": .5, "n2": .3, "n3": .2}
	l.tells(t, 1, "n1", obeyed{Topic: "t", Rate: 500, Burst: 50, Version: 7, Left: time.Second})
	l.tells(t, 1, "n2", obeyed{Topic: "t"})
	l.divide(2, "t", whole, shares, false)
	s := l.topics["t"]
	n2 := slices.Index(s.members, "n2")
	s.adaptor.Adopt(n2, placement.Bucket{Rate: 200, Burst: 20}, 9, mono.Time(time.Minute)) // as if it had granted this
	l.tell(3, "n2", 2)
	l.tells(t, 4, "n2", obeyed{Topic: "t", Rate: 100, Burst: 10, Version: 8, Left: time.Second}) // and something before, which it obeys
	l.divide(5, "t", whole, shares, false)
	if s = l.topics["t"]; s.adaptor.Use(slices.Index(s.members, "n2")).Rate < 200 {
		t.Errorf("it counts %+v, want the 200 that are on their way", s.adaptor.Use(slices.Index(s.members, "n2")))
	}
}

// A node whose last publisher has left keeps its part of the bucket, for as long as messages wait there and the leader hears of it.
func TestLeavesSlowly(t *testing.T) {
	hub := engine.New(engine.Config{})
	defer hub.Close()
	n := NewNode(Config{Node: "n1", Holders: func(string, []string) {}, Move: func(string, string) bool { return false }}, hub, nil, nil, slog.New(slog.DiscardHandler))
	at := func(node string) *place.State {
		return &place.State{Nodes: map[string]place.Node{"n1": {Address: "h1", Capacity: 1}, "n2": {Address: "h2", Capacity: 1}},
			Topics: map[string]*place.Topic{"t": {Limits: place.Limits{Rate: 100, Burst: 10}, Publishers: map[string]place.Publisher{"p": {Rate: 1, Node: node}}}}}
	}
	n.trust()
	grant := func(version int, lasts time.Duration) {
		now := live.Now()
		n.granted(now, fmt.Appendf(nil, `{"term":1,"process":%d,"at":%d,"grants":[{"topic":"t","version":%d,"rate":60,"burst":1,"lasts":%d,"floor_rate":2,"floor_burst":1}]}`, n.process, now, version, lasts))
	}
	n.follow(at("n1"))
	topic, err := hub.Topic([]byte("t"))
	if err != nil {
		t.Fatal(err)
	}
	b := hub.NewBatch()
	send := func() {
		b.Begin(live.Now())
		for range 600 { // ten seconds' worth
			b.Publish(&engine.Message{Topic: topic, Payload: []byte("x"), Expires: mono.Never}, 0)
		}
		b.End()
	}
	send()
	grant(3, 50*time.Millisecond)
	n.follow(at("n2"))
	grant(4, time.Hour) // the leader hears that it obeys the third
	time.Sleep(51 * time.Millisecond)
	send()
	if got := hub.Stats()[0].Limit.Rate; got != 60 {
		t.Errorf("what waits goes at %v, want at the 60 that it had", got)
	}
	// It comes back when the leader has not been heard for long, and has the floor.
	end := live.Now().Add(2 * time.Hour)
	n.expire(end)
	if h := n.shares["t"]; !h.leaving || h.bucket.Rate != 2 {
		t.Fatalf("it has %+v, want the floor while messages wait", h)
	}
	n.follow(at("n1"))
	if got := hub.Stats()[0].Limit.Rate; got != 2 {
		t.Errorf("it comes back with %v, want the floor", got)
	}
}

// A node that has little of a bucket because its publishers are idle is not taken for one that has just got them: with ten
// nodes or more the others would lose what they use to it, whenever another node begins to lead.
func TestIdleIsNotFresh(t *testing.T) {
	const nodes = 12
	whole := placement.Bucket{Rate: 1000, Burst: 100}
	a, err := placement.NewAdaptor(0, placement.AdaptorConfig{Bucket: whole, Brokers: nodes})
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	shares, obey := map[string]float64{}, map[string]obeyed{}
	idle := a.Grant(0).Floor
	for i := range nodes {
		node := fmt.Sprintf("n%02d", i)
		members = append(members, node)
		shares[node] = 1. / nodes
		o := obeyed{Rate: idle.Rate, Burst: idle.Burst}
		switch i {
		case 0:
			o.Rate, o.Burst = 900, 90
		case 1:
			o = obeyed{Rate: reserve / nodes * whole.Rate, Burst: 1, Fresh: true}
		}
		obey[node] = o
		a.Adopt(i, o.bucket(), 1, mono.Time(time.Hour))
	}
	expect(a, members, shares, obey)
	a.Step(1)
	if busy := a.Grant(0).Rate; busy < 850 || busy > 900 {
		t.Errorf("a busy node with 900/s has %.0f beside idle ones and one that is new, which is expected to need %.0f", busy, whole.Rate/nodes)
	}
}

// No leader counts up to these versions, and the next one after the last would be 0.
func TestVersions(t *testing.T) {
	for version, ok := range map[uint64]bool{0: true, maxVersion: true, maxVersion + 1: false, math.MaxUint64: false} {
		if _, err := decodeReport(fmt.Appendf(nil, `{"node":"n","topics":[{"topic":"t","version":%d}]}`, version)); (err == nil) != ok {
			t.Errorf("a report of version %d: %v", version, err)
		}
		if _, err := decodeGrants(fmt.Appendf(nil, `{"grants":[{"topic":"t","version":%d}]}`, version)); (err == nil) != ok {
			t.Errorf("a grant of version %d: %v", version, err)
		}
	}
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
