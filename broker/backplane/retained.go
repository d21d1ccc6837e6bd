package backplane

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/follow"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// storedBytes is how many bytes the stream may take for one that retained messages may have: it has the topic twice,
	// and a header.
	storedBytes = 4
	// goneFor is how long a stream keeps that something was deleted: longer than a node can be cut off from the others and still take
	// part. It would be kept for good, for every topic and client there ever was.
	goneFor = 24 * time.Hour
	// mostAside is how many messages of QoS 0 are sent to the stream and not known to be stored. Further ones wait for asideTime, in which a stream
	// that is only busy stores some. If it does not, they are not retained, until it does: a stream without a leader answers nothing for seconds.
	mostAside = 4096
	asideTime = 200 * time.Millisecond
)

// Bound says how many bytes of messages may be retained; the default is 64 MiB. It must be called before Open.
func (p *Plane) Bound(retained int) {
	if retained > 0 {
		p.retainedBytes = storedBytes * int64(retained)
	}
}

// keepRetained makes the stream of retained messages. A message for which it has no room is delivered and not retained. NATS sets
// the room aside; where the disk has too little of that, the stream has no bound.
func (p *Plane) keepRetained(ctx context.Context) error {
	cfg := jetstream.StreamConfig{Name: retainedStream, Description: "retained messages", Subjects: []string{retainedSubjects + ">"}, MaxMsgsPerSubject: 1,
		Discard: jetstream.DiscardNew, MaxBytes: p.retainedBytes, AllowMsgTTL: true, Duplicates: p.cfg.onceFor()}
	if p.server != nil {
		if limits := p.server.JetStreamConfig(); limits != nil { // the log has half, and clients' streams are to have some
			cfg.MaxBytes = min(cfg.MaxBytes, limits.MaxStore/8)
		}
	}
	s, err := p.keep(ctx, cfg)
	if full(err) {
		p.log.Info("the disk has too little room to set some aside for retained messages, so they have no bound there", "data", p.cfg.Data, "bytes", cfg.MaxBytes)
		cfg.MaxBytes = 0
		s, err = p.keep(ctx, cfg)
	}
	p.retainedLog = s
	return err
}

// retainedMsg is a message as the stream has it, as data: one without a payload, which deletes, for a while, and one that expires until
// then.
func retainedMsg(of *engine.Message, data []byte) *nats.Msg {
	m := nats.NewMsg(subjectOf(retainedSubjects, of.Topic.Name()))
	m.Data = data
	switch {
	case len(of.Payload) == 0:
		m.Header.Set(jetstream.MsgTTLHeader, goneFor.String())
	case of.Expires != mono.Never:
		left := max(of.Expires.Sub(live.Now()), 0)
		m.Header.Set(jetstream.MsgTTLHeader, (left.Truncate(time.Second) + time.Second).String()) // whole seconds, and one at least
	}
	return m
}

// retained is what this node has sent to the stream of retained messages and not heard of. The stream's order counts, at every
// node. A message of QoS 0 is retained here at once, so while one is under way, what the stream sends of its topic is older.
// One of QoS 1 or 2 is retained here when it is stored, unless the stream has sent it by then, or a later one.
type retained struct {
	mu      sync.Mutex
	own     map[string]int      // messages of QoS 0 under way, by topic
	storing map[string]*storing // of QoS 1 and 2
}

// storing is messages of one topic that are being stored.
type storing struct {
	n    int
	seen uint64 // the last position of the topic that the stream has sent since the first of them
}

// sent is told of a message of QoS 0 that goes to the stream.
func (r *retained) sent(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own == nil {
		r.own = map[string]int{}
	}
	r.own[topic]++
}

// back is told that it has come back, or never will.
func (r *retained) back(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.own[topic]; n > 1 {
		r.own[topic] = n - 1
		return
	}
	delete(r.own, topic)
}

// store is told of a message of QoS 1 or 2 that is to be stored.
func (r *retained) store(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.storing == nil {
		r.storing = map[string]*storing{}
	}
	if r.storing[topic] == nil {
		r.storing[topic] = &storing{}
	}
	r.storing[topic].n++
}

// stored is told that it is at a position of the stream, or 0 if it is not stored. It calls retain if the message is the
// topic's last one, as far as this node knows. The lock is held meanwhile, or one that came could be retained in between.
func (r *retained) stored(topic string, position uint64, retain func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.storing[topic]
	if s == nil {
		return
	}
	if s.n--; s.n == 0 {
		delete(r.storing, topic)
	}
	if position > s.seen && r.own[topic] == 0 {
		retain()
	}
}

// came is told of a message that the stream sends. It calls retain under the same conditions as stored.
func (r *retained) came(topic string, position uint64, retain func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.storing[topic]; s != nil {
		s.seen = max(s.seen, position)
	}
	if r.own[topic] == 0 {
		retain()
	}
}

// storeRetained sends a message of QoS 0 to the stream. One goroutine calls it.
func (p *Plane) storeRetained(of *engine.Message, data []byte) {
	m, wait := retainedMsg(of, data), asideTime
	if p.stalled {
		wait = 1 // there is room at once, or none
	}
	_, err := p.aside.PublishMsgAsync(m, jetstream.WithStallWait(wait))
	p.stalled = errors.Is(err, jetstream.ErrTooManyStalledMsgs)
	if err != nil {
		p.notRetained(nil, m, err)
	}
}

// notRetained is told of a message that the stream has not taken, as far as is known. One of QoS 0 is not sent again; others are.
func (p *Plane) notRetained(_ jetstream.JetStream, m *nats.Msg, _ error) {
	if pk, err := decode(m.Data); err == nil && pk.retain && pk.qos == 0 {
		p.lost.Add(1)
		p.notKept(string(pk.topic))
	}
}

// notKept is told of a topic with a message of QoS 0 that this node retained, and that the stream will not have.
func (p *Plane) notKept(topic string) {
	p.retained.back(topic)
	p.unsure.add(topic)
}

// retain takes a message of the stream.
func (p *Plane) retain(m *follow.Message) {
	msg, err := p.aged(m.Data(), m.Stored, live.Now())
	if err != nil {
		return
	}
	topic := msg.Topic.Name()
	if msg.Origin == p.origin && msg.QoS == 0 {
		p.retained.back(topic)
	}
	p.retained.came(topic, m.Position, func() { p.hub.Retain(&msg) })
}
