package nsq

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nsqio/go-nsq"
	"golang.org/x/crypto/bcrypt"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// patience only ends a test that hangs.
const patience = time.Minute

// start starts a server, which ends with the test.
func start(t testing.TB, users access.Config, limits Limits, topics ...engine.Limit) (*Server, string) {
	t.Helper()
	limits.Check(func(field, value, want string) { t.Fatalf("limits: %s: %s, expected %s", field, value, want) })
	book, err := access.New(users)
	if err != nil {
		t.Fatal(err)
	}
	hub := engine.New(engine.Config{Limits: topics})
	srv := NewServer(hub, book, limits, slog.New(slog.DiscardHandler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = srv.Serve(l, nil); close(done) }()
	t.Cleanup(func() {
		l.Close()
		<-done
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		hub.Close()
	})
	return srv, l.Addr().String()
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func configure(change ...func(*client.Config)) *client.Config {
	c := client.NewConfig()
	c.MaxInFlight = 10
	for _, f := range change {
		f(c)
	}
	return c
}

func producer(t testing.TB, addr string, change ...func(*client.Config)) *client.Producer {
	t.Helper()
	p, err := client.NewProducer(addr, configure(change...))
	if err != nil {
		t.Fatal(err)
	}
	p.SetLoggerLevel(client.LogLevelMax)
	t.Cleanup(p.Stop)
	return p
}

// consumer gives the messages of a channel to handle until the test ends, or until
// stop is called.
func consumer(t testing.TB, addr, topic, channel string, handle func(*client.Message) error, change ...func(*client.Config)) (stop func()) {
	t.Helper()
	c, err := client.NewConsumer(topic, channel, configure(change...))
	if err != nil {
		t.Fatal(err)
	}
	c.SetLoggerLevel(client.LogLevelMax)
	c.AddHandler(client.HandlerFunc(handle))
	if err := c.ConnectToNSQD(addr); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() { once.Do(func() { c.Stop(); <-c.StopChan }) }
	t.Cleanup(stop)
	return stop
}

// bag collects bodies of messages.
type bag struct {
	mu sync.Mutex
	in []string
}

func (b *bag) put(m *client.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.in = append(b.in, string(m.Body))
	return nil
}

func (b *bag) sorted() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(slices.Values(b.in))
}

func (b *bag) len() int { return len(b.sorted()) }

// Every channel has every message, the consumers of one share them.
func TestClient(t *testing.T) {
	srv, addr := start(t, access.Config{}, Limits{})
	var one, two, other bag
	consumer(t, addr, "a.b", "shared", one.put)
	consumer(t, addr, "a.b", "shared", two.put)
	consumer(t, addr, "a.b", "alone", other.put)
	await(t, "three consumers that are ready", func() bool { return ready(srv) == 3 })
	p := producer(t, addr)
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("m%02d", i))
	}
	for _, m := range want[:10] {
		if err := p.Publish("a.b", []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	var rest [][]byte
	for _, m := range want[10:19] {
		rest = append(rest, []byte(m))
	}
	if err := p.MultiPublish("a.b", rest); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := p.DeferredPublish("a.b", 30*time.Millisecond, []byte(want[19])); err != nil {
		t.Fatal(err)
	}
	await(t, "20 messages in each channel", func() bool { return other.len() == 20 && one.len()+two.len() == 20 })
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("the deferred message came after %v", took)
	}
	if got := other.sorted(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if one.len() == 0 || two.len() == 0 {
		t.Error("one consumer has all messages")
	}
	await(t, "all messages to be finished", func() bool { return held(srv) == 0 })
}

// held counts the messages of the channels with a name, or of all without one.
func held(srv *Server, names ...string) (n int) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for _, ch := range srv.channels {
		if len(names) > 0 && !slices.Contains(names, ch.key.name) {
			continue
		}
		ch.mu.Lock()
		n += ch.held
		ch.mu.Unlock()
	}
	return n
}

// ready counts the consumers that take messages.
func ready(srv *Server) (n int) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for _, ch := range srv.channels {
		ch.mu.Lock()
		for _, c := range ch.consumers {
			if c.ready > 0 {
				n++
			}
		}
		ch.mu.Unlock()
	}
	return n
}

// A client that asks for compression is told that there is none, and goes on without.
func TestNoCompression(t *testing.T) {
	for name, asks := range map[string]func(*client.Config){
		"deflate": func(c *client.Config) { c.Deflate = true },
		"snappy":  func(c *client.Config) { c.Snappy = true },
	} {
		srv, addr := start(t, access.Config{}, Limits{})
		var got bag
		consumer(t, addr, "t", "c", got.put, asks)
		await(t, name+": a consumer that is ready", func() bool { return ready(srv) == 1 })
		if err := producer(t, addr, asks).Publish("t", []byte("m")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		await(t, name+": the message", func() bool { return got.len() == 1 })
	}
}

// What a handler refuses, or does not finish in time, comes again.
func TestAgain(t *testing.T) {
	srv, addr := start(t, access.Config{}, Limits{})
	var refused, late atomic.Int32
	consumer(t, addr, "refused", "c", func(m *client.Message) error {
		refused.Store(int32(m.Attempts))
		if m.Attempts == 1 {
			m.RequeueWithoutBackoff(time.Millisecond)
			return nil
		}
		if m.Attempts == 2 {
			m.RequeueWithoutBackoff(0)
		}
		return nil
	})
	var kept []*client.Message
	consumer(t, addr, "late", "c", func(m *client.Message) error {
		late.Add(1)
		if m.Attempts < 3 {
			m.DisableAutoResponse()
			kept = append(kept, m)
			return nil
		}
		for _, m := range kept {
			m.Finish() // too late, which the server says
		}
		return nil
	}, func(c *client.Config) { c.MsgTimeout = 100 * time.Millisecond })
	await(t, "two channels", func() bool { return srv.hub.Counts().Subscriptions == 2 })
	p := producer(t, addr)
	for _, topic := range []string{"refused", "late"} {
		if err := p.Publish(topic, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	// An attempt more if the third was not finished in time either.
	await(t, "three attempts", func() bool { return refused.Load() == 3 && late.Load() >= 3 })
	await(t, "all messages to be finished", func() bool { return held(srv) == 0 })
}

// A consumer that goes leaves its messages to others; a channel keeps what comes
// while it has none, unless it is ephemeral.
func TestConsumersGo(t *testing.T) {
	srv, addr := start(t, access.Config{}, Limits{Queue: 3})
	first := newPeer(t, addr)
	first.say("SUB topic c\nRDY 2\n")
	first.want(frameResponse, "OK")
	var gone bag
	stop := consumer(t, addr, "topic", "e#ephemeral", gone.put)
	await(t, "two channels", func() bool { return srv.hub.Counts().Subscriptions == 2 })
	p := producer(t, addr)
	for i := range 5 {
		if err := p.Publish("topic", []byte{'0' + byte(i)}); err != nil {
			t.Fatal(err)
		}
		// One at a time, because this channel drops what is beyond its queue too.
		await(t, "the ephemeral channel to be empty", func() bool { return held(srv, "e#ephemeral") == 0 })
	}
	if _, m := first.next(); !strings.HasSuffix(m, "0") {
		t.Errorf("the first message is %q", m)
	}
	await(t, "the ephemeral channel", func() bool { return gone.len() == 5 })
	stop()
	await(t, "the ephemeral channel to end", func() bool { return srv.hub.Counts().Subscriptions == 1 })
	first.nc.Close()
	await(t, "the consumer to go", func() bool { return srv.Stats().Connections == 1 })
	var late bag
	consumer(t, addr, "topic", "c", late.put)
	await(t, "what was kept", func() bool { return late.len() == 3 })
	if got := late.sorted(); fmt.Sprint(got) != "[0 1 2]" || srv.Stats().Dropped[dropQueue] != 2 {
		t.Errorf("got %v, dropped %v", got, srv.Stats().Dropped)
	}
}

// OK comes when the message has gone, in the order of commands; what is refused is
// an error of that command alone.
func TestRates(t *testing.T) {
	srv, addr := start(t, access.Config{}, Limits{}, engine.Limit{Filter: "slow", Rate: 20, Burst: 1}, engine.Limit{Filter: "hard", Rate: 0.001, Burst: 1, Police: true})
	c := newPeer(t, addr)
	began := time.Now()
	c.say(pub("slow", "1") + pub("slow", "2") + pub("hard", "1") + pub("hard", "2") + pub("free", "1"))
	c.want(frameResponse, "OK")
	c.want(frameResponse, "OK")
	if took := time.Since(began); took < 45*time.Millisecond {
		t.Errorf("the second message at 20/s was answered after %v", took)
	}
	c.want(frameResponse, "OK")
	c.want(frameError, "E_PUB_FAILED over the rate of the topic (over_rate)")
	c.want(frameResponse, "OK")
	p := producer(t, addr)
	var perr client.ErrProtocol
	if err := p.MultiPublish("hard", [][]byte{[]byte("3"), []byte("4")}); !errors.As(err, &perr) || !strings.HasPrefix(perr.Reason, "E_MPUB_FAILED") {
		t.Errorf("MPUB over the rate: %v", err)
	}
	if n := srv.Stats().Refused; n != 3 {
		t.Errorf("%d messages were refused, want 3", n)
	}
}

func TestUsers(t *testing.T) {
	h, err := bcrypt.GenerateFromPassword([]byte("a:b"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	srv, addr := start(t, access.Config{Users: []access.User{{Name: "ann", Password: string(h), Publish: []string{"ann/#"}, Subscribe: []string{"ann/+"}}}}, Limits{})
	secret := func(s string) func(*client.Config) { return func(c *client.Config) { c.AuthSecret = s } }
	var got bag
	consumer(t, addr, "ann.1", "c", got.put, secret("ann:a:b"))
	await(t, "the channel", func() bool { return srv.hub.Counts().Subscriptions == 1 })
	p := producer(t, addr, secret("ann:a:b"))
	if err := p.Publish("ann.1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	await(t, "a message", func() bool { return got.len() == 1 })
	if err := p.Publish("bob", []byte("x")); err == nil || !strings.Contains(err.Error(), "E_UNAUTHORIZED") {
		t.Errorf("a message that is not allowed: %v", err)
	}
	if err := producer(t, addr, secret("ann:a")).Ping(); err == nil || !strings.Contains(err.Error(), "E_UNAUTHORIZED") {
		t.Errorf("a wrong password: %v", err)
	}
	for say, want := range map[string]string{pub("ann.1", "x"): "E_AUTH_FIRST", body("AUTH\n", "ann:a:b") + "SUB ann.1.2 c\n": "E_UNAUTHORIZED"} {
		c := newPeer(t, addr)
		c.say(say)
		kind, text := c.next()
		if strings.HasPrefix(say, "AUTH") {
			kind, text = c.next()
		}
		if kind != frameError || !strings.HasPrefix(text, want) {
			t.Errorf("%q is answered %q, want %s", say, text, want)
		}
	}
	await(t, "two that are refused to be counted", func() bool { return srv.Stats().Closed["E_UNAUTHORIZED"] >= 3 })
}

// peer says and hears single frames.
type peer struct {
	t  *testing.T
	nc net.Conn
}

func newPeer(t *testing.T, addr string) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	p := &peer{t, nc}
	p.say(magic)
	return p
}

func (p *peer) say(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.nc, text); err != nil {
		p.t.Fatal(err)
	}
}

// next returns the next frame; its kind is -1 at the end.
func (p *peer) next() (kind int, data string) {
	p.t.Helper()
	head := make([]byte, frameSize)
	if _, err := io.ReadFull(p.nc, head); err != nil {
		return -1, err.Error()
	}
	text := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(p.nc, text); err != nil {
		p.t.Fatal(err)
	}
	return int(head[7]), string(text)
}

func (p *peer) want(kind int, data string) {
	p.t.Helper()
	if k, d := p.next(); k != kind || d != data {
		p.t.Fatalf("got frame %d %q, want %d %q", k, d, kind, data)
	}
}

func body(line, data string) string {
	return line + string(binary.BigEndian.AppendUint32(nil, uint32(len(data)))) + data
}

func pub(topic, data string) string { return body("PUB "+topic+"\n", data) }

func TestCommands(t *testing.T) {
	srv, addr := start(t, access.Config{}, Limits{Message: 1000, Body: 2000, Ready: 5, Channels: 1, Unanswered: 2, Deferred: 1}, engine.Limit{Filter: "slow", Rate: 0.001, Burst: 1})
	long := strings.Repeat("x", 1001)
	for _, tt := range []struct {
		say  string
		want []string // frames; the connection ends after the last if that is an error of the protocol
	}{
		{"NOP\nNOP\n" + body("IDENTIFY\n", "{}") + pub("a", "x"), []string{"OK", "OK"}},
		{"SUB a c\nRDY 5\nCLS\n", []string{"OK", "CLOSE_WAIT"}},
		{"SUB a c\nFIN 0123456789abcdef\nREQ 0123456789abcdef 0\nTOUCH 0123456789abcdef\nCLS\n", []string{"OK", "E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED", "CLOSE_WAIT"}},
		{"SUB a c\nTOUCH xyz\n", []string{"OK", "E_INVALID"}}, {"SUB a c\nCLS\nCLS\n", []string{"OK", "CLOSE_WAIT", "E_INVALID"}},
		{"SUB a c\nRDY x\n", []string{"OK", "E_INVALID"}}, {"SUB a c\nREQ 0123456789abcdef x\n", []string{"OK", "E_INVALID"}}, {"SUB a c\nFIN\n", []string{"OK", "E_INVALID"}},
		{"FIN 0123456789abcdef\n", []string{"E_INVALID"}}, {"CLS\n", []string{"E_INVALID"}}, {body("IDENTIFY\n", "{}") + body("IDENTIFY\n", "{}"), []string{"OK", "E_INVALID"}},
		{body("IDENTIFY\n", `{"heartbeat_interval":-1}`) + "SUB a c\n", []string{"OK", "E_INVALID"}}, {body("IDENTIFY\n", `{"heartbeat_interval":60001}`), []string{"E_BAD_BODY"}},
		{body("MPUB a\n", "\x00\x00\x00\x02\x00\x00\x00\x01x\x00\x00\x00\x01y"), []string{"OK"}}, {body("MPUB a\n", "\x00\x00\x00\x00"), []string{"E_BAD_BODY"}},
		{body("MPUB a\n", "\x00\x00\x00\x01\x00\x00\x00\x00"), []string{"E_BAD_BODY"}}, {body("MPUB a\n", "\x00\x00\x00\x01\x00\x00\x03\xe9"+long), []string{"E_BAD_MESSAGE"}},
		{body("DPUB a x\n", "x"), []string{"E_INVALID"}}, {body("DPUB a -1\n", "x"), []string{"E_INVALID"}}, {pub(strings.Repeat("a", 65), "x"), []string{"E_BAD_TOPIC"}}, {pub("a#ephemeral", "x"), []string{"OK"}},
		{"SUB a c\nSUB a c\n", []string{"OK", "E_INVALID"}},
		{"SUB a d\n", []string{"E_BAD_CHANNEL"}},
		{"SUB a c\nRDY 6\n", []string{"OK", "E_INVALID"}},
		{"SUB a! c\n", []string{"E_BAD_TOPIC"}}, {"SUB a c!\n", []string{"E_BAD_CHANNEL"}}, {"SUB a\n", []string{"E_INVALID"}},
		{"RDY 1\n", []string{"E_INVALID"}}, {"GET / HTTP/1.1\n", []string{"E_INVALID"}}, {strings.Repeat("x", maxLine), []string{"E_INVALID"}},
		{pub("a", long), []string{"E_BAD_MESSAGE"}}, {pub("a", ""), []string{"E_BAD_MESSAGE"}}, {pub("", "x"), []string{"E_BAD_TOPIC"}},
		{body("MPUB a\n", "\x00\x00\x00\x02\x00\x00\x00\x01x"), []string{"E_BAD_BODY"}},
		{body("MPUB a\n", strings.Repeat("x", 2001)), []string{"E_BAD_BODY"}},
		{body("DPUB a 3600001\n", "x"), []string{"E_INVALID"}},
		{body("DPUB a 3600000\n", "x") + body("DPUB a 1\n", "x"), []string{"OK", "E_DPUB_FAILED"}},
		{body("IDENTIFY\n", "[]"), []string{"E_BAD_BODY"}}, {body("IDENTIFY\n", `{"heartbeat_interval":1}`), []string{"E_BAD_BODY"}},
		{body("IDENTIFY\n", `{"msg_timeout":-5}`), []string{"E_BAD_BODY"}},
		{pub("slow", "x") + pub("slow", "x") + pub("slow", "x") + pub("slow", "x"), []string{"OK", "E_PUB_FAILED"}},
	} {
		p := newPeer(t, addr)
		p.say(tt.say)
		for _, want := range tt.want {
			kind, got := p.next()
			if code, _, _ := strings.Cut(got, " "); code != want || kind == frameError != strings.HasPrefix(want, "E_") {
				t.Errorf("%.60q is answered %d %q, want %s", tt.say, kind, got, want)
				break
			}
		}
		p.nc.Close()
	}
	bad := &peer{t: t}
	bad.nc, _ = net.Dial("tcp", addr)
	defer bad.nc.Close()
	_ = bad.nc.SetDeadline(time.Now().Add(patience))
	bad.say("GET ")
	if _, got := bad.next(); !strings.HasPrefix(got, "E_BAD_PROTOCOL") {
		t.Errorf("another protocol is answered %q", got)
	}
	if n := srv.Stats().Closed["E_BAD_BODY"]; n != 8 {
		t.Errorf("%d connections were closed with E_BAD_BODY, want 8", n)
	}
}

// A consumer that has said CLS gets no further message, also if it says RDY afterwards.
func TestClosing(t *testing.T) {
	_, addr := start(t, access.Config{}, Limits{})
	p := newPeer(t, addr)
	p.say("SUB a c\nRDY 1\nCLS\nRDY 5\n" + pub("a", "x") + "FIN 0123456789abcdef\n")
	p.want(frameResponse, "OK")
	p.want(frameResponse, "CLOSE_WAIT")
	p.want(frameResponse, "OK")
	if kind, text := p.next(); kind != frameError {
		t.Errorf("got frame %d %q after CLS", kind, text)
	}
}

func TestHeartbeat(t *testing.T) {
	srv, addr := start(t, access.Config{}, Limits{Heartbeat: 200 * time.Millisecond})
	p := newPeer(t, addr)
	p.say("SUB a c\n")
	p.want(frameResponse, "OK")
	p.want(frameResponse, "_heartbeat_")
	for {
		kind, text := p.next()
		if kind == -1 {
			break
		}
		if text != "_heartbeat_" {
			t.Fatalf("a client that says nothing is told %d %q", kind, text)
		}
	}
	await(t, "the client to be counted", func() bool { return srv.Stats().Closed["silent"] == 1 })
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	srv, addr := start(t, access.Config{}, Limits{}, engine.Limit{Filter: "limited", Rate: 1e8, Burst: 1e6})
	p := newPeer(t, addr)
	p.say("SUB free c\nRDY 2500\n")
	p.want(frameResponse, "OK")
	done := make(chan struct{})
	_ = p.nc.SetDeadline(time.Time{})
	go func() {
		defer close(done)
		frame := make([]byte, frameSize+messageHead+3)
		fin := []byte("FIN 0123456789abcdef\n")
		for {
			if _, err := io.ReadFull(p.nc, frame); err != nil {
				return
			}
			copy(fin[4:], frame[frameSize+10:frameSize+10+idSize])
			if _, err := p.nc.Write(fin); err != nil {
				return
			}
		}
	}()
	near, far := pair(t)
	go func() { _, _ = io.Copy(io.Discard, far) }()
	c := srv.newConn(near, nil)
	if err := c.open(); err != nil {
		t.Fatal(err)
	}
	c.begun = true
	for _, topic := range []string{"free", "limited"} {
		in := []byte(pub(topic, "abc"))
		give := func() {
			if used, _, err := c.handle(in); err != nil || used != len(in) {
				t.Fatal(used, err)
			}
			for held(srv) > 0 {
				time.Sleep(10 * time.Microsecond) // the network is looked at
			}
		}
		for range 200 {
			give()
		}
		if n := testing.AllocsPerRun(200, give); n > 0.2 {
			t.Errorf("%s: %v allocations", topic, n)
		}
	}
	c.finish(io.EOF)
	far.Close()
	p.nc.Close()
	<-done
}

// pair returns the ends of a connection.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if far, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if near, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{pub("a.b", "x"), body("IDENTIFY\n", "{}"), "SUB a c\n", "FIN 0123456789abcdef\n", body("MPUB a\n", "\x00\x00\x00\x02\x00\x00\x00\x01x\x00\x00\x00\x02yz"), "NOP\nCLS\n"} {
		f.Add([]byte(s))
	}
	l := Limits{Message: 1000, Body: 2000}.WithDefaults()
	f.Fuzz(func(t *testing.T, in []byte) {
		var c command
		used, need, err := parse(in, &l, &c)
		switch {
		case err != nil:
			return
		case need > 0:
			if need <= len(in) || used != 0 || need > len(in)+maxLine+maxOptions+5 {
				t.Fatalf("%d bytes, used %d, need %d", len(in), used, need)
			}
			return
		case used <= 0 || used > len(in):
			t.Fatalf("used %d of %d", used, len(in))
		}
		total := 0
		if n, err := messages(c.body, l.Message, func(m []byte) { total += 4 + len(m) }); err == nil && (n == 0 || total+4 != len(c.body)) {
			t.Fatalf("%d messages of %d bytes in %d", n, total, len(c.body))
		}
		if name, ok := topicName(nil, c.params[0]); ok && bytes.ContainsAny(name, "+#\x00") {
			t.Fatalf("the topic of %q is %q", c.params[0], name)
		}
		if id, ok := parseID(c.params[0]); ok && !bytes.Contains(appendMessage(nil, 0, 1, id, nil), c.params[0]) {
			t.Fatalf("%q comes back as another", c.params[0])
		}
	})
}

// Whatever a client says, the connection goes on or ends with an error, and what it
// had in flight is another's.
func FuzzConn(f *testing.F) {
	for _, s := range []string{magic + body("IDENTIFY\n", `{"feature_negotiation":true,"heartbeat_interval":1000}`) + "SUB a c#ephemeral\nRDY 2\n" + pub("a", "x") + "FIN 0000000000000001\nTOUCH 0000000000000001\nREQ 0000000000000001 5\nCLS\n",
		magic + body("MPUB a.b\n", "\x00\x00\x00\x02\x00\x00\x00\x01x\x00\x00\x00\x02yz") + body("DPUB a 0\n", "x") + body("AUTH\n", "a:b"), "  V3"} {
		f.Add([]byte(s))
	}
	book, err := access.New(access.Config{})
	if err != nil {
		f.Fatal(err)
	}
	hub := engine.New(engine.Config{Topics: 100, Limits: []engine.Limit{{Filter: "a/b", Rate: 1, Burst: 1}}})
	f.Cleanup(hub.Close)
	srv := NewServer(hub, book, Limits{Channels: 5, Queue: 10, Deferred: 5}, slog.New(slog.DiscardHandler))
	f.Cleanup(func() { _ = srv.Shutdown(context.Background()) })
	f.Fuzz(func(t *testing.T, in []byte) {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() { _, _ = io.Copy(io.Discard, far); close(done) }()
		c := srv.newConn(near, nil)
		if err := c.open(); err != nil {
			t.Fatal(err)
		}
		used, _, err := c.handle(in)
		if used > len(in) {
			t.Fatalf("used %d of %d bytes", used, len(in))
		}
		c.finish(err)
		<-done
		if c.flying != 0 {
			t.Fatalf("%d messages are in flight at a connection that ended", c.flying)
		}
	})
}
