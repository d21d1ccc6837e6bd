package brokers

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"

	"github.com/spillgate/spillgate/broker/client"
)

// press publishes to a cluster as fast as it is acknowledged, and notes what comes of it. Its
// clients come back by themselves, and go where the cluster sends them.
type press struct {
	c        *cluster
	released released
	cancel   context.CancelFunc
	running  sync.WaitGroup
	clients  []*autopaho.ConnectionManager

	mu           sync.Mutex
	acknowledged map[string]bool
	got          map[string]int // by the subscriber
	worked       map[string]int // by members of the shared subscription
	inherited    map[string]int // wills, by the heir
	wills        []mortal
	cutOff       []time.Time // when the heir lost its connection
	last         time.Time   // of an acknowledgement
	gap          time.Duration
	mark         int // acknowledged when the fault at hand began
	since        time.Time
}

func newPress(c *cluster) *press {
	return &press{c: c, acknowledged: map[string]bool{}, got: map[string]int{}, worked: map[string]int{}, inherited: map[string]int{}, cancel: func() {}}
}

const (
	// answerTime bounds one message's way to its acknowledgement; then it counts as not
	// acknowledged.
	answerTime = 40 * time.Second
	// enterTime bounds how long a client may take to connect.
	enterTime = 30 * time.Second
)

// subscribers are the subscriber, the members of the shared subscription, and with these the heir.
const subscribers, heirs = 3, 1

// start connects the subscribers and the publishers, and has them publish.
func (p *press) start(ctx context.Context) error {
	ctx, p.cancel = context.WithCancel(ctx)
	for k := range subscribers {
		name, filter, got := "subscriber", placedTopic, p.got
		if k > 0 {
			name, filter, got = fmt.Sprint("member", k), "$share/members/"+placedTopic, p.worked
		}
		sub, err := p.connect(ctx, name, k, got)
		if err != nil {
			return err
		}
		if _, err := sub.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err != nil {
			return err
		}
	}
	if err := p.heir(ctx); err != nil {
		return err
	}
	for k := range faultPubs {
		pub, err := p.connect(ctx, fmt.Sprint("publisher", k), k, nil)
		if err != nil {
			return err
		}
		for w := range faultUnder {
			p.running.Go(func() { p.publish(ctx, pub, fmt.Sprintf("%d.%d", k, w)) })
		}
	}
	p.running.Go(func() { p.released.watch(ctx, p.c) })
	p.begin()
	return p.flows(ctx)
}

// connect connects a client to one of the nodes, beginning with a number: a subscriber, whose messages are counted, or without got a publisher.
func (p *press) connect(ctx context.Context, id string, first int, got map[string]int, change ...func(*autopaho.ClientConfig)) (*autopaho.ConnectionManager, error) {
	cfg := autopaho.ClientConfig{KeepAlive: 5, SessionExpiryInterval: 600, ConnectTimeout: 5 * time.Second, ReconnectBackoff: autopaho.NewConstantBackoff(100 * time.Millisecond),
		ClientConfig: paho.ClientConfig{ClientID: id, PacketTimeout: answerTime, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(m paho.PublishReceived) (bool, error) { p.came(got, string(m.Packet.Payload)); return true, nil }}}}
	for i := range p.c.nodes {
		cfg.ServerUrls = append(cfg.ServerUrls, &url.URL{Scheme: "mqtt", Host: p.c.nodes[(first+i)%len(p.c.nodes)].cfg.Listen[0]})
	}
	if got == nil {
		client.Follow(&cfg, client.Says{})
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := autopaho.NewConnection(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p.clients = append(p.clients, c)
	ctx, cancel := context.WithTimeout(ctx, enterTime)
	defer cancel()
	return c, c.AwaitConnection(ctx)
}

// publish publishes one message after the other until ctx ends.
func (p *press) publish(ctx context.Context, pub *autopaho.ConnectionManager, name string) {
	for i := 0; ctx.Err() == nil; i++ {
		m := fmt.Sprintf("%s.%d", name, i)
		once, cancel := context.WithTimeout(ctx, answerTime)
		r, err := pub.Publish(once, &paho.Publish{Topic: placedTopic, QoS: 1, Payload: []byte(m)})
		cancel()
		if err != nil || r.ReasonCode >= 0x80 {
			_ = pause(ctx, 20*time.Millisecond)
			continue
		}
		p.mu.Lock()
		p.acknowledged[m] = true
		p.gap, p.last = max(p.gap, time.Since(p.last)), time.Now()
		p.mu.Unlock()
	}
}

// came notes a message that a subscriber got.
func (p *press) came(got map[string]int, m string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	got[m]++
}

// begin begins to look at a fault, and returns how many messages were acknowledged before.
func (p *press) begin() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.last, p.gap = time.Now(), time.Now(), 0
	p.mark = len(p.acknowledged)
	return p.mark
}

// flows waits until the topic works again.
func (p *press) flows(ctx context.Context) error {
	p.mu.Lock()
	from := len(p.acknowledged)
	p.mu.Unlock()
	return p.c.await(ctx, "messages are acknowledged", flowTime, func(context.Context) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.acknowledged) >= from+flowing && time.Since(p.since).Seconds() > lookOver+1
	})
}

// end returns the longest time without an acknowledgement since begin, and how much of its rate the topic
// had at most.
func (p *press) end() (gap time.Duration, over float64) {
	p.mu.Lock()
	since, gap := p.since, p.gap
	p.mu.Unlock()
	return gap, p.released.most(since)
}

// settle ends the publishers, and returns how many messages were acknowledged, how many of these never
// came to the subscriber, or to no member, and how many came twice.
func (p *press) settle(ctx context.Context) (acknowledged, lost, unworked, twice int, err error) {
	for _, c := range p.clients[subscribers+heirs:] {
		goodbye, cancel := context.WithTimeout(ctx, time.Second)
		_ = c.Disconnect(goodbye)
		cancel()
	}
	missing := func(context.Context) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		acknowledged, lost, unworked, twice = len(p.acknowledged), 0, 0, 0
		for m := range p.acknowledged {
			if p.got[m] == 0 {
				lost++
			}
			if p.worked[m] == 0 {
				unworked++
			}
		}
		for _, got := range [...]map[string]int{p.got, p.worked} {
			for _, n := range got {
				if n > 1 {
					twice++
				}
			}
		}
		return lost+unworked == 0
	}
	err = p.c.await(ctx, "what was acknowledged has come", restTime, missing)
	if lost+unworked > 0 { // which is a result
		err = nil
	}
	return acknowledged, lost, unworked, twice, err
}

// stop ends all that press began.
func (p *press) stop() {
	p.cancel()
	for _, c := range p.clients {
		<-c.Done()
	}
	p.running.Wait()
}
