package backplane

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// covers is how NATS matches a subject.
func covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s) || token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

// What a filter covers, its subjects cover, and nothing else.
func TestSubjects(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	levels := []string{"a", "b", "", "a b", "x.y", "*", ">", "%", "ü", "a%20b", "$", "\t"}
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
		if !wild && rng.IntN(5) == 0 {
			all[0] = "$SYS"
		}
		return strings.Join(all, "/")
	}
	for range 20_000 {
		filter, topic := some(rng.IntN(4) > 0), some(false)
		if engine.CheckFilter(filter) != nil || engine.CheckTopic(topic) != nil {
			continue
		}
		subject := subjectOf("p.", topic)
		for _, token := range strings.Split(subject, ".") {
			if token == "" || strings.ContainsAny(token, " *>\t") {
				t.Fatalf("topic %q has the subject %q", topic, subject)
			}
		}
		n := 0
		for _, s := range subjectsOf("p.", filter) {
			if covers(s, subject) {
				n++
			}
		}
		if want := engine.Matches(filter, topic); (n > 0) != want || n > 1 {
			t.Fatalf("filter %q has %q, %d of which cover topic %q at %q; Matches says %v", filter, subjectsOf("p.", filter), n, topic, subject, want)
		}
	}
}

// Numbers are let pass once, in whatever order they come within the window.
func TestWindows(t *testing.T) {
	var w windows
	rng := rand.New(rand.NewPCG(3, 4))
	passed := map[number]int{}
	var late []number
	for n := range uint64(5000) {
		late = append(late, number{n % 3, n}, number{n % 3, n})
		for len(late) > 100 || n == 4999 && len(late) > 0 {
			i := rng.IntN(len(late))
			if w.first(late[i]) {
				passed[late[i]]++
			}
			late = append(late[:i], late[i+1:]...)
		}
	}
	for n := range uint64(5000) {
		if passed[number{n % 3, n}] != 1 {
			t.Fatalf("number %d passed %d times", n, passed[number{n % 3, n}])
		}
	}
	if !w.first(number{9, 1}) || w.first(number{9, 1}) || !w.first(number{9, 1 << 40}) || w.first(number{9, 2}) {
		t.Error("a jump is not taken for one")
	}
}

func TestConfig(t *testing.T) {
	var fields []string
	wrong := func(field, _, _ string) { fields = append(fields, field) }
	Config{}.Check(wrong)
	Config{Node: "n1", Data: "d"}.Check(wrong)
	Config{Node: "n1", Data: "d", Cluster: "h1:1", Routes: []string{"h1:1", "h2:1", "h3:1"}}.Check(wrong)
	if len(fields) > 0 {
		t.Errorf("mistakes where none are: %v", fields)
	}
	Config{Node: "a b", URL: "nats://h:4222", Listen: "x", Routes: []string{"h", "h:1"}, Replicas: 2, MaxBytes: 1, MaxAge: time.Second, Patience: -1}.Check(wrong)
	if got, want := strings.Join(fields, " "), "node listen listen routes[0] cluster replicas max_bytes max_age patience"; got != want {
		t.Errorf("mistakes in %s, want %s", got, want)
	}
	if c := (Config{Data: "d", Cluster: "h1:1", Routes: []string{"h1:1", "h2:1", "h3:1"}}).WithDefaults(); c.Replicas != 3 {
		t.Errorf("three nodes have %d replicas", c.Replicas)
	}
	if c := (Config{Data: "d", Cluster: "h1:1", Routes: []string{"h2:1"}}).WithDefaults(); c.Replicas != 1 {
		t.Errorf("two nodes have %d replicas", c.Replicas)
	}
}

func FuzzDecode(f *testing.F) {
	whole := packet{qos: 2, retain: true, left: time.Minute, sender: 7, number: number{1 << 63, 3}, topic: []byte("a/b"), properties: []byte{1, 0}, payload: []byte("x")}
	f.Add(whole.append(nil))
	f.Add([]byte{format, 0})
	f.Add([]byte{format, 7, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decode(data)
		if err != nil {
			return
		}
		again, err := decode(p.append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.payload, p.payload) || !bytes.Equal(again.topic, p.topic) || !bytes.Equal(again.properties, p.properties) {
			t.Errorf("%s became %s", fmt.Sprint(p), fmt.Sprint(again))
		}
		p.topic, p.properties, p.payload, again.topic, again.properties, again.payload = nil, nil, nil, nil, nil, nil
		if fmt.Sprint(p) != fmt.Sprint(again) {
			t.Errorf("%v became %v", p, again)
		}
	})
}

// What another node diverted to this one is not diverted again.
func TestDivertOnce(t *testing.T) {
	p := New(Config{Node: "n1", Data: "d"}, slog.New(slog.DiscardHandler))
	p.diverted.out = newQueue(p.cfg)
	hub := engine.New(engine.Config{Divert: p})
	defer hub.Close()
	p.hub = hub
	p.SetHolders("t", []string{"n2"})
	hub.SetShare("t", &engine.Share{})
	b := hub.NewBatch()
	b.Begin(live.Now())
	for qos := range byte(3) {
		m := packet{qos: qos, number: number{1, 2}, topic: []byte("t")}
		p.diverted.here = map[number]*remote{}
		p.publish(b, &nats.Msg{Data: m.append(nil)})
		if n := len(p.diverted.out.take(nil)); n != 0 {
			t.Errorf("QoS %d: it was", qos)
		}
	}
	topic, err := hub.Topic([]byte("t"))
	if err != nil {
		t.Fatal(err)
	}
	if v := b.Publish(&engine.Message{Topic: topic, Expires: mono.Never}, 0); v != engine.Went || len(p.diverted.out.take(nil)) != 1 {
		t.Errorf("what is published here is not: %v", v)
	}
	b.End()
}

// publisher notes what became of its messages.
type publisher struct{ stored, refused []uint16 }

func (p *publisher) Released(_ *engine.Batch, _ *engine.Message, id uint16) {
	p.stored = append(p.stored, id)
}

func (p *publisher) Refused(_ *engine.Batch, _ *engine.Message, id uint16, _ error) {
	p.refused = append(p.refused, id)
}

// subscriber notes what it gets.
type subscriber struct {
	publisher
	got []string
}

func (s *subscriber) Online() bool { return true }

func (s *subscriber) Deliver(_ *engine.Batch, m *engine.Message, _ *engine.Target) {
	s.got = append(s.got, string(m.Payload))
}

// Messages that another node was sent and did not answer are published here once no other node has their topic any more.
func TestDivertedComesHome(t *testing.T) {
	p := New(Config{Node: "n1", Data: "d"}, slog.New(slog.DiscardHandler))
	p.diverted.out, p.diverted.under = newQueue(p.cfg), map[number]*away{}
	hub := engine.New(engine.Config{Divert: p})
	defer hub.Close()
	p.hub = hub
	p.SetHolders("t", []string{"n2"})
	hub.SetShare("t", &engine.Share{})
	var s subscriber
	if err := hub.Subscribe("t", &engine.Subscription{Who: &s}); err != nil {
		t.Fatal(err)
	}
	b := hub.NewBatch()
	b.Begin(live.Now())
	topic, err := hub.Topic([]byte("t"))
	if err != nil {
		t.Fatal(err)
	}
	var from publisher
	for id := range uint16(9) {
		if v := b.Publish(&engine.Message{Topic: topic, Payload: []byte{'0' + byte(id)}, Expires: mono.Never, QoS: 1, From: &from}, id); v != engine.Waits {
			t.Fatalf("message %d: %v", id, v)
		}
	}
	for _, e := range p.diverted.out.take(nil) {
		p.sendAway(b, &away{entry: e})
	}
	if len(from.stored)+len(s.got) > 0 || len(p.diverted.under) != 9 {
		t.Fatalf("before an answer %d are acknowledged, %d delivered and %d under way", len(from.stored), len(s.got), len(p.diverted.under))
	}
	hub.SetShare("t", nil)
	p.SetHolders("t", nil)
	for _, a := range p.overdue(live.Now().Add(retryTime)) {
		p.sendAway(b, a)
	}
	b.End()
	if got := strings.Join(s.got, ""); got != "012345678" || len(from.stored) != 9 || len(p.diverted.under) != 0 {
		t.Errorf("%q were delivered, %v acknowledged, %d are under way", got, from.stored, len(p.diverted.under))
	}
}

// What a node was sent that is dead, or not heard, is sent to another one as soon as that has the topic; a node that is there has time to answer.
func TestDivertedOfDeadNode(t *testing.T) {
	for what, want := range map[string]int{"is there": 0, "is connected nowhere": 1, "is not heard": 1} {
		p := New(Config{Node: "n1", Data: "d"}, slog.New(slog.DiscardHandler))
		hub := engine.New(engine.Config{})
		defer hub.Close()
		topic, err := hub.Topic([]byte("t"))
		if err != nil {
			t.Fatal(err)
		}
		of := number{p.origin, 7}
		p.diverted.under = map[number]*away{of: {entry: entry{kept: (&engine.Message{Topic: topic, QoS: 1}).Keep(), number: of}, sent: live.Now(), to: "n2"}}
		p.SetHolders("t", []string{"n2"})
		switch what {
		case "is connected nowhere":
			b := hub.NewBatch()
			b.Begin(live.Now())
			p.answered(b, &nats.Msg{Subject: p.replySubject() + strconv.FormatUint(of.origin, 36) + "-" + strconv.FormatUint(of.count, 36)})
			b.End()
		case "is not heard":
			p.SetDown([]string{"n2"})
		}
		if n := len(p.overdue(live.Now())); n != 0 {
			t.Errorf("a node that %s has its messages sent again while no other one has the topic", what)
		}
		p.SetHolders("t", []string{"n3"})
		if n := len(p.overdue(live.Now())); n != want {
			t.Errorf("of a node that %s %d messages are sent again when another one has the topic, want %d", what, n, want)
		}
	}
}

// What is under way to other nodes is looked through only when a holder, or who is down, has changed: each change of any place tells all holders again.
func TestDivertedIsLeftAlone(t *testing.T) {
	p := New(Config{Node: "n1", Data: "d"}, slog.New(slog.DiscardHandler))
	p.diverted.moved = make(chan struct{}, 1)
	for i, c := range []struct {
		tell func()
		want int
	}{
		{func() { p.SetHolders("t", []string{"n2"}) }, 1},
		{func() { p.SetHolders("t", []string{"n2"}); p.SetHolders("u", nil); p.SetDown(nil) }, 0},
		{func() { p.SetDown([]string{"n2"}) }, 1},
		{func() { p.SetDown([]string{"n2"}) }, 0},
		{func() { p.SetHolders("t", nil) }, 1},
	} {
		if c.tell(); len(p.diverted.moved) != c.want {
			t.Errorf("step %d: it is looked through %d times, want %d", i, len(p.diverted.moved), c.want)
		}
		if c.want > 0 {
			<-p.diverted.moved
		}
	}
}

// A node whose table of topics is full delivers what the log has all the same.
func TestDeliveredWithoutRoom(t *testing.T) {
	hub := engine.New(engine.Config{Topics: 1})
	defer hub.Close()
	var s subscriber
	if err := hub.Subscribe("#", &engine.Subscription{Who: &s, QoS: 1}); err != nil {
		t.Fatal(err)
	}
	b := hub.NewBatch()
	b.Begin(live.Now())
	for _, name := range []string{"a", "b", "c"} {
		pk := packet{qos: 1, topic: []byte(name), payload: []byte(name)}
		m, err := pk.message(hub, b.Now())
		if err != nil {
			t.Fatal(err)
		}
		b.Deliver(&m)
	}
	b.End()
	if got := strings.Join(s.got, ""); got != "abc" {
		t.Errorf("%q were delivered", got)
	}
}

// The order of the stream of retained messages decides which one is the last, whenever this node hears of its own, and no
// other one is retained between that decision and its effect.
func TestRetainedOrder(t *testing.T) {
	var r retained
	calls := func(tell func(topic string, position uint64, retain func()), position uint64) (called bool) {
		tell("t", position, func() {
			called = true
			if r.mu.TryLock() {
				t.Error("another one may come in between")
				r.mu.Unlock()
			}
		})
		return called
	}
	r.store("t") // at 5, here
	if !calls(r.came, 4) || !calls(r.came, 6) || calls(r.stored, 5) {
		t.Error("one that is stored before another's, and known to be later, is taken for the last")
	}
	if len(r.storing) != 0 {
		t.Error("something is kept of it")
	}
	r.store("t")
	r.store("t")
	if !calls(r.came, 7) || !calls(r.stored, 8) || !calls(r.came, 8) || !calls(r.stored, 9) {
		t.Error("one that is stored after another's is not taken for the last")
	}
	r.store("t")
	if calls(r.stored, 0) {
		t.Error("one that is not stored is taken for the last")
	}
	r.sent("t")
	early := calls(r.came, 10)
	r.back("t")
	if early || !calls(r.came, 11) {
		t.Error("what comes before this node's own of QoS 0 is taken for the last")
	}
}

// A message of QoS 0 that was diverted goes on, when it has its token, as one of the node that lets it through, and so does one that came back: others
// have heard much of the node that it is from meanwhile, and would take it for one of those.
func TestDivertedGoesOnAnew(t *testing.T) {
	p := New(Config{Node: "n1", URL: "nats://nowhere:4222"}, slog.New(slog.DiscardHandler))
	p.diverted.out, p.diverted.here = newQueue(p.cfg), map[number]*remote{}
	hub := engine.New(engine.Config{Forward: p})
	defer hub.Close()
	p.hub = hub
	b := hub.NewBatch()
	b.Begin(live.Now())
	first := p.name(&engine.Message{})
	for range 2000 {
		p.name(&engine.Message{})
	}
	pk := packet{retain: true, number: number{9, 1}, topic: []byte("t"), payload: []byte("x")}
	p.publish(b, &nats.Msg{Data: pk.append(nil)})
	topic, err := hub.Topic([]byte("t"))
	if err != nil {
		t.Fatal(err)
	}
	p.home(b, &away{entry: entry{kept: (&engine.Message{Topic: topic, Payload: []byte("y"), Expires: mono.Never}).Keep(), number: first}})
	b.End()
	var heard windows
	heard.first(number{9, 5000})
	heard.first(number{p.origin, 2001})
	all := p.out.take(nil)
	if len(all) != 2 {
		t.Fatalf("%d messages go on, want 2", len(all))
	}
	for _, e := range all {
		if e.origin != p.origin || !heard.first(e.number) {
			t.Errorf("%s goes on as %v: others would take it for one that came", e.kept.Payload, e.number)
		}
	}
}

// An answer to a message that nobody waits for, such as a will, is taken.
func TestAnswerForNobody(t *testing.T) {
	p := New(Config{Node: "n1", Data: "d"}, slog.New(slog.DiscardHandler))
	hub := engine.New(engine.Config{})
	defer hub.Close()
	topic, err := hub.Topic([]byte("t"))
	if err != nil {
		t.Fatal(err)
	}
	b := hub.NewBatch()
	b.Begin(live.Now())
	defer b.End()
	for _, answer := range []byte{replyStored, replyFull} {
		of := number{p.origin, 7}
		p.diverted.under = map[number]*away{of: {entry: entry{kept: (&engine.Message{Topic: topic, QoS: 1}).Keep(), number: of}}}
		p.answered(b, &nats.Msg{Subject: p.replySubject() + strconv.FormatUint(of.origin, 36) + "-" + strconv.FormatUint(of.count, 36), Data: []byte{answer}})
		if len(p.diverted.under) > 0 {
			t.Errorf("after answer %d it is under way", answer)
		}
	}
}

// counter counts what it gets.
type counter struct {
	subscriber
	n atomic.Int64
}

func (c *counter) Deliver(*engine.Batch, *engine.Message, *engine.Target) { c.n.Add(1) }

// A node that ends has sent the others what it let through before, such as the wills of its clients.
func TestSendsBeforeItEnds(t *testing.T) {
	home := New(Config{Node: "n1", Data: t.TempDir(), Listen: "127.0.0.1:0"}, slog.New(slog.DiscardHandler))
	home.alone = false // as if there were other nodes
	open(t, home)
	ends := open(t, New(Config{Node: "n2", URL: home.ClientURL()}, slog.New(slog.DiscardHandler)))
	var c counter
	if err := home.hub.Subscribe("t", &engine.Subscription{Who: &c}); err != nil {
		t.Fatal(err)
	}
	home.Wanted(engine.Interest{Filter: "t"})
	home.interested()
	if err := home.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	const n = 100
	ends.interest.applying.Lock() // so that what is to be sent waits
	ends.interest.open.Store(true)
	m := ends.of(t, "t", "x")
	m.Retain = false
	for range n {
		ends.Forward(nil, m)
	}
	closed := make(chan struct{})
	go func() { defer close(closed); ends.Close() }()
	time.Sleep(20 * time.Millisecond) // as long as it takes, or not, to begin
	ends.interest.applying.Unlock()
	<-closed
	await(t, "all are here", func() bool { return c.n.Load() == n })
}
