package broker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"

	"github.com/spillgate/spillgate/broker/backplane"
	brokerclient "github.com/spillgate/spillgate/broker/client"
	"github.com/spillgate/spillgate/broker/place"
)

// publisher publishes one message after the other, with QoS 1 and 2 in turn, and notes those that were acknowledged.
type publisher struct {
	*autopaho.ConnectionManager
	name string

	mu    sync.Mutex
	acked []string
}

func (p *publisher) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		m := fmt.Sprintf("%s.%d", p.name, i)
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		r, err := p.Publish(once, &paho.Publish{Topic: "t", QoS: byte(1 + i%2), Payload: []byte(m)})
		cancel()
		if err != nil || r.ReasonCode >= 0x80 {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		p.mu.Lock()
		p.acked = append(p.acked, m)
		p.mu.Unlock()
	}
}

func (p *publisher) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.acked)
}

// follower connects a stock client that goes where it is sent.
func follower(t *testing.T, ctx context.Context, name, addr string) *publisher {
	t.Helper()
	cfg := autopaho.ClientConfig{ServerUrls: []*url.URL{{Scheme: "mqtt", Host: addr}}, KeepAlive: 30, SessionExpiryInterval: 600, ConnectTimeout: patience,
		ReconnectBackoff: autopaho.NewConstantBackoff(10 * time.Millisecond), ClientConfig: paho.ClientConfig{ClientID: name, PacketTimeout: 5 * time.Second}}
	brokerclient.Follow(&cfg, brokerclient.Says{})
	c, err := autopaho.NewConnection(ctx, cfg)
	if err == nil {
		err = c.AwaitConnection(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &publisher{ConnectionManager: c, name: name}
}

// The node that has a topic's publishers is drained under load: they go to the other one, and every message that was acknowledged comes, those
// of QoS 2 once.
func TestDrainUnderLoad(t *testing.T) {
	urlOf, stop, err := place.Embed("127.0.0.1:0", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	testWindow = 500 * time.Millisecond
	t.Cleanup(func() { testWindow = 0 })
	brokers, addr := clusterAt(t, 2, Config{Cluster: backplane.Config{}}, urlOf)
	placer, end, err := place.Dial(t.Context(), urlOf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	update := func(change func(*place.State) error) *place.State {
		t.Helper()
		s, err := placer.Update(t.Context(), change)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	update(func(s *place.State) error {
		return errors.Join(s.SetNode("n1", place.Node{Address: addr[0], Capacity: 10_000}), s.SetNode("n2", place.Node{Address: addr[1], Capacity: 10_000}),
			s.SetTopic("t", place.Limits{Rate: 1000, Burst: 50, Objective: 1, Each: 100}))
	})
	var in inbox
	sub := dial5(t, addr[0], "sub", &in)
	subscribe5(t, sub, "t", 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var publishers []*publisher
	var running sync.WaitGroup
	for i := range 6 {
		p := follower(t, ctx, fmt.Sprint("p", i), addr[i%2])
		publishers = append(publishers, p)
		running.Go(func() { p.run(ctx) })
	}
	more := func(n int) {
		t.Helper()
		for _, p := range publishers {
			from := p.count()
			await(t, p.name+" goes on", func() bool { return p.count() >= from+n })
		}
	}
	more(20)
	for _, drained := range []int{0, 1} { // there, and back again
		node, connections := fmt.Sprint("n", drained+1), map[int]int{0: 1, 1: 0}[drained] // the subscriber's stays
		update(func(s *place.State) error {
			return errors.Join(s.Drain(fmt.Sprint("n", 2-drained), false), s.Drain(node, true))
		})
		await(t, node+" has no publishers", func() bool { return brokers[drained].mqtt.Stats().Connections == connections })
		more(20)
	}
	cancel()
	running.Wait()
	want := map[string]bool{}
	for _, p := range publishers {
		await(t, p.name+" ends", func() bool {
			select {
			case <-p.Done():
				return true
			default:
				return false
			}
		})
		for _, m := range p.acked {
			want["t="+m] = true
		}
	}
	await(t, "all that was acknowledged", func() bool {
		for _, m := range in.all() {
			delete(want, m)
		}
		return len(want) == 0
	})
	times := map[string]int{}
	for _, m := range in.all() {
		times[m]++
	}
	for m, n := range times {
		if i, _ := strconv.Atoi(m[strings.Index(m, ".")+1:]); i%2 == 1 && n > 1 {
			t.Errorf("%s of QoS 2 came %d times", m, n)
		}
	}
}
