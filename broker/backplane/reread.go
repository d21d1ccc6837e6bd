package backplane

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/live"
)

// A retained message of QoS 0 is retained at its node at once. If the stream does not take it, because it is full or cannot be
// reached, the other nodes keep the message before. So this node then asks the stream what the last one is.

const (
	// maxUnsure is how many topics wait to be asked about. Further ones stay as they are until their next retained message.
	maxUnsure = 10_000
	// rereadTime bounds one attempt to ask.
	rereadTime = 10 * time.Second
)

// unsure is the topics whose retained message here may not be that of the stream.
type unsure struct {
	mu     sync.Mutex
	topics map[string]bool
	more   chan struct{} // has one element while there may be topics
}

func (u *unsure) add(topic string) {
	u.mu.Lock()
	if len(u.topics) < maxUnsure {
		u.topics[topic] = true
	}
	u.mu.Unlock()
	select {
	case u.more <- struct{}{}:
	default:
	}
}

func (u *unsure) take() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := slices.Sorted(maps.Keys(u.topics))
	clear(u.topics)
	return all
}

// reread asks about unsure topics.
func (p *Plane) reread() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.unsure.more:
		}
		for _, topic := range p.unsure.take() {
			if err := p.agree(topic); err != nil && p.ctx.Err() == nil {
				p.log.Debug("what is retained is not known", "topic", topic, "error", err)
				p.unsure.add(topic)
				p.sleep(time.Second)
			}
		}
	}
}

// agree retains what the stream has of a topic. Messages that the stream sends come in between, so it asks until the answer
// is what it has retained last: later ones are then yet to come.
func (p *Plane) agree(topic string) error {
	ctx, cancel := context.WithTimeout(p.ctx, rereadTime)
	defer cancel()
	t, err := p.hub.Delivered([]byte(topic))
	if err != nil {
		return nil // it has none
	}
	retained := uint64(1<<64 - 1) // none
	for {
		var raw *jetstream.RawStreamMsg
		if err := p.ask(ctx, func(ctx context.Context) (err error) {
			raw, err = p.retainedLog.GetLastMsgForSubject(ctx, subjectOf(retainedSubjects, topic))
			return err
		}); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return err
		}
		position, msg := uint64(0), engine.Message{Topic: t}
		if raw != nil {
			position = raw.Sequence
			if msg, err = p.aged(raw.Data, raw.Time, live.Now()); err != nil {
				return nil // no message at all, which no node retains: asking again would not help
			}
		}
		if position == retained {
			return nil
		}
		p.retained.came(topic, position, func() { p.hub.Retain(&msg) })
		retained = position
	}
}
