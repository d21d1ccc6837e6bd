package stage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// Feed makes the steps of a load messages instead of requests, which a broker carries
// from their publishers to one consumer:
//
//	topic 1 … n: the steps, Poisson ─┐
//	                                 ├─▶ broker ─▶ consumer: one message after the other
//	one more topic: the flood ───────┘
//
// A message is served when the consumer is done with it. What floods is sent at an even
// pace, and only counted.
type Feed struct {
	// Topics is the number of topics that share the steps, each with a connection.
	Topics int `json:"topics"`
	// Work is how long the consumer takes for a message, of whatever topic.
	Work time.Duration `json:"work_ns"`
	// Flood is the messages/s of the topic that floods, from FloodAt on for FloodFor.
	Flood    float64       `json:"flood"`
	FloodAt  time.Duration `json:"flood_at_ns"`
	FloodFor time.Duration `json:"flood_for_ns"`
}

// Flooded counts the messages of the topic that floods.
type Flooded struct {
	// Sent were published, Came are those that the consumer is done with.
	Sent uint64 `json:"sent"`
	Came uint64 `json:"came"`
}

const (
	// messageSize is that of a message's payload, in bytes.
	messageSize = 100
	// floodTopic is the topic that floods, feedTopic the first part of the others.
	floodTopic = "plant/flood"
	feedTopic  = "plant/"
	// floodTick is the time between two writes of the flood.
	floodTick = time.Millisecond
	// readAhead is how many messages the consumer's client reads before it has worked on
	// them. Few, so that what waits for it waits at the broker.
	readAhead = 16
)

func (f *Feed) validate(steps openloop.Profile) error {
	var errs []error
	if f.Topics < 1 || f.Work <= 0 {
		errs = append(errs, fmt.Errorf("demo: %d topics, and %v of work for a message; expected at least one, above 0", f.Topics, f.Work))
	}
	if f.Flood < 0 || f.FloodAt < 0 || f.FloodFor < 0 || f.FloodAt+f.FloodFor > steps.Duration() {
		errs = append(errs, fmt.Errorf("demo: a flood of %v/s at %v for %v, expected within the steps of %v", f.Flood, f.FloodAt, f.FloodFor, steps.Duration()))
	}
	return errors.Join(append(errs, steps.Validate())...)
}

// feed connects the consumer and the publishers, and plays the load.
func (l Load) feed(ctx context.Context, out *writer) error {
	c := &consumer{work: l.Feed.Work, under: map[uint64]chan struct{}{}}
	conn, sub, err := attach(ctx, l.Target, "consumer", c.take)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := sub.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: feedTopics}}}); err != nil {
		return fmt.Errorf("demo: the consumer subscribes: %w", err)
	}
	var pubs []*paho.Client
	for i := range l.Feed.Topics {
		conn, pub, err := attach(ctx, l.Target, fmt.Sprint("publisher ", i+1), nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		pubs = append(pubs, pub)
	}
	flood, _, err := attach(ctx, l.Target, "the one that floods", nil)
	if err != nil {
		return err
	}
	defer flood.Close()
	var beside sync.WaitGroup
	defer beside.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	beside.Go(func() { l.Feed.flood(ctx, flood, c, out) })
	return l.play(ctx, c.sender(l.Timeout, pubs), newTally(), out)
}

// attach connects a client. took, if not nil, is given what comes, one after the other.
func attach(ctx context.Context, target, id string, took func(*paho.Publish)) (net.Conn, *paho.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, nil, fmt.Errorf("demo: %s: %w", id, err)
	}
	cfg := paho.ClientConfig{Conn: conn, ClientID: id}
	if took != nil {
		cfg.OnPublishReceived = []func(paho.PublishReceived) (bool, error){func(m paho.PublishReceived) (bool, error) {
			took(m.Packet)
			return true, nil
		}}
	}
	client, ahead := paho.NewClient(cfg), uint16(readAhead)
	if _, err := client.Connect(ctx, &paho.Connect{ClientID: id, CleanStart: true, Properties: &paho.ConnectProperties{ReceiveMaximum: &ahead}}); err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("demo: %s: %w", id, err)
	}
	return conn, client, nil
}

// consumer works on messages, one after the other.
type consumer struct {
	work time.Duration
	free time.Time // when it is done with the last one; of the one goroutine that takes
	came atomic.Uint64

	mu    sync.Mutex
	under map[uint64]chan struct{} // messages under way, by number
}

// take works on one message. Sleep wakes late: while messages wait, the next one begins
// when the one before should have ended.
func (c *consumer) take(m *paho.Publish) {
	begin := c.free
	if now := time.Now(); now.Sub(begin) > c.work {
		begin = now
	}
	c.free = begin.Add(c.work)
	time.Sleep(time.Until(c.free))
	if m.Topic == floodTopic {
		c.came.Add(1)
		return
	}
	if len(m.Payload) < 8 || !strings.HasPrefix(m.Topic, feedTopic) {
		return
	}
	number := binary.LittleEndian.Uint64(m.Payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	if done := c.under[number]; done != nil {
		close(done)
		delete(c.under, number)
	}
}

// sender returns what publishes one message, to the topics in turn, and waits until the
// consumer is done with it.
func (c *consumer) sender(timeout time.Duration, pubs []*paho.Client) openloop.Send {
	return func(ctx context.Context, i int, intended time.Time) measure.Outcome {
		ctx, cancel := context.WithDeadline(ctx, intended.Add(timeout))
		defer cancel()
		number, done := uint64(i), make(chan struct{})
		c.mu.Lock()
		c.under[number] = done
		c.mu.Unlock()
		payload := make([]byte, messageSize)
		binary.LittleEndian.PutUint64(payload, number)
		to := i % len(pubs)
		_, err := pubs[to].Publish(ctx, &paho.Publish{Topic: fmt.Sprint(feedTopic, to+1), Payload: payload})
		if err == nil {
			select {
			case <-done:
				return measure.Outcome{Kind: measure.Served}
			case <-ctx.Done():
			}
		}
		c.mu.Lock()
		delete(c.under, number)
		c.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			return measure.Outcome{Kind: measure.Failed, Reason: "not published"}
		}
		return measure.Outcome{Kind: measure.TimedOut}
	}
}

// flood sends what floods, many messages a write, and tells how many were sent and came,
// until ctx or the connection ends.
func (f *Feed) flood(ctx context.Context, conn net.Conn, c *consumer, out *writer) {
	began := time.Now()
	defer context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Now()) })()
	var one bytes.Buffer
	pk := packets.Publish{Topic: floodTopic, Payload: make([]byte, messageSize), Properties: &packets.Properties{}}
	if _, err := pk.WriteTo(&one); err != nil {
		return
	}
	tick := time.NewTicker(floodTick)
	defer tick.Stop()
	sent, told := uint64(0), time.Duration(0)
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			over = true
		}
		now := time.Since(began)
		due := uint64(f.Flood * min(max(now-f.FloodAt, 0), f.FloodFor).Seconds())
		if due > sent && !over {
			if _, err := conn.Write(bytes.Repeat(one.Bytes(), int(due-sent))); err != nil {
				over = true // what was sent and came until now is told all the same
			} else {
				sent = due
			}
		}
		if over || now-told >= progressEvery {
			told = now
			out.line(Line{Flooded: &Flooded{Sent: sent, Came: c.came.Load()}})
		}
	}
}
