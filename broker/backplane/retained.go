package backplane

import (
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/follow"
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

// retain takes a message of the stream.
func (p *Plane) retain(m *follow.Message) {
	msg, err := p.aged(m.Data(), m.Stored, live.Now())
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
