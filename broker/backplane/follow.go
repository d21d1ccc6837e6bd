package backplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Streams are read through consumers, each of which NATS keeps on one node. It places new ones
// on a dead node too, as long as the cluster's leader takes that for alive, and does not
// place a consumer again under the name of one that the node has. So no consumer here is
// repaired: one that says nothing is given up, and the next one, with a name of its own,
// begins after the last message that came.
//
//	follow: consumer ──▶ messages ──▶ handle
//	           ▲                        │
//	           └── silence, gap, error ─┘

const (
	// makeTime bounds how long NATS may take to make a consumer. It exceeds the 3 s after
	// which NATS places none on a node that does not answer, so the second one is elsewhere.
	makeTime = 4 * time.Second
	// unusedTime is how long NATS keeps a consumer that nobody reads from.
	unusedTime = 30 * time.Second
	// silence is how long a stream may send this node nothing, not even that there is
	// nothing, twice over, before a consumer is given up.
	silence = time.Second
	// waitingMessages is how many messages of a stream wait to be handled here. The
	// stream is asked for more when they have been.
	waitingMessages = 512
	// followPause is between two consumers.
	followPause = 100 * time.Millisecond
)

// errGap is of a consumer whose messages did not all come.
var errGap = errors.New("backplane: messages are missing")

// arrived is a message of a stream.
type arrived struct {
	jetstream.Msg
	position uint64
	stored   time.Time
	after    uint64 // how many the stream has after it
}

// arrivedOf returns a message that is to be the nth of its consumer.
func arrivedOf(m jetstream.Msg, n uint64) (a arrived, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return a, err
	}
	if meta.Sequence.Consumer != n {
		return a, errGap
	}
	return arrived{m, meta.Sequence.Stream, meta.Timestamp, meta.NumPending}, nil
}

// consumer makes a consumer of what a stream has after a position.
func (p *Plane) consumer(ctx context.Context, stream string, after uint64) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	c, err := p.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: unusedTime, Replicas: 1, MemoryStorage: true})
	if err != nil {
		return nil, fmt.Errorf("backplane: a consumer of %s: %w", stream, err)
	}
	return c, nil
}

// follow calls handle for the messages of a stream after a position, each once and in
// order, as many at a time as there are, until the plane is closed.
func (p *Plane) follow(stream string, after uint64, handle func([]arrived)) {
	for p.ctx.Err() == nil {
		err := p.followOnce(stream, &after, handle)
		if p.ctx.Err() == nil {
			p.log.Debug("a stream is read anew", "stream", stream, "after", after, "because", err)
			p.sleep(followPause)
		}
	}
}

// load follows a stream from its beginning. It returns when what the stream had is handled.
func (p *Plane) load(ctx context.Context, stream string, handle func(*arrived)) error {
	wrap := func(err error) error { return fmt.Errorf("backplane: %s: %w", stream, err) }
	var s jetstream.Stream
	if err := p.ask(ctx, func(ctx context.Context) (err error) {
		s, err = p.js.Stream(ctx, stream)
		return err
	}); err != nil {
		return wrap(err)
	}
	had, loaded := s.CachedInfo().State, make(chan struct{})
	last := false
	p.done.Go(func() {
		p.follow(stream, 0, func(all []arrived) {
			for i := range all {
				handle(&all[i])
			}
			if !last && all[len(all)-1].position >= had.LastSeq {
				last = true
				close(loaded)
			}
		})
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

// followOnce follows a stream through one consumer, and returns why that ended.
func (p *Plane) followOnce(stream string, after *uint64, handle func([]arrived)) error {
	c, err := p.consumer(p.ctx, stream, *after)
	if err != nil {
		return err
	}
	messages, broken, done := make(chan jetstream.Msg, waitingMessages), make(chan error, 1), make(chan struct{})
	defer close(done)
	consuming, err := c.Consume(func(m jetstream.Msg) {
		select {
		case messages <- m:
		case <-done:
		}
	}, jetstream.PullMaxMessages(waitingMessages), jetstream.PullExpiry(4*silence), jetstream.PullHeartbeat(silence),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case broken <- err:
			default: // one reason is enough
			}
		}))
	if err != nil {
		return err
	}
	defer consuming.Stop()
	var all []arrived
	for n := uint64(1); ; {
		all = all[:0]
		select {
		case <-p.ctx.Done():
			return p.ctx.Err()
		case err := <-broken:
			return err
		case m := <-messages:
			for more := true; more && err == nil; {
				var a arrived
				if a, err = arrivedOf(m, n); err == nil {
					all, n = append(all, a), n+1
				}
				if more = len(messages) > 0 && len(all) < waitingMessages; more {
					m = <-messages
				}
			}
		}
		if len(all) > 0 {
			handle(all)
			*after = all[len(all)-1].position
			clear(all)
		}
		if err != nil {
			return err
		}
	}
}
