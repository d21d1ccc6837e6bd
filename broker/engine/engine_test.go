package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/mono"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// client is a subscriber and a source that notes what it gets.
type client struct {
	mu       sync.Mutex
	got      []string
	at       []time.Time
	released []uint16
	offline  bool
}

func (c *client) Deliver(_ *Batch, m *Message, t *Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, fmt.Sprintf("%s=%s", m.Topic.Name(), m.Payload))
	c.at = append(c.at, time.Now())
}

func (c *client) Released(_ *Batch, _ *Message, id uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released = append(c.released, id)
}

func (c *client) Online() bool { return !c.offline }

func (c *client) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

func testHub(t *testing.T, cfg Config) *Hub {
	t.Helper()
	for _, l := range cfg.Limits {
		l.Check(func(field, value, want string) { t.Fatalf("limit: %s: %s, expected %s", field, value, want) })
	}
	h := New(cfg)
	t.Cleanup(h.Close)
	return h
}

func topic(t testing.TB, h *Hub, name string) *Topic {
	t.Helper()
	got, err := h.Topic([]byte(name))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func subscribe(t testing.TB, h *Hub, filter string, s *Subscription) {
	t.Helper()
	if err := h.Subscribe(filter, s); err != nil {
		t.Fatal(err)
	}
}

func publish(b *Batch, tp *Topic, payload string, id uint16) Verdict {
	b.Begin(b.hub.now())
	defer b.End()
	return b.Publish(&Message{Topic: tp, Payload: []byte(payload), Expires: mono.Never, QoS: 1}, id)
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) { // which only ends a hang
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func TestMatches(t *testing.T) {
	tests := []struct {
		filter, name string
		want         bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a/b", "a", false}, {"a", "a/b", false},
		{"+", "a", true}, {"+", "a/b", false}, {"+/b", "a/b", true}, {"a/+", "a/", true}, {"a/+", "a", false},
		{"#", "a/b/c", true}, {"a/#", "a", true}, {"a/#", "a/b/c", true}, {"a/#", "ab", false}, {"a/+/c", "a/b/c", true},
		{"a/+/#", "a/b", true}, {"a/+/#", "a", false}, {"+/+", "/a", true}, {"/+", "/a", true}, {"+", "/a", false},
		{"#", "$SYS/a", false}, {"+/a", "$SYS/a", false}, {"$SYS/#", "$SYS/a", true}, {"a//b", "a//b", true}, {"a/+/b", "a//b", true},
	}
	for _, tt := range tests {
		if got := Matches(tt.filter, tt.name); got != tt.want {
			t.Errorf("Matches(%q, %q) = %v, want %v", tt.filter, tt.name, got, tt.want)
		}
		var tr tree
		tr.add(&Subscription{filter: tt.filter})
		n := 0
		tr.match(tt.name, func(*Subscription) { n++ })
		if (n == 1) != tt.want || n > 1 {
			t.Errorf("a tree of %q finds %d for %q, want %v", tt.filter, n, tt.name, tt.want)
		}
	}
}

// The tree agrees with Matches on random filters and names, and is empty when all
// is removed.
func TestTreeAgreesWithMatches(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	levels := func(of []string) string {
		var all []string
		for range 1 + rnd.IntN(4) {
			all = append(all, of[rnd.IntN(len(of))])
		}
		return strings.Join(all, "/")
	}
	var tr tree
	var subs []*Subscription
	for len(subs) < 300 {
		if f := levels([]string{"a", "b", "", "$x", "+", "#"}); CheckFilter(f) == nil {
			s := &Subscription{filter: f}
			subs = append(subs, s)
			tr.add(s)
		}
	}
	for len(subs) > 0 {
		for range 50 {
			name := levels([]string{"a", "b", "", "$x"})
			if name == "" {
				continue
			}
			want, got := 0, 0
			for _, s := range subs {
				if Matches(s.filter, name) {
					want++
				}
			}
			tr.match(name, func(s *Subscription) { got++ })
			if got != want {
				t.Fatalf("%q: the tree finds %d, Matches %d", name, got, want)
			}
		}
		i := rnd.IntN(len(subs))
		tr.remove(subs[i])
		subs = slices.Delete(subs, i, i+1)
	}
	if tr.n != 0 || len(tr.root.children) != 0 {
		t.Errorf("%d subscriptions and %d levels are left", tr.n, len(tr.root.children))
	}
}

func TestCheckFilter(t *testing.T) {
	for filter, good := range map[string]bool{"a": true, "+": true, "#": true, "a/#": true, "/": true, "": false, "a#": false, "#/a": false,
		"a+/b": false, "a\x00": false, "\xff": false, strings.Repeat("a", maxTopicLength+1): false, strings.Repeat("/", maxTopicLevels): false} {
		if err := CheckFilter(filter); (err == nil) != good {
			t.Errorf("CheckFilter(%.20q) = %v", filter, err)
		}
	}
	if CheckTopic("a/+") == nil || CheckTopic("a/b") != nil {
		t.Error("CheckTopic takes a wildcard, or refuses a name")
	}
}

// 200 messages at once through a bucket of 1,000/s and 50: 50 go at once, the last
// 150 ms later, in order, and the publisher hears of those that waited.
func TestShape(t *testing.T) {
	h := testHub(t, Config{Limits: []Limit{{Filter: "a", Rate: 1000, Burst: 50}}})
	c, pub := &client{}, &client{}
	subscribe(t, h, "a", &Subscription{Who: c})
	b := h.NewBatch()
	began := time.Now()
	b.Begin(h.now())
	waits := 0
	for i := range 200 {
		if b.Publish(&Message{Topic: topic(t, h, "a"), Payload: fmt.Append(nil, i), Expires: mono.Never, QoS: 1, From: pub}, uint16(i)) == Waits {
			waits++
		}
	}
	b.End()
	if waits != 150 {
		t.Errorf("%d messages wait, want 150", waits)
	}
	await(t, "all messages", func() bool { return c.count() == 200 })
	if d := c.at[199].Sub(began); d < 149*time.Millisecond {
		t.Errorf("the last came after %v, before its token", d)
	}
	for i, got := range c.got {
		if want := fmt.Sprintf("a=%d", i); got != want {
			t.Fatalf("message %d is %s, want %s", i, got, want)
		}
	}
	await(t, "the publisher", func() bool { pub.mu.Lock(); defer pub.mu.Unlock(); return len(pub.released) == 150 })
	if !slices.IsSorted(pub.released) || pub.released[0] != 50 {
		t.Errorf("released are %v", pub.released)
	}
	await(t, "all to be counted, which is after they were delivered", func() bool { return h.Stats()[0].Released >= 200 })
	s := h.Stats()[0]
	if s.Released != 200 || s.Waited != 150 || s.Backlog != 0 || s.Topics != 1 {
		t.Errorf("stats are %+v", s)
	}
}

func TestPoliceAndQueueLimit(t *testing.T) {
	h := testHub(t, Config{Limits: []Limit{{Filter: "police", Rate: 0.001, Burst: 3, Police: true}, {Filter: "shape", Rate: 0.001, Burst: 3, Queue: 2}}})
	b := h.NewBatch()
	for _, name := range []string{"police", "shape"} {
		var got []string
		for i := range 7 {
			got = append(got, publish(b, topic(t, h, name), "x", uint16(i)).String())
		}
		want := "went went went over_rate over_rate over_rate over_rate"
		if name == "shape" {
			want = "went went went waits waits queue_full queue_full"
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", name, s, want)
		}
		if want := name == "shape"; b.futile() != want {
			t.Errorf("%s: the last batch is futile: %v, want %v", name, b.futile(), want)
		}
	}
	s := h.Stats()
	if s[0].Refused["over_rate"] != 4 || s[1].Refused["queue_full"] != 2 || s[1].Backlog != 2 || s[1].BacklogBytes != 2 {
		t.Errorf("stats are %+v", s)
	}
	b.Begin(h.now())
	for _, name := range []string{"shape", "free"} {
		b.Publish(&Message{Topic: topic(t, h, name), Payload: []byte("x"), Expires: mono.Never}, 0)
	}
	b.End()
	if b.futile() {
		t.Error("a batch of which a message went is futile")
	}
}

// A limit that changes counts from then on, also where nothing has come for long: what waits has not gone at the new rate.
func TestPaceFromNowOn(t *testing.T) {
	for _, exact := range []bool{true, false} {
		l := &lane{pacer: newPacer(Limit{Rate: 2, Burst: 1}, exact, 0)}
		for range 97 {
			l.pacer.TakeWithin(0, 0, 1, longestWait)
		}
		now := mono.Time(15 * time.Second) // 67 wait, or have a token
		l.pace(now, 400, 1)
		if d, ok := l.pacer.TakeWithin(now, now, 1, longestWait); !ok || (d-167500*time.Microsecond).Abs() > time.Microsecond*10 {
			t.Errorf("exact %v: one more message waits for %v, want 167.5ms", exact, d)
		}
	}
}

// resting is a reader that is told to rest.
type resting struct{ d time.Duration }

func (r *resting) Rest(d time.Duration) { r.d = d }

// A reader whose messages are all refused rests until half of the queue has gone, and no longer than it must: a bucket whose queue is
// empty meanwhile would release nothing.
func TestRest(t *testing.T) {
	for _, tt := range []struct {
		limit Limit
		want  time.Duration
	}{
		{Limit{Rate: 1000, Queue: 10}, 6 * time.Millisecond}, // of ten that wait
		{Limit{Rate: 1, Queue: 10}, longestRest},
		{Limit{Rate: 1000, QueueBytes: 4}, 3 * time.Millisecond},
		{Limit{Rate: 100, Queue: 1}, 10 * time.Millisecond},
		{Limit{Rate: 1e-4}, longestRest}, // the second would wait for more than an hour
	} {
		tt.limit.Filter, tt.limit.Burst = "a", 1
		h := testHub(t, Config{Limits: []Limit{tt.limit}})
		b, now := h.NewBatch(), h.now().Add(time.Hour) // so that no timer releases anything meanwhile
		for v := Went; v != QueueFull; {
			b.begin(now, now)
			v = b.Publish(&Message{Topic: topic(t, h, "a"), Payload: []byte("x"), Expires: mono.Never}, 0)
			b.End()
			if futile := v == QueueFull; b.futile() != futile {
				t.Errorf("%+v: a batch that %v is futile: %v", tt.limit, v, b.futile())
			}
		}
		for n := range time.Duration(12) { // as many readers find the same
			want := min((n+1)*tt.want, longestRest)
			if got := b.rest(now); got < want*79/100 || got > want*121/100 {
				t.Errorf("%+v: reader %d rests for %v, want %v", tt.limit, n, got, want)
			}
		}
	}
}

// A reader whose messages find no room in the log rests for a moment.
func TestRestOfTheLog(t *testing.T) {
	h := testHub(t, Config{Log: fullLog{}})
	b := h.NewBatch()
	b.Begin(h.now())
	v := b.Publish(&Message{Topic: topic(t, h, "a"), Payload: []byte("x"), Expires: mono.Never, QoS: 1}, 0)
	var r resting
	if b.EndRead(&r); v != QueueFull || r.d < blindRest*79/100 || r.d > blindRest*121/100 {
		t.Errorf("%v, it rests for %v, want %v", v, r.d, blindRest)
	}
}

type fullLog struct{}

func (fullLog) Append(*Message, uint16) bool { return false }

// What may wait a little longer grows with the wait, to what half of the burst refills and 5 ms.
func TestSlack(t *testing.T) {
	for _, tt := range []struct {
		rate, burst float64
		wait, want  time.Duration
	}{{1000, 1, time.Second, 0}, {1000, 3, time.Second, time.Millisecond}, {1000, 3, 32 * time.Millisecond, 500 * time.Microsecond},
		{1000, 1000, time.Second, longestSlack}, {1e-9, 1e9, time.Hour, longestSlack}, {1e9, 2, time.Hour, 0}, {1000, 0.5, time.Second, 0}} {
		l := &lane{rule: &rule{Limit: Limit{Rate: tt.rate, Burst: tt.burst}}}
		if got := l.slack(&waiter{due: mono.Time(tt.wait)}); got != tt.want {
			t.Errorf("rate %v, burst %v, after %v: %v, want %v", tt.rate, tt.burst, tt.wait, got, tt.want)
		}
	}
}

// Topics of a filter have a bucket each, or one together.
func TestShared(t *testing.T) {
	for _, shared := range []bool{false, true} {
		h := testHub(t, Config{Limits: []Limit{{Filter: "a/+", Rate: 0.001, Burst: 1, Police: true, Shared: shared}}})
		b := h.NewBatch()
		first, second := publish(b, topic(t, h, "a/1"), "x", 1), publish(b, topic(t, h, "a/2"), "x", 2)
		if want := map[bool]Verdict{false: Went, true: OverRate}[shared]; first != Went || second != want {
			t.Errorf("shared %v: %v and %v", shared, first, second)
		}
	}
}

// A limit that is taken away lets go what waits, in order, and one that is raised
// counts at once for what comes.
func TestSetLimits(t *testing.T) {
	limits := []Limit{{Filter: "a", Rate: 0.01, Burst: 1}}
	h := testHub(t, Config{Limits: limits})
	c := &client{}
	subscribe(t, h, "#", &Subscription{Who: c})
	b := h.NewBatch()
	for i := range 5 {
		publish(b, topic(t, h, "a"), fmt.Sprint(i), uint16(i))
	}
	if c.count() != 1 {
		t.Fatalf("%d messages went, want 1", c.count())
	}
	h.SetLimits(nil)
	for i := 5; i < 8; i++ {
		publish(b, topic(t, h, "a"), fmt.Sprint(i), uint16(i))
	}
	await(t, "all messages", func() bool { return c.count() == 8 })
	if got := strings.Join(c.got, " "); got != "a=0 a=1 a=2 a=3 a=4 a=5 a=6 a=7" {
		t.Errorf("got %s", got)
	}
	h.SetLimits(limits)
	if v := publish(b, topic(t, h, "a"), "x", 1); v != Went {
		t.Errorf("with a new limit: %v", v)
	}
	if v := publish(b, topic(t, h, "a"), "y", 2); v != Waits {
		t.Errorf("beyond the new limit: %v", v)
	}
	h.SetLimits([]Limit{{Filter: "a", Rate: 100, Burst: 1}})
	await(t, "what waited, at the new rate", func() bool { return c.count() == 10 })
}

// A wait that becomes longer than time can say does not end.
func TestStretch(t *testing.T) {
	var q queue
	now := mono.Time(time.Hour)
	q.push(waiter{due: now - 1, kept: &Kept{}})
	q.push(waiter{due: now.Add(time.Second), kept: &Kept{}})
	for _, by := range []float64{2, 1e12} {
		q.stretch(now, by)
		if q.at(0).due != now-1 || q.at(1).due <= now.Add(time.Second) {
			t.Errorf("by %v: due at %v and %v, it is %v", by, q.at(0).due, q.at(1).due, now)
		}
	}
}

func TestRetained(t *testing.T) {
	h := testHub(t, Config{Retained: 3 * (retainedOverhead + 1)})
	b := h.NewBatch()
	keep := func(name, payload string) {
		b.Begin(h.now())
		b.Publish(&Message{Topic: topic(t, h, name), Payload: []byte(payload), Expires: mono.Never, Retain: true}, 0)
		b.End()
	}
	list := func(filter string) string {
		var got []string
		h.Retained(b, filter, func(m *Message) { got = append(got, m.Topic.Name()+"="+string(m.Payload)) })
		slices.Sort(got)
		return strings.Join(got, " ")
	}
	keep("a/1", "x")
	keep("a/2", "y")
	keep("b", "z")
	keep("c", "too much")
	if got := list("#"); got != "a/1=x a/2=y b=z" {
		t.Errorf("retained are %q", got)
	}
	keep("a/1", "n")
	keep("a/2", "")
	if got := list("a/+"); got != "a/1=n" {
		t.Errorf("retained are %q", got)
	}
	if c := h.Counts(); c.Retained != 2 || c.RetainedBytes != 2*(retainedOverhead+1) {
		t.Errorf("counts are %+v", c)
	}
}

// Of all retained messages those are found whose topics a filter matches, whatever came and went before.
func TestNamesAgreeWithMatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	levels := []string{"a", "b", "", "$"}
	some := func(wild bool) string {
		var all []string
		for range 1 + rng.IntN(4) {
			all = append(all, levels[rng.IntN(len(levels))])
			if wild && rng.IntN(3) == 0 {
				all[len(all)-1] = "+"
			}
		}
		if wild && rng.IntN(3) == 0 {
			all = append(all, "#")
		}
		return strings.Join(all, "/")
	}
	var s names
	have := map[string]*Topic{}
	for range 20_000 {
		name, filter := some(false), some(true)
		if had := have[name]; had != nil {
			s.drop(had)
			delete(have, name)
		} else {
			have[name] = &Topic{name: name}
			s.put(have[name])
		}
		got := map[*Topic]int{}
		s.match(filter, func(t *Topic) { got[t]++ })
		for name, topic := range have {
			if want := map[bool]int{true: 1}[Matches(filter, name)]; got[topic] != want {
				t.Fatalf("filter %q found topic %q %d times, want %d", filter, name, got[topic], want)
			}
			delete(got, topic)
		}
		if len(got) > 0 || s.n != len(have) {
			t.Fatalf("filter %q found %d that are not there; %d are counted of %d", filter, len(got), s.n, len(have))
		}
	}
	for _, topic := range have {
		s.drop(topic)
	}
	if len(s.root.below) > 0 {
		t.Error("levels stay of which no topic is left")
	}
}

// The retained messages of few topics are found without a look at all others: BenchmarkRetained.
func BenchmarkRetained(b *testing.B) {
	h := New(Config{})
	defer h.Close()
	batch := h.NewBatch()
	batch.Begin(h.now())
	for i := range 50_000 {
		t, err := h.Topic(fmt.Appendf(nil, "plant/%d/state", i))
		if err != nil {
			b.Fatal(err)
		}
		h.Retain(&Message{Topic: t, Payload: []byte("x"), Expires: mono.Never, Retain: true})
	}
	for _, filter := range []string{"plant/77/state", "plant/77/#", "+/77/state"} {
		b.Run(filter, func(b *testing.B) {
			for b.Loop() {
				h.Retained(batch, filter, func(*Message) {})
			}
		})
	}
}

// At the limit of topics those that nobody uses make room.
func TestTopicLimit(t *testing.T) {
	h := testHub(t, Config{Topics: 2})
	a := topic(t, h, "a")
	topic(t, h, "b")
	if _, err := h.Topic([]byte("c")); err == nil {
		t.Error("a third topic was made")
	}
	a.used.Store(int64(h.now().Add(-2 * unusedAfter)))
	if _, err := h.Topic([]byte("c")); err == nil {
		t.Error("the hub looks at all topics for every message that is refused")
	}
	h.forgot = h.now().Add(-forgetEvery)
	topic(t, h, "c")
	if !a.Gone() {
		t.Error("the unused topic is still there")
	}
}

// What another node has released is delivered also where there is no room for its topic: an answer under a limit, too.
func TestDeliveredBeyondTheTopics(t *testing.T) {
	h := testHub(t, Config{Topics: 1, Limits: []Limit{{Filter: "#", Rate: 1, Burst: 1}}})
	topic(t, h, "a")
	for _, name := range []string{"b", Inbox + "c"} {
		if _, err := h.Delivered([]byte(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A topic is not forgotten before its bucket is full again: that of the next of its name would be.
func TestForgetsNoDebt(t *testing.T) {
	for _, exact := range []bool{true, false} {
		h := testHub(t, Config{Topics: 1, Limits: []Limit{{Filter: "+", Rate: 1.0 / 3600, Burst: 2, Police: true}}})
		a := topic(t, h, "a")
		if l := a.lane.Load(); !exact {
			l.pacer = newPacer(l.rule.Limit, false, h.now())
		}
		b := h.NewBatch()
		b.Begin(h.now())
		if v := b.Publish(&Message{Topic: a, Expires: mono.Never}, 0); v != Went {
			t.Fatal(v)
		}
		b.End()
		forgets := func() bool {
			a.used.Store(int64(h.now().Add(-2 * unusedAfter)))
			h.forgot = h.now().Add(-forgetEvery)
			_, err := h.Topic([]byte("b"))
			return err == nil
		}
		if forgets() {
			t.Errorf("exact %v: a topic is forgotten whose bucket lacks a token for an hour", exact)
		}
		h.SetLimits([]Limit{{Filter: "+", Rate: 1e9, Burst: 2, Police: true}})
		if !forgets() {
			t.Errorf("exact %v: one whose bucket is full is not", exact)
		}
	}
}

// A retained message that is expired keeps no topic and no room from others.
func TestRetainedExpires(t *testing.T) {
	h := testHub(t, Config{Topics: 2, Retained: retainedOverhead + 1})
	a := topic(t, h, "a")
	keep := func(name string, expires mono.Time) {
		h.Retain(&Message{Topic: topic(t, h, name), Payload: []byte("x"), Expires: expires, Retain: true})
	}
	expire := func() { a.retained.Expires = h.now() }
	keep("a", h.now().Add(time.Hour))
	keep("b", mono.Never)
	if c := h.Counts(); c.Retained != 1 {
		t.Fatalf("room for one has %+v", c)
	}
	if k := h.RetainedOf("a"); k == nil {
		t.Error("there is none")
	} else {
		k.Release()
	}
	expire()
	if k := h.RetainedOf("a"); k != nil {
		t.Error("an expired one is the last of its topic")
	}
	h.unretained = 0
	if keep("b", mono.Never); h.RetainedOf("b") == nil {
		t.Error("an expired one takes the room of another")
	}
	h.Retain(&Message{Topic: topic(t, h, "b")})
	keep("a", h.now().Add(time.Hour))
	expire()
	a.used.Store(int64(h.now().Add(-2 * unusedAfter)))
	h.forgot = 0
	if topic(t, h, "c"); !a.Gone() {
		t.Error("an expired one keeps its topic")
	}
	if keep("b", h.now()); h.Counts() != (Counts{Topics: 2}) {
		t.Errorf("one that comes expired is kept: %+v", h.Counts())
	}
}

// A client has its own limit, which counts what the hub has not forgotten.
func TestTopicsOfAClient(t *testing.T) {
	h := testHub(t, Config{})
	by := NewMaker(2)
	for _, name := range []string{"a", "b", "a"} {
		if _, err := h.TopicBy(by, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.TopicBy(by, []byte("c")); !errors.Is(err, ErrTopics) {
		t.Errorf("a third topic: %v", err)
	}
	topic(t, h, "c") // of somebody else
	if _, err := h.TopicBy(by, []byte("c")); err != nil {
		t.Errorf("a topic that there is: %v", err)
	}
	topic(t, h, "a").used.Store(int64(h.now().Add(-2 * unusedAfter)))
	h.forgot = h.now().Add(-forgetEvery)
	if _, err := h.TopicBy(by, []byte("d")); err != nil {
		t.Errorf("after one was forgotten: %v", err)
	}
	if p, err := h.Passing(by, []byte("reply")); err != nil || !p.Gone() || h.Counts().Topics != 3 {
		t.Errorf("a topic that is used once: %v, %d topics are kept", err, h.Counts().Topics)
	}
}

func TestSharedSubscription(t *testing.T) {
	h := testHub(t, Config{})
	one, two, away := &client{}, &client{}, &client{offline: true}
	for _, c := range []*client{one, two, away} {
		subscribe(t, h, "a", &Subscription{Who: c, Group: "g"})
	}
	b := h.NewBatch()
	for range 9 {
		publish(b, topic(t, h, "a"), "x", 1)
	}
	if one.count()+two.count() != 9 || one.count() < 3 || two.count() < 3 || away.count() != 0 {
		t.Errorf("the members got %d, %d and %d", one.count(), two.count(), away.count())
	}
}

// Many publishers at once, waiting and not: no message is lost, doubled, or
// overtakes one of the same publisher. Under the race detector.
func TestOrderUnderConcurrency(t *testing.T) {
	h := testHub(t, Config{Limits: []Limit{{Filter: "a/#", Rate: 50_000, Burst: 20, Shared: true}}})
	c := &client{}
	subscribe(t, h, "a/#", &Subscription{Who: c})
	const publishers, each = 8, 300
	var wg sync.WaitGroup
	for p := range publishers {
		tp := topic(t, h, fmt.Sprintf("a/%d", p))
		wg.Go(func() {
			b := h.NewBatch()
			for i := range each {
				publish(b, tp, fmt.Sprint(i), uint16(i))
			}
		})
	}
	wg.Wait()
	await(t, "all messages", func() bool { return c.count() == publishers*each })
	next := map[string]int{}
	for _, got := range c.got {
		name, payload, _ := strings.Cut(got, "=")
		if payload != fmt.Sprint(next[name]) {
			t.Fatalf("%s: message %s, want %d", name, payload, next[name])
		}
		next[name]++
	}
}

// sink encodes what it gets into an outbox, as a protocol does.
type sink struct{ out *Outbox }

func (s *sink) Deliver(b *Batch, m *Message, _ *Target) {
	if buf, ok := s.out.Lock(len(m.Payload), false); ok {
		s.out.Unlock(b, append(buf, m.Payload...))
	}
}
func (s *sink) Released(*Batch, *Message, uint16) {}
func (s *sink) Online() bool                      { return true }

// pair returns two ends of a TCP connection, the second read to the end.
func pair(t testing.TB) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64<<10)
		for {
			if _, err := far.Read(buf); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { near.Close(); <-done; far.Close() })
	return near
}

// A message allocates nothing: without a limit, with a token, and waiting.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	h := testHub(t, Config{Limits: []Limit{{Filter: "limited", Rate: 1e8, Burst: 1e6}, {Filter: "waits", Rate: 100_000, Burst: 1}}})
	s := &sink{NewOutbox(pair(t), 1<<20, time.Second)}
	subscribe(t, h, "#", &Subscription{Who: s})
	payload := make([]byte, 100)
	for _, name := range []string{"free", "limited", "waits"} {
		tp := topic(t, h, name)
		b := h.NewBatch()
		m := &Message{Topic: tp, Payload: payload, Expires: mono.Never}
		send := func() {
			b.Begin(h.now())
			for range 8 {
				b.Publish(m, 0)
			}
			b.End()
		}
		for range 2000 {
			send()
		}
		if n := testing.AllocsPerRun(2000, send); n > 0.1 {
			t.Errorf("%s: %v allocations for 8 messages", name, n)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, name := range []string{"free", "limited"} {
		b.Run(name, func(b *testing.B) {
			h := New(Config{Limits: []Limit{{Filter: "limited", Rate: 1e9, Burst: 1e9}}})
			defer h.Close()
			s := &sink{NewOutbox(pair(b), 1<<30, time.Second)}
			subscribe(b, h, "#", &Subscription{Who: s})
			batch := h.NewBatch()
			m := &Message{Topic: topic(b, h, name), Payload: make([]byte, 100), Expires: mono.Never}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%32 == 0 {
					batch.End()
					batch.Begin(h.now())
				}
				batch.Publish(m, 0)
			}
			batch.End()
		})
	}
}

// Batches for one subscriber that begin a moment after each other go in one write, unless much waits, or a goroutine writes.
func TestTogether(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := NewOutbox(c, 1<<20, time.Minute)
	at := mono.Time(time.Hour)
	for i, tt := range []struct {
		after   time.Duration
		pending int
		want    bool
	}{{time.Hour, 1, false}, {together - 1, 1, true}, {0, 1, true}, {together, 1, false}, {1, maxWrite - 1, true}, {1, maxWrite, false}, {time.Second, 1, false}} {
		at = at.Add(tt.after)
		o.pending = make([]byte, tt.pending)
		if got := o.busy(at); got != tt.want {
			t.Errorf("step %d: %v, want %v", i, got, tt.want)
		}
	}
	p := NewOutbox(near, 1<<20, time.Minute)
	for range 2 {
		if p.busy(at) {
			t.Error("an outbox whose writes a goroutine makes lets others go first")
		}
	}
}

// A batch becomes a long one once, by many messages or by many subscribers.
func TestLongBatch(t *testing.T) {
	var b Batch
	for name, each := range map[string]int{"messages to nobody": 0, "one of a few": 4, "one of many": 2 * crowd} {
		b.begin(0, 0)
		long, at := 0, 0
		for i := range 3 * crowd {
			if b.long(each) {
				long, at = long+1, i+1
			}
		}
		if want := crowd/(1+each) + 1; long != 1 || at != want {
			t.Errorf("%s: %d times long, the last by message %d, want once, by message %d", name, long, at, want)
		}
	}
}
