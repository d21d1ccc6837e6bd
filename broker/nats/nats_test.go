package nats

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// start starts a server, which ends with the test.
func start(t testing.TB, users access.Config, limits Limits, topics ...engine.Limit) (*Server, string, *access.Book) {
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
	return srv, l.Addr().String(), book
}

func dial(t testing.TB, addr string, options ...client.Option) *client.Conn {
	t.Helper()
	nc, err := client.Connect("nats://"+addr, append([]client.Option{client.NoReconnect(), client.Timeout(patience)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// patience only ends a test that hangs.
const patience = time.Minute

func next(t testing.TB, s *client.Subscription, want string) *client.Msg {
	t.Helper()
	m, err := s.NextMsg(patience)
	if err != nil {
		t.Fatalf("no message %s: %v", want, err)
	}
	if got := m.Subject + "=" + string(m.Data); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	return m
}

func queued(t testing.TB, nc *client.Conn, subject, group string) *client.Subscription {
	t.Helper()
	s, err := nc.QueueSubscribeSync(subject, group)
	if err == nil {
		err = nc.FlushTimeout(patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func subscribed(t testing.TB, nc *client.Conn, subject string) *client.Subscription {
	t.Helper()
	s, err := nc.SubscribeSync(subject)
	if err == nil {
		err = nc.FlushTimeout(patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func flush(t testing.TB, nc *client.Conn) {
	t.Helper()
	if err := nc.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
}

func TestClient(t *testing.T) {
	srv, addr, _ := start(t, access.Config{}, Limits{})
	a, b := dial(t, addr), dial(t, addr, client.NoEcho())
	exact, one, all, own := subscribed(t, a, "a.b"), subscribed(t, a, "a.*"), subscribed(t, a, "a.>"), subscribed(t, b, "a.b")
	for _, subject := range []string{"a", "a.b", "a.b.c", "x"} {
		if err := b.Publish(subject, []byte(subject)); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, b)
	for _, s := range []*client.Subscription{exact, one, all} {
		next(t, s, "a.b=a.b")
	}
	next(t, all, "a.b.c=a.b.c")
	flush(t, a)
	for name, s := range map[string]*client.Subscription{"a.b": exact, "a.*": one, "a.>": all, "without echo": own} {
		if n, _, _ := s.Pending(); n != 0 {
			t.Errorf("%s has %d messages more", name, n)
		}
	}

	other := queued(t, a, "q", "g")
	members := []*client.Subscription{other}
	for range 3 {
		members = append(members, queued(t, b, "q", "g"))
	}
	for range 20 {
		if err := b.Publish("q", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, b)
	for range 20 { // those without echo are passed over
		next(t, other, "q=x")
	}
	for _, s := range members {
		if err := s.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, a)
	flush(t, b)

	m := client.NewMsg("a.b")
	m.Header.Add("One", "1")
	m.Header.Add("One", "2")
	m.Data = make([]byte, 900_000)
	if err := a.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	got, err := exact.NextMsg(patience)
	if err != nil || len(got.Data) != len(m.Data) || fmt.Sprint(got.Header) != "map[One:[1 2]]" {
		t.Errorf("a large message with a header: %v", err)
	}
	next(t, own, "a.b="+string(m.Data))

	if err := exact.AutoUnsubscribe(3); err != nil {
		t.Fatal(err)
	}
	flush(t, a)
	for range 3 {
		_ = b.Publish("a.b", nil)
	}
	flush(t, b)
	next(t, exact, "a.b=")
	if _, err := exact.NextMsg(patience); !errors.Is(err, client.ErrMaxMessages) {
		t.Errorf("after the last message: %v", err)
	}
	flush(t, a)
	if n := srv.hub.Counts().Subscriptions; n != 3 {
		t.Errorf("%d subscriptions, want 3", n)
	}
}

// Each message goes to one member of a group, and members that leave take none.
func TestQueueGroup(t *testing.T) {
	_, addr, _ := start(t, access.Config{}, Limits{})
	pub := dial(t, addr)
	var got [3]atomic.Int64
	var members []*client.Conn
	for i := range got {
		nc := dial(t, addr)
		if _, err := nc.QueueSubscribe("work.*", "workers", func(*client.Msg) { got[i].Add(1) }); err != nil {
			t.Fatal(err)
		}
		flush(t, nc)
		members = append(members, nc)
	}
	total := func() (n int64) {
		for i := range got {
			n += got[i].Load()
		}
		return n
	}
	send := func(n int, subject func(int) string) {
		for i := range n {
			_ = pub.Publish(subject(i), nil)
		}
		flush(t, pub)
	}
	send(300, func(int) string { return "work.1" })
	await(t, "300 messages", func() bool { return total() == 300 })
	for i := range got {
		if n := got[i].Load(); n != 100 {
			t.Errorf("member %d has %d messages, want 100", i, n)
		}
	}
	// Topics that are new do not all begin with the same member.
	send(300, func(i int) string { return fmt.Sprint("work.x", i) })
	await(t, "300 messages more", func() bool { return total() == 600 })
	for i := range got {
		if n := got[i].Load(); n < 150 {
			t.Errorf("member %d has %d messages, want about 200", i, n)
		}
	}
	if err := members[0].Drain(); err != nil {
		t.Fatal(err)
	}
	await(t, "the first to leave", members[0].IsClosed)
	had := got[0].Load()
	send(100, func(int) string { return "work.1" })
	await(t, "100 messages more", func() bool { return total() == 700 })
	if got[0].Load() != had {
		t.Error("a member that left has a message")
	}
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func TestRequest(t *testing.T) {
	srv, addr, _ := start(t, access.Config{}, Limits{}, engine.Limit{Filter: "hard", Rate: 0.001, Burst: 1, Police: true})
	server, nc := dial(t, addr), dial(t, addr)
	for _, subject := range []string{"twice", "hard"} {
		if _, err := server.Subscribe(subject, func(m *client.Msg) { _ = m.Respond(append(m.Data, m.Data...)) }); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, server)
	for range 100 {
		m, err := nc.Request("twice", []byte("x"), patience)
		if err != nil || string(m.Data) != "xx" {
			t.Fatalf("%v, %v", m, err)
		}
	}
	if n := srv.hub.Counts().Topics; n > 3 {
		t.Errorf("%d topics are kept, of replies too", n)
	}
	if _, err := nc.Request("nobody", nil, patience); !errors.Is(err, client.ErrNoResponders) {
		t.Errorf("a request that nobody answers: %v", err)
	}
	for i, want := range []string{"", "429"} {
		m, err := nc.Request("hard", []byte("x"), patience)
		if err != nil || m.Header.Get("Status") != want {
			t.Errorf("request %d to a topic with a limit: %v, %v; want status %q", i, m, err, want)
		}
	}
	js, err := nc.JetStream(client.MaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	var api *client.APIError
	if _, err := js.AccountInfo(); !errors.As(err, &api) && !errors.Is(err, client.ErrJetStreamNotEnabled) {
		t.Errorf("JetStream: %v", err)
	}
}

// What waits goes at the rate of its topic, what is refused is told once, and the
// connection goes on.
func TestRates(t *testing.T) {
	srv, addr, _ := start(t, access.Config{}, Limits{}, engine.Limit{Filter: "slow/+", Rate: 50, Burst: 1}, engine.Limit{Filter: "hard", Rate: 0.001, Burst: 1, Police: true})
	failed := make(chan error, 10)
	sub, pub := dial(t, addr), dial(t, addr, client.ErrorHandler(func(_ *client.Conn, _ *client.Subscription, err error) { failed <- err }))
	s := subscribed(t, sub, ">")
	began := time.Now()
	for i := range 4 {
		_ = pub.Publish("slow.1", []byte{'0' + byte(i)})
	}
	flush(t, pub)
	for i := range 4 {
		next(t, s, fmt.Sprintf("slow.1=%d", i))
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("4 messages at 50/s took %v", took)
	}
	for range 5 {
		_ = pub.Publish("hard", nil)
	}
	flush(t, pub)
	next(t, s, "hard=")
	if err := <-failed; !strings.Contains(err.Error(), "over the rate") {
		t.Errorf("the client is told %v", err)
	}
	if n := srv.Stats().Refused; n != 4 || len(failed) > 0 {
		t.Errorf("%d messages were refused, and %d errors told; want 4 and none more", n, len(failed))
	}
}

func hash(t testing.TB, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func TestUsers(t *testing.T) {
	users := access.Config{Users: []access.User{{Name: "ann", Password: hash(t, "a"), Publish: []string{"ann/#"}, Subscribe: []string{"news/#", "_INBOX/#"}}, {Name: "bob", Password: hash(t, "b")}}}
	srv, addr, book := start(t, users, Limits{})
	for _, o := range []client.Option{client.UserInfo("ann", "b"), client.UserInfo("eve", "a"), client.Name("nobody"), client.Token("a")} {
		if nc, err := client.Connect("nats://"+addr, client.NoReconnect(), client.Timeout(patience), o); !errors.Is(err, client.ErrAuthorization) {
			t.Errorf("let in, or: %v", err)
			if err == nil {
				nc.Close()
			}
		}
	}
	failed := make(chan error, 10)
	ann := dial(t, addr, client.UserInfo("ann", "a"), client.ErrorHandler(func(_ *client.Conn, _ *client.Subscription, err error) { failed <- err }))
	bob := dial(t, addr, client.UserInfo("bob", "b"))
	all := subscribed(t, bob, ">")
	if _, err := ann.SubscribeSync("secret.*"); err != nil {
		t.Fatal(err)
	}
	news := subscribed(t, ann, "news.>")
	if err := <-failed; !errors.Is(err, client.ErrPermissionViolation) || !strings.Contains(err.Error(), "secret.*") {
		t.Errorf("a subscription that is not allowed: %v", err)
	}
	_ = ann.Publish("bob.1", nil)
	_ = ann.Publish("ann.1", nil)
	flush(t, ann)
	next(t, all, "ann.1=")
	if err := <-failed; !errors.Is(err, client.ErrPermissionViolation) || !strings.Contains(err.Error(), "bob.1") {
		t.Errorf("a message that is not allowed: %v", err)
	}
	_ = bob.Publish("news.1", nil)
	_ = bob.Publish("secret.1", nil)
	flush(t, bob)
	next(t, news, "news.1=")
	if err := book.Set(access.Config{Users: users.Users[1:]}); err != nil {
		t.Fatal(err)
	}
	srv.Review()
	if err := <-failed; !errors.Is(err, client.ErrAuthRevoked) {
		t.Errorf("a user that is gone is told %v", err)
	}
	flush(t, bob)
}

// raw says lines and returns all that the server answers until it closes or answers
// the last PING.
func raw(t *testing.T, addr, say string) string {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(nc)
	if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "INFO {") {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = io.WriteString(nc, say)
	var all strings.Builder
	for {
		line, err := r.ReadString('\n')
		all.WriteString(line)
		if err != nil || line == "PONG\r\n" {
			return all.String()
		}
	}
}

// A later CONNECT changes what a client is sent, while messages come.
func TestConnectAgain(t *testing.T) {
	_, addr, _ := start(t, access.Config{}, Limits{})
	done, over := make(chan struct{}), make(chan struct{})
	other := dial(t, addr)
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
				_ = other.Publish("b", []byte("x"))
				_ = other.Flush()
			}
		}
	}()
	lines := "CONNECT {}\r\nSUB a 1\r\nSUB b 2\r\n"
	for range 100 {
		lines += "CONNECT {\"headers\":true}\r\nCONNECT {\"echo\":false}\r\n"
	}
	if got := raw(t, addr, lines+"PUB a 1\r\nx\r\nPING\r\n"); strings.Contains(got, "MSG a") {
		t.Errorf("without echo came %q", got)
	}
	close(over)
	<-done
}

func TestLines(t *testing.T) {
	srv, addr, _ := start(t, access.Config{}, Limits{Payload: 1000, Subscriptions: 2})
	for say, want := range map[string]string{
		"CONNECT {\"verbose\":true}\r\nSUB a 1\r\nPUB a 1\r\nx\r\nUNSUB 1\r\nPING\r\n": "+OK\r\n+OK\r\n+OK\r\nMSG a 1 1\r\nx\r\n+OK\r\nPONG\r\n",
		"SUB a 1\r\nSUB a 2\r\nSUB a 3\r\nPING\r\n":                                    "+OK\r\n+OK\r\n-ERR 'maximum subscriptions exceeded'\r\nPONG\r\n",
		"SUB a+b 1\r\nPING\r\n":     "-ERR 'Permissions Violation for Subscription to \"a+b\": no subject that can be subscribed to'\r\nPONG\r\n",
		"PUB a.* 0\r\n\r\nPING\r\n": "-ERR 'Invalid Publish Subject'\r\nPONG\r\n",
		"CONNECT {\"verbose\":false,\"pedantic\":false}\r\nPUB a.* 0\r\n\r\nPING\r\n": "-ERR 'Permissions Violation for Publish to \"\": no subject that can be published to'\r\nPONG\r\n",
		"PUB a 1001\r\n":                       "-ERR 'Maximum Payload Violation'\r\n",
		"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n": "-ERR 'message headers not supported'\r\n",
		"CONNECT {\"user\":7}\r\n":             "-ERR 'Parser Error'\r\n",
		"hello\r\n":                            "-ERR 'Unknown Protocol Operation'\r\n",
		strings.Repeat("a", maxLine):           "-ERR 'maximum control line exceeded'\r\n",
	} {
		if got := raw(t, addr, say); got != want {
			t.Errorf("%.60q is answered %q, want %q", say, got, want)
		}
	}
	s := srv.Stats()
	if s.Closed["Parser Error"] != 1 || s.Closed["Maximum Payload Violation"] != 1 || s.Refused != 2 {
		t.Errorf("the numbers are %+v", s)
	}
}

func TestLimits(t *testing.T) {
	_, addr, _ := start(t, access.Config{}, Limits{Connect: 50 * time.Millisecond})
	if got := raw(t, addr, ""); got != "-ERR 'Authentication Timeout'\r\n" {
		t.Errorf("a client that says nothing is answered %q", got)
	}
	_, addr, _ = start(t, access.Config{}, Limits{Ping: 20 * time.Millisecond})
	if got := raw(t, addr, "CONNECT {}\r\n"); got != "+OK\r\nPING\r\nPING\r\n-ERR 'Stale Connection'\r\n" {
		t.Errorf("a client that answers no ping is answered %q", got)
	}
	srv, addr, _ := start(t, access.Config{}, Limits{Connections: 1})
	raw(t, addr, "PING\r\n")
	await(t, "the connection to end", func() bool { return srv.Stats().Connections == 0 }) // which makes room
	dial(t, addr)
	if nc, err := net.Dial("tcp", addr); err == nil {
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(patience))
		if n, err := nc.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Error("a connection more than may be is served")
		}
	}
	if n := srv.Stats().Turned; n != 1 {
		t.Errorf("%d connections were turned away, want 1", n)
	}
}

// A client that makes as many topics as it may is refused further ones; others are
// not, and replies do not count.
func TestTopics(t *testing.T) {
	srv, addr, _ := start(t, access.Config{}, Limits{Topics: 3})
	failed := make(chan error, 10)
	a := dial(t, addr, client.ErrorHandler(func(_ *client.Conn, _ *client.Subscription, err error) { failed <- err }))
	for i := range 5 {
		_ = a.Publish(fmt.Sprint("t.", i), nil)
		_ = a.Publish(fmt.Sprint("_INBOX.", i), nil)
	}
	flush(t, a)
	if err := <-failed; !strings.Contains(err.Error(), "3 of one client") {
		t.Errorf("the client is told %v", err)
	}
	b := dial(t, addr)
	_ = b.Publish("t.4", nil)
	flush(t, b)
	if n := srv.hub.Counts().Topics; n != 4 || srv.Stats().Refused != 2 {
		t.Errorf("%d topics, %d messages refused; want 4 and 2", n, srv.Stats().Refused)
	}
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	srv, addr, _ := start(t, access.Config{}, Limits{}, engine.Limit{Filter: "limited", Rate: 1e8, Burst: 1e6})
	sub, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(sub, "CONNECT {\"headers\":true}\r\nSUB > 1\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	await(t, "the subscription", func() bool { return srv.hub.Counts().Subscriptions == 1 })
	done := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, sub); close(done) }()
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	c := srv.newConn(near, nil)
	if err := c.greet(); err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{"CONNECT {\"verbose\":false,\"headers\":true}\r\n", "PUB free.a 3\r\nabc\r\n", "PUB limited 3\r\nabc\r\n", "HPUB free.a r.1 18 21\r\nNATS/1.0\r\nA: b\r\n\r\nabc\r\n"} {
		in := make([]byte, len(say))
		give := func() {
			copy(in, say) // which the handler may change
			if used, _, err := c.handle(in); err != nil || used != len(in) {
				t.Fatal(used, err)
			}
		}
		give()
		if strings.HasPrefix(say, "CONNECT") {
			continue
		}
		for range 1000 {
			give()
		}
		if n := testing.AllocsPerRun(1000, give); n > 0.1 {
			t.Errorf("%q: %v allocations", say, n)
		}
	}
	c.finish(io.EOF)
	far.Close()
	sub.Close()
	<-done
}

// A subscriber that does not read loses messages and delays nobody.
func TestSlowSubscriber(t *testing.T) {
	srv, addr, _ := start(t, access.Config{}, Limits{Outbound: 64 << 10, Payload: 32 << 10})
	slow, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_ = slow.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := io.WriteString(slow, "SUB flood 1\r\n"); err != nil {
		t.Fatal(err)
	}
	await(t, "the subscription", func() bool { return srv.hub.Counts().Subscriptions == 1 })
	sub, pub := dial(t, addr), dial(t, addr)
	s := subscribed(t, sub, "other")
	for i := 0; srv.Stats().Dropped[dropOutbound] == 0; i++ {
		if i > 100_000 {
			t.Fatal("no message is dropped")
		}
		_ = pub.Publish("flood", make([]byte, 16<<10))
		_ = pub.Publish("other", nil)
		flush(t, pub)
		next(t, s, "other=")
	}
}

// Whatever a client says, the connection goes on or ends with an error.
func FuzzConn(f *testing.F) {
	for _, s := range []string{"CONNECT {\"verbose\":true,\"headers\":true,\"no_responders\":true}\r\nSUB a.> 1\r\nPUB a.b c 1\r\nx\r\nHPUB a.b 12 12\r\nNATS/1.0\r\n\r\n\r\nUNSUB 1 1\r\nPING\r\n",
		"SUB > q 1\r\nPUB $JS.API.INFO r 0\r\n\r\n", "CONNECT {\"user\":\"a\",\"pass\":\"b\"}\r\n", "PUB a* 0\r\n\r\nPUB _INBOX.x 0\r\n\r\n"} {
		f.Add([]byte(s))
	}
	book, err := access.New(access.Config{})
	if err != nil {
		f.Fatal(err)
	}
	hub := engine.New(engine.Config{Topics: 100, Limits: []engine.Limit{{Filter: "a/b", Rate: 1, Burst: 1, Police: true}}})
	f.Cleanup(hub.Close)
	srv := NewServer(hub, book, Limits{Payload: 1000}, slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, in []byte) {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() { _, _ = io.Copy(io.Discard, far); close(done) }()
		c := srv.newConn(near, nil)
		if err := c.greet(); err != nil {
			t.Fatal(err)
		}
		used, _, err := c.handle(in)
		if used > len(in) {
			t.Fatalf("used %d of %d bytes", used, len(in))
		}
		c.finish(err)
		<-done
		if n := hub.Counts().Subscriptions; n != 0 {
			t.Fatalf("%d subscriptions are left", n)
		}
	})
}
