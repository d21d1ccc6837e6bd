package nsq

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	client "github.com/nsqio/go-nsq"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
)

// startNode starts a node that stores. It ends with the test, or by stop.
func startNode(t *testing.T, cfg backplane.Config, limits ...Limits) (srv *Server, p *backplane.Plane, addr string, stop func()) {
	t.Helper()
	book, err := access.New(access.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p = backplane.New(cfg, slog.New(slog.DiscardHandler))
	hub := engine.New(engine.Config{Forward: p, Log: p, Watch: p, Shared: true})
	srv = NewServer(hub, book, append(limits, Limits{})[0], slog.New(slog.DiscardHandler))
	srv.Join(p)
	done, ended := make(chan struct{}), sync.Once{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop = func() {
		ended.Do(func() {
			l.Close()
			<-done
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := srv.Shutdown(ctx); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			p.Close()
			hub.Close()
		})
	}
	err = p.Open(t.Context(), hub)
	go func() { _ = srv.Serve(l, nil); close(done) }()
	t.Cleanup(stop)
	if err != nil {
		t.Fatal(err)
	}
	return srv, p, l.Addr().String(), stop
}

// Where messages are stored, a channel is one of all nodes: each message goes to one consumer, to another one if that goes, and waits
// for one, also while no process is there.
func TestStoredChannel(t *testing.T) {
	cfg := backplane.Config{Node: "n1", Data: t.TempDir(), Listen: "127.0.0.1:0"}
	srv, plane, addr, stop := startNode(t, cfg)
	other, _, elsewhere, stopOther := startNode(t, backplane.Config{Node: "n2", URL: plane.ClientURL()})
	var here, there bag
	stopHere := consumer(t, addr, "a.b", "c", here.put)
	stopThere := consumer(t, elsewhere, "a.b", "c", there.put)
	await(t, "two consumers that are ready", func() bool { return ready(srv) == 1 && ready(other) == 1 })
	p := producer(t, elsewhere)
	var want []string
	publish := func(n int) {
		t.Helper()
		for range n {
			want = append(want, fmt.Sprintf("m%02d", len(want)))
			if err := p.Publish("a.b", []byte(want[len(want)-1])); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish(20)
	await(t, "all messages", func() bool { return here.len()+there.len() >= 20 })
	if got := slices.Concat(here.sorted(), there.sorted()); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("got %q", got)
	}
	await(t, "all messages to be finished", func() bool { return held(srv)+held(other) == 0 })
	stopHere()
	stuck := newPeer(t, addr)
	stuck.say("SUB a.b d\nRDY 5\n") // a channel of its own, whose messages it does not finish
	stuck.want(frameResponse, "OK")
	publish(2)
	stuck.next()
	stuck.next()
	stuck.nc.Close()
	var rest bag
	stopRest := consumer(t, elsewhere, "a.b", "d", func(m *client.Message) error {
		if m.Attempts < 2 { // the one that went without finishing it was the first
			t.Errorf("%s came to another node as attempt %d", m.Body, m.Attempts)
		}
		return rest.put(m)
	})
	await(t, "what another consumer has left", func() bool { return fmt.Sprint(rest.sorted()) == fmt.Sprint(want[20:]) })
	await(t, "all messages to be finished", func() bool { return there.len()+here.len() == 22 && held(srv)+held(other) == 0 })
	stopThere()
	stopRest()
	stopOther()
	p = producer(t, addr)
	publish(3)
	stop()
	srv, _, addr, _ = startNode(t, cfg)
	var late bag
	consumer(t, addr, "a.b", "c", late.put)
	await(t, "what came before", func() bool { return fmt.Sprint(late.sorted()) == fmt.Sprint(want[22:]) })
	await(t, "all messages to be finished", func() bool { return held(srv) == 0 })
}

// A message is requeued at its node, and comes again.
func TestStoredAgain(t *testing.T) {
	srv, _, addr, _ := startNode(t, backplane.Config{Node: "n1", Data: t.TempDir()})
	attempts := make(chan uint16, 10)
	consumer(t, addr, "a", "c", func(m *client.Message) error {
		attempts <- m.Attempts
		if m.Attempts < 3 {
			m.RequeueWithoutBackoff(0)
		}
		return nil
	})
	await(t, "the consumer is ready", func() bool { return ready(srv) == 1 })
	if err := producer(t, addr).Publish("a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for want := range uint16(3) {
		if got := <-attempts; got != want+1 {
			t.Fatalf("attempt %d came as %d", want+1, got)
		}
	}
	await(t, "it is finished", func() bool { return held(srv) == 0 })
}

// How often a message was sent is known after its node gave it back, though it was drawn more often, or less often.
func TestStoredAttempts(t *testing.T) {
	srv, _, addr, _ := startNode(t, backplane.Config{Node: "n1", Data: t.TempDir()})
	attempt := func(p *peer, want string) (id string) {
		t.Helper()
		kind, m := p.next()
		if kind != frameMessage || len(m) < messageHead {
			t.Fatalf("got %d %q", kind, m)
		}
		if got := fmt.Sprint(m[messageHead:], " ", int(m[8])<<8|int(m[9])); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		return m[10:messageHead]
	}
	c, p := newPeer(t, addr), producer(t, addr)
	c.say("SUB a c\nRDY 5\n")
	c.want(frameResponse, "OK")
	if err := p.Publish("a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"x 1", "x 2", "x 3"} {
		id := attempt(c, want)
		c.say("RDY 0\n" + pub("b", "x")) // it takes no more
		c.want(frameResponse, "OK")
		if want != "x 3" {
			c.say("REQ " + id + " 0\nRDY 5\n")
		}
	}
	if err := p.Publish("a", []byte("y")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Second); held(srv) < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) { // it is drawn, unless that has ended
	}
	c.nc.Close()
	await(t, "all to be given back", func() bool { return held(srv) == 0 })
	c = newPeer(t, addr)
	c.say("SUB a c\nRDY 5\n")
	c.want(frameResponse, "OK")
	for range 2 {
		kind, m := c.next()
		if kind != frameMessage || len(m) <= messageHead {
			t.Fatalf("got %d %q", kind, m)
		}
		if want := map[string]byte{"x": 4, "y": 1}[m[messageHead:]]; m[9] != want {
			t.Errorf("%s comes as attempt %d, want %d", m[messageHead:], m[9], want)
		}
	}
}

// One user makes as many stored channels as may be, and no more; others, and ephemeral ones, do not count.
func TestStoredChannelsAreLimited(t *testing.T) {
	_, _, addr, _ := startNode(t, backplane.Config{Node: "n1", Data: t.TempDir()}, Limits{Stored: 1})
	for _, tt := range []struct{ topic, channel, want string }{{"a", "c", "OK"}, {"a", "c", "OK"}, {"a", "e#ephemeral", "OK"}, {"b", "c", "E_BAD_CHANNEL the user has 1 channels that are stored, as many as may be"}} {
		p, kind := newPeer(t, addr), frameResponse
		if tt.want != "OK" {
			kind = frameError
		}
		p.say("SUB " + tt.topic + " " + tt.channel + "\n")
		p.want(kind, tt.want)
	}
}

// Also users that are faster than NATS make no more.
func TestStoredChannelsAreLimitedAtOnce(t *testing.T) {
	srv, _, addr, _ := startNode(t, backplane.Config{Node: "n1", Data: t.TempDir()}, Limits{Stored: 2})
	var peers []*peer
	for i := range 10 {
		p := newPeer(t, addr)
		p.say(fmt.Sprintf("SUB a c%d\n", i))
		peers = append(peers, p)
	}
	made := 0
	for _, p := range peers {
		if kind, _ := p.next(); kind == frameResponse {
			made++
		}
	}
	if made != 2 {
		t.Errorf("%d channels are made", made)
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if n := len(srv.channels); n != 2 {
		t.Errorf("there are %d channels", n)
	}
}

// A channel holds as many messages as it may, whatever its consumers would take; the rest waits where it is stored.
func TestStoredChannelHolds(t *testing.T) {
	for _, limits := range []Limits{{Queue: 3}, {QueueBytes: 3}} {
		srv, _, addr, _ := startNode(t, backplane.Config{Node: "n1", Data: t.TempDir()}, limits)
		c := newPeer(t, addr)
		c.say("SUB a c\nRDY 1\n")
		c.want(frameResponse, "OK")
		p := producer(t, addr)
		var ids []string
		for i := range 6 {
			if err := p.Publish("a", []byte("x")); err != nil {
				t.Fatal(err)
			}
			if i < 3 {
				_, m := c.next()
				ids = append(ids, m[10:10+idSize])
				c.say(fmt.Sprintf("RDY %d\n", i+2))
			}
		}
		c.say("RDY 100\n" + pub("b", "x"))
		c.want(frameResponse, "OK")
		for i, id := range ids {
			if n := held(srv); n != 3 && (i == 0 || limits.Queue > 0) { // there is room for all once bytes are free
				t.Errorf("%+v: it holds %d messages after %d are finished", limits, n, i)
			}
			c.say("FIN " + id + "\n")
			if kind, m := c.next(); kind != frameMessage || m[10+idSize:] != "x" {
				t.Fatalf("got %q", m)
			}
		}
	}
}
