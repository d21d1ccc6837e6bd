package nats

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/bucket"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// streamGroup is the shared subscription by which all nodes together store a message once.
	// No client can name it: queue groups of NATS have no space, and shared subscriptions of MQTT no slash.
	streamGroup = "/ streams"
	// lookEvery is how often the streams are listed, should an event be lost; lookTime is how long
	// that may take.
	lookEvery = 10 * time.Second
	lookTime  = 5 * time.Second
	// callRate is how many requests in a second, and at once, all clients of a node may make, beside those for messages:
	// NATS drops everybody's requests, the broker's own among them, where 10,000 wait, and serves some thousands a second.
	callRate = 1000
	// mostStoring is how many messages, and mostStoringBytes how many bytes of them, wait to be sent to
	// their stream. What comes beyond is dropped, and counted: its publisher gets no acknowledgement.
	mostStoring      = 16_384
	mostStoringBytes = 64 << 20
)

// Streams are those that clients make in JetStream, which NATS keeps:
//
//	PUB orders.1 ─▶ engine: topic orders/1, bucket ─▶ Streams, where a stream has orders.> ─▶ NATS: stream
//	client ◀────── engine: topic of the reply ◀────── answer of the stream ◀──────────────────┘
//	PUB $JS.API.… ─▶ checked and rewritten ─▶ NATS ─▶ client: answers, messages of consumers
//
// So a message of any protocol reaches its stream as it reaches a subscriber: after its topic's bucket.
// The methods may be called from any goroutine.
type Streams struct {
	nc    *client.Conn
	js    jetstream.JetStream
	hub   *engine.Hub
	log   *slog.Logger
	acks  string // begins the subjects of the answers to what is stored
	calls string // and those of the answers to requests of clients

	asking  sync.Mutex
	allowed *bucket.Bucket // guarded by asking

	number  atomic.Uint64 // of subscriptions of clients
	lost    atomic.Uint64 // messages that no stream has taken
	storing chan *engine.Kept
	bytes   atomic.Int64 // in storing
	changed chan struct{}

	looking  sync.Mutex
	looked   mono.Time                       // the last look that was answered began; guarded by looking
	captured map[string]*engine.Subscription // by filter; guarded by looking
	filters  atomic.Pointer[[]string]        // of captured

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup
}

// OpenStreams begins to store what streams are to have. nc must not be used for anything
// else, and is closed by Close. id tells this process from others.
func OpenStreams(nc *client.Conn, hub *engine.Hub, id string, log *slog.Logger) (*Streams, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	allowed, err := bucket.New(live.Now(), bucket.Config{Rate: callRate, Burst: callRate})
	if err != nil {
		return nil, err
	}
	s := &Streams{allowed: allowed, nc: nc, js: js, hub: hub, log: log, acks: "spillgate.stored." + id + ".", calls: "spillgate.calls." + id + ".",
		storing: make(chan *engine.Kept, mostStoring), changed: make(chan struct{}, 1), captured: map[string]*engine.Subscription{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	b := hub.NewBatch()
	if _, err := nc.Subscribe(s.acks+">", func(m *client.Msg) { s.stored(b, m) }); err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	if _, err := nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.*.>", func(*client.Msg) {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}); err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	s.look()
	s.done.Go(s.watch)
	s.done.Go(s.store)
	return s, nil
}

// Close ends it. What waits is not stored.
func (s *Streams) Close() {
	s.stop()
	s.nc.Close()
	s.done.Wait()
	s.looking.Lock()
	defer s.looking.Unlock()
	for _, on := range s.captured {
		s.hub.Unsubscribe(on)
	}
}

// watch learns which streams there are.
func (s *Streams) watch() {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.changed:
		case <-again.C:
		}
		s.look()
	}
}

// look lists the streams, and has the engine deliver what they are to have. Without an answer all stays as it was. Of several calls
// that wait for one another, one looks for all.
func (s *Streams) look() {
	asked := live.Now()
	s.looking.Lock()
	defer s.looking.Unlock()
	if s.looked >= asked {
		return
	}
	began := live.Now()
	ctx, cancel := context.WithTimeout(s.ctx, lookTime)
	defer cancel()
	list := s.js.ListStreams(ctx)
	want := map[string]bool{}
	for info := range list.Info() {
		if ours(info.Config.Name) {
			continue
		}
		for _, subject := range info.Config.Subjects {
			if filter, ok := toFilter([]byte(subject)); ok && checkCaptured(subject, func(string) bool { return true }) == nil {
				want[filter] = true
			}
		}
	}
	if err := list.Err(); err != nil {
		s.log.Debug("streams cannot be listed", "error", err)
		return
	}
	for filter, on := range s.captured {
		if !want[filter] {
			s.hub.Unsubscribe(on)
			delete(s.captured, filter)
		}
	}
	for filter := range want {
		if s.captured[filter] != nil {
			continue
		}
		on := &engine.Subscription{Who: s, Group: streamGroup}
		if err := s.hub.Subscribe(filter, on); err != nil {
			s.log.Warn("a stream gets no messages", "filter", filter, "error", err)
			continue
		}
		s.captured[filter] = on
	}
	filters := slices.Collect(maps.Keys(s.captured))
	s.filters.Store(&filters)
	s.looked = began
}

// allows reports whether a client may make a request now. Those for messages do not wait where all others do.
func (s *Streams) allows(operation string) bool {
	if operation == "CONSUMER.MSG.NEXT" || operation == "DIRECT.GET" {
		return true
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	return s.allowed.Allow(live.Now())
}

// captures reports whether a stream is to have the messages of a topic.
func (s *Streams) captures(topic string) bool {
	filters := s.filters.Load()
	return filters != nil && slices.ContainsFunc(*filters, func(f string) bool { return engine.Matches(f, topic) })
}

// Online implements engine.Subscriber.
func (s *Streams) Online() bool { return s.nc.IsConnected() }

// Released implements engine.Source; it publishes only what has QoS 0.
func (s *Streams) Released(*engine.Batch, *engine.Message, uint16) {}

// Deliver implements engine.Subscriber.
func (s *Streams) Deliver(_ *engine.Batch, m *engine.Message, _ *engine.Target) {
	size := int64(len(m.Payload) + len(m.Properties))
	if s.bytes.Add(size) > mostStoringBytes {
		s.bytes.Add(-size)
		s.lost.Add(1)
		return
	}
	k := m.Keep()
	select {
	case s.storing <- k:
	default:
		s.bytes.Add(-size)
		s.lost.Add(1)
		k.Release()
	}
}

// store sends messages to their streams.
func (s *Streams) store() {
	for {
		var k *engine.Kept
		select {
		case <-s.ctx.Done():
			return
		case k = <-s.storing:
		}
		if err := s.send(&k.Message); err != nil {
			s.lost.Add(1)
			s.log.Debug("a message is not stored in its stream", "topic", k.Topic.Name(), "error", err)
		}
		s.bytes.Add(-int64(len(k.Payload) + len(k.Properties)))
		k.Release()
	}
}

// send sends a message to its stream. Only a subject of the kind that clients make for replies is answered: others may be topics that
// the publisher has no right to, or wait for somebody else's answer.
func (s *Streams) send(m *engine.Message) error {
	subject, ok := appendSubject(nil, m.Topic.Name())
	if !ok {
		return fmt.Errorf("topic %q is no subject", m.Topic.Name())
	}
	msg := &client.Msg{Subject: string(subject), Data: m.Payload}
	for p, rest, ok := nextProperty(m.Properties); ok; p, rest, ok = nextProperty(rest) {
		switch {
		case p.id == packets.PropResponseTopic && strings.HasPrefix(string(p.value), engine.Inbox):
			if reply, ok := appendSubject([]byte(s.acks), p.value); ok {
				msg.Reply = string(reply)
			}
		case p.id == packets.PropUser && goodKey(p.key) && goodValue(p.value):
			if msg.Header == nil {
				msg.Header = client.Header{}
			}
			msg.Header[string(p.key)] = append(msg.Header[string(p.key)], string(p.value))
		}
	}
	return s.nc.PublishMsg(msg)
}

// stored passes on what a stream says of a message.
func (s *Streams) stored(b *engine.Batch, m *client.Msg) {
	topic := []byte(strings.TrimPrefix(m.Subject, s.acks))
	if !toTopic(topic) {
		return
	}
	t, err := s.hub.Passing(nil, topic)
	if err != nil {
		return
	}
	answer := m.Data
	if len(answer) == 0 { // a status: no stream has it
		answer = []byte(answerError(errNoLeader))
	}
	b.Begin(live.Now())
	b.Publish(&engine.Message{Topic: t, Payload: answer, Expires: never, From: s}, 0)
	b.End()
}

// mirror is what NATS sends for one subscription of a client: answers to its requests, and messages
// of its consumers. NATS sends them as long as the subscription lives.
type mirror struct {
	prefix string // of the subjects that stand for those of the client
	batch  *engine.Batch
	only   string // the one subject of the client that it stands for; empty: all
	on     *client.Subscription
}

// mirror opens that of a subscription. Consumers that push look for a subscriber of one subject: they
// do not see the wildcard of the other kind.
func (s *Streams) mirror(only string, take func(*mirror, *client.Msg)) (*mirror, error) {
	m := &mirror{prefix: fmt.Sprintf("%s%d.", s.calls, s.number.Add(1)), batch: s.hub.NewBatch(), only: only}
	var err error
	m.on, err = s.nc.Subscribe(m.prefix+cmp.Or(only, ">"), func(msg *client.Msg) { take(m, msg) })
	return m, err
}

// close ends it.
func (m *mirror) close() { _ = m.on.Unsubscribe() }

// clients returns an answer with the subjects that a client knows in place of those that stand for them.
func (s *Streams) clients(data []byte) []byte {
	before, after, found := bytes.Cut(data, []byte(s.calls))
	if !found {
		return data
	}
	out := bytes.Clone(before)
	for found {
		_, after, _ = bytes.Cut(after, []byte(".")) // the number of a subscription
		before, after, found = bytes.Cut(after, []byte(s.calls))
		out = append(out, before...)
	}
	return out
}

// changes reports whether an answer tells that streams have changed.
func changes(kind string) bool {
	return slices.Contains([]string{"stream_create_response", "stream_update_response", "stream_delete_response"}, kind)
}
