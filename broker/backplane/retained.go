package backplane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/internal/live"
)

// retained counts the retained messages of this node that the stream was sent and that
// it has not sent back. While there are any of a topic, what it sends of the topic is
// older than what is here.
type retained struct {
	mu  sync.Mutex
	own map[string]int
}

// sent is told of a message that goes to the stream.
func (r *retained) sent(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own == nil {
		r.own = map[string]int{}
	}
	r.own[topic]++
}

// stored is told that it has come back, or never will. It reports whether that was the
// last one under way.
func (r *retained) stored(topic string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.own[topic]; n > 1 {
		r.own[topic] = n - 1
		return false
	}
	delete(r.own, topic)
	return true
}

// under reports whether messages of the topic are under way.
func (r *retained) under(topic string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own[topic] > 0
}

// storeRetained sends a message of QoS 0 to the stream.
func (p *Plane) storeRetained(topic string, data []byte) {
	if _, err := p.js.PublishMsgAsync(&nats.Msg{Subject: subjectOf(retainedSubjects, topic), Data: data}); err != nil {
		p.lost.Add(1)
	}
}

// watchRetained keeps the retained messages of all nodes at this one. It returns when
// those that the stream had are here.
func (p *Plane) watchRetained(ctx context.Context) error {
	wrap := func(err error) error { return fmt.Errorf("backplane: retained messages: %w", err) }
	stream, err := p.js.Stream(ctx, retainedStream)
	if err != nil {
		return wrap(err)
	}
	had := stream.CachedInfo().State
	c, err := p.js.OrderedConsumer(p.ctx, retainedStream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy})
	if err != nil {
		return wrap(err)
	}
	loaded := make(chan struct{})
	last := false
	consuming, err := c.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			return
		}
		p.retain(m, meta.Timestamp)
		if !last && meta.Sequence.Stream >= had.LastSeq {
			last = true
			close(loaded)
		}
	}, jetstream.PullExpiry(4*feedSilence), jetstream.PullHeartbeat(feedSilence))
	if err != nil {
		return wrap(err)
	}
	p.done.Go(func() {
		<-p.ctx.Done()
		consuming.Stop()
		<-consuming.Closed()
	})
	if had.Msgs == 0 {
		return nil
	}
	select {
	case <-loaded:
		return nil
	case <-ctx.Done():
		return wrap(ctx.Err())
	}
}

// retain takes a message of the stream.
func (p *Plane) retain(m jetstream.Msg, stored time.Time) {
	msg, err := p.aged(m.Data(), stored, live.Now())
	if err != nil {
		return
	}
	topic := msg.Topic.Name()
	if msg.Origin == p.origin && msg.QoS == 0 {
		if !p.retained.stored(topic) {
			return
		}
	} else if p.retained.under(topic) {
		return
	}
	p.hub.Retain(&msg)
}
