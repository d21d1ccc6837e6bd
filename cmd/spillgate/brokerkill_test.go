package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

// brokerProcess is a broker that can be killed.
type brokerProcess struct {
	t    *testing.T
	args []string
	cmd  *exec.Cmd
}

func (p *brokerProcess) start() {
	p.t.Helper()
	p.cmd = exec.Command(os.Args[0], p.args...)
	p.cmd.Env = append(os.Environ(), asProgram+"=1")
	p.cmd.Stderr = os.Stderr
	if !testing.Verbose() {
		p.cmd.Stderr = nil
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// kill is kill -9.
func (p *brokerProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// nodes starts brokers as processes, which know each other, and returns where they serve.
func nodes(t *testing.T, n int) (all []*brokerProcess, addresses []string) {
	t.Helper()
	var listeners []net.Listener
	var free []string
	for tries := 0; len(free) < 2*n; tries++ {
		// Of ports that no system gives to a connection by itself: a node comes back to its own.
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20_000+rand.IntN(12_000)))
		switch {
		case err == nil:
			listeners, free = append(listeners, l), append(free, l.Addr().String())
		case tries > 1000:
			t.Fatal(err)
		}
	}
	for _, l := range listeners {
		l.Close()
	}
	addresses, routes := free[:n], free[n:]
	for i := range n {
		p := &brokerProcess{t: t, args: []string{"broker", "--listen", addresses[i], "--node", fmt.Sprint("n", i+1), "--data", t.TempDir()}}
		if n > 1 {
			p.args = append(p.args, "--at", routes[i], "--cluster", strings.Join(routes, ","))
		}
		p.start()
		t.Cleanup(p.kill)
		all = append(all, p)
	}
	return all, addresses
}

// connect connects a client that comes back by itself, to the first of addresses that
// takes it, and subscribes with a QoS above 0.
func connect(t *testing.T, id string, addresses []string, subscribe byte, got func(string)) *autopaho.ConnectionManager {
	t.Helper()
	var urls []*url.URL
	for _, a := range addresses {
		urls = append(urls, &url.URL{Scheme: "mqtt", Host: a})
	}
	cfg := autopaho.ClientConfig{ServerUrls: urls, KeepAlive: 5, CleanStartOnInitialConnection: false, SessionExpiryInterval: 600,
		ReconnectBackoff: func(int) time.Duration { return 50 * time.Millisecond }, ConnectTimeout: 10 * time.Second,
		ClientConfig: paho.ClientConfig{ClientID: id, PacketTimeout: 60 * time.Second, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(p paho.PublishReceived) (bool, error) { got(string(p.Packet.Payload)); return true, nil }}}}
	c, err := autopaho.NewConnection(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := c.AwaitConnection(ctx); err != nil {
		t.Fatal(err)
	}
	if subscribe > 0 {
		if _, err := c.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "t/#", QoS: subscribe}}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Nodes are killed while clients publish to them and subscribe at them. Nothing that was
// acknowledged is lost, and it comes while the node is still dead.
func TestKill(t *testing.T) {
	t.Parallel() // with TestDemo
	t.Run("1 node", func(t *testing.T) {
		t.Parallel()
		killed(t, 1, 1)
	})
	t.Run("3 nodes", func(t *testing.T) {
		t.Parallel()
		killed(t, 3, 1)
	})
	// Each node in turn, so also whichever leads the cluster, or the log, or has the consumers
	// through which other nodes read.
	t.Run("3 nodes, each", func(t *testing.T) {
		if os.Getenv("SPILLGATE_SOAK") == "" {
			t.Skip("takes a minute: make soak runs this")
		}
		t.Parallel()
		killed(t, 3, 3)
	})
}

// killed kills the first nodes of n, one after the other. One that was killed is started
// again when the others have done without it, or at once if there is no other.
func killed(t *testing.T, n, kills int) {
	all, addresses := nodes(t, n)
	from := func(k int) []string { return slices.Concat(addresses[k%n:], addresses[:k%n]) }
	tally := &tally{got: map[string]int{}, acknowledged: map[string]bool{}}
	// Two are at the first node, which dies, and go to the next; a third is at the last.
	for k, at := range []int{0, 0, n - 1} {
		connect(t, fmt.Sprint("sub", k), from(at), subscribers[k], func(m string) { tally.note(k, m) })
	}
	var publishing sync.WaitGroup
	stop := make(chan struct{})
	defer publishing.Wait()
	defer close(stop)
	for k := range 4 {
		pub := connect(t, fmt.Sprint("pub", k), from(k), 0, func(string) {})
		publishing.Go(func() { publishAll(t.Context(), pub, k, stop, tally.acknowledge) })
	}
	for i := range kills {
		before := tally.count()
		until(t, "messages are acknowledged", func() bool { return tally.count() > before+300 })
		all[i].kill()
		if n == 1 {
			all[i].start()
		}
		before = tally.count()
		until(t, "messages are acknowledged again", func() bool { return tally.count() > before+300 })
		expected := tally.sofar()
		begin := time.Now()
		for deadline := begin.Add(60 * time.Second); len(tally.missing(expected)) > 0 && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
		if lost := tally.missing(expected); len(lost) > 0 {
			t.Errorf("kill %d: %d acknowledged messages did not come, among them %v", i+1, len(lost), lost[:min(5, len(lost))])
		}
		t.Logf("kill %d: %d acknowledged, %d of them before; the last came %v later", i+1, len(expected), before, time.Since(begin).Round(time.Millisecond))
		if i+1 < kills {
			all[i].start()
			connect(t, fmt.Sprint("probe", i), addresses[i:i+1], 0, func(string) {}) // it serves
		}
	}
	tally.checkRepeats(t)
}

// subscribers are the QoS of the subscribers.
var subscribers = [...]byte{1, 2, 1}

// tally is what was acknowledged and what came.
type tally struct {
	mu           sync.Mutex
	got          map[string]int // by subscriber and message
	acknowledged map[string]bool
}

func (a *tally) note(k int, m string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got[fmt.Sprint(k, " ", m)]++
}

func (a *tally) acknowledge(m string) { a.mu.Lock(); defer a.mu.Unlock(); a.acknowledged[m] = true }

func (a *tally) count() int { a.mu.Lock(); defer a.mu.Unlock(); return len(a.acknowledged) }

// sofar returns the messages that are acknowledged.
func (a *tally) sofar() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.acknowledged))
}

// missing returns which of some messages did not come, and to whom.
func (a *tally) missing(expected []string) (lost []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range expected {
		for k := range subscribers {
			if who := fmt.Sprint(k, " ", m); a.got[who] == 0 {
				lost = append(lost, who)
			}
		}
	}
	return lost
}

// checkRepeats checks that nothing came twice that was QoS 2 all the way.
func (a *tally) checkRepeats(t *testing.T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	least, exact := 0, 0
	for m, n := range a.got {
		switch {
		case n == 1:
		case strings.HasPrefix(m, "1 1.") || strings.HasPrefix(m, "1 3."): // its subscriber and its publisher
			exact++
		default:
			least++
		}
	}
	if exact > 0 {
		t.Errorf("%d messages of QoS 2 came more than once", exact)
	}
	t.Logf("%d of QoS 1 came more than once", least)
}

// publishAll publishes one message after the other until stop is closed, and notes what
// is acknowledged.
func publishAll(ctx context.Context, pub *autopaho.ConnectionManager, k int, stop <-chan struct{}, acknowledged func(string)) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-stop:
			return
		default:
		}
		m := fmt.Sprint(k, ".", i)
		once, cancel := context.WithTimeout(ctx, 40*time.Second)
		r, err := pub.Publish(once, &paho.Publish{Topic: fmt.Sprint("t/", k), QoS: byte(1 + k%2), Payload: []byte(m)})
		cancel()
		if err == nil && r.ReasonCode < 0x80 {
			acknowledged(m)
		}
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 90 s", what)
		}
	}
}
