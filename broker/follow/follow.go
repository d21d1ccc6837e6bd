package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

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
	// pause is between two consumers.
	pause = 100 * time.Millisecond
)

// errGap is of a consumer whose messages did not all come.
var errGap = errors.New("follow: messages are missing")

// Stream is a stream of JetStream.
type Stream struct {
	JS   jetstream.JetStream
	Name string
	// Filter is the subject of the messages that are read. Default all.
	Filter string
	// Log is told, for debugging, why a stream is read anew.
	Log *slog.Logger

	filters []string // in place of Filter
}

// On returns the stream with only what it has on some subjects, which do not overlap.
func (s Stream) On(subjects []string) Stream {
	s.filters = subjects
	return s
}

// Message is a message of a stream.
type Message struct {
	jetstream.Msg
	// Position is its sequence number in the stream.
	Position uint64
	// Stored is when the stream took it.
	Stored time.Time
	// Left is how many the stream had after it when it was sent.
	Left uint64
}

// arrived returns a message that is to be the nth of its consumer.
func arrived(m jetstream.Msg, n uint64) (a Message, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return a, err
	}
	if meta.Sequence.Consumer != n {
		return a, errGap
	}
	return Message{m, meta.Sequence.Stream, meta.Timestamp, meta.NumPending}, nil
}

// consumer makes a consumer of what a stream has after a position.
func (s Stream) consumer(ctx context.Context, after uint64) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	c, err := s.JS.CreateConsumer(ctx, s.Name, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1, FilterSubject: s.Filter,
		FilterSubjects: s.filters, AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: unusedTime, Replicas: 1, MemoryStorage: true})
	if err != nil {
		return nil, fmt.Errorf("a consumer of %s: %w", s.Name, err)
	}
	return c, nil
}

// Follow calls handle for the messages of a stream after a position, each once and in
// order, as many at a time as there are, until ctx ends. handle may not keep the slice.
func (s Stream) Follow(ctx context.Context, after uint64, handle func([]Message)) {
	NewChanging(s, after).Run(ctx, nil, handle)
}

// once follows a stream through a consumer, beyond what was handled before, until another one is to be read from. It returns that, or why
// this one ended.
func (s Stream) once(ctx context.Context, c jetstream.Consumer, after *atomic.Uint64, next <-chan prepared, handle func([]Message)) (prepared, error) {
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
		return prepared{}, err
	}
	defer consuming.Stop()
	var all []Message
	for n := uint64(1); ; {
		all = all[:0]
		select {
		case <-ctx.Done():
			return prepared{}, ctx.Err()
		case err := <-broken:
			return prepared{}, err
		case p := <-next:
			p.instead <- c.CachedInfo().Name
			return p, nil
		case m := <-messages:
			for more := true; more && err == nil; {
				var a Message
				if a, err = arrived(m, n); err == nil {
					n++
					if a.Position > after.Load() {
						all = append(all, a)
					}
				}
				if more = len(messages) > 0 && len(all) < waitingMessages; more {
					m = <-messages
				}
			}
		}
		if len(all) > 0 {
			handle(all)
			after.Store(all[len(all)-1].Position)
			clear(all)
		}
		if err != nil {
			return prepared{}, err
		}
	}
}

// Read calls each for the messages that a stream has after a position, in order, until each
// returns false or there are no more. It returns the position of the last one for which each
// returned true. Without a Filter there has to be one at least, or it waits until there is.
func (s Stream) Read(ctx context.Context, after uint64, each func(*Message) bool) (uint64, error) {
	c, err := s.consumer(ctx, after)
	if err != nil {
		return after, err
	}
	if s.Filter != "" && c.CachedInfo().NumPending == 0 {
		return after, nil
	}
	for n, left := uint64(1), c.CachedInfo().NumPending; ; {
		// A fetch says that nobody answers, unlike an iterator of the library, which then waits for a heartbeat in vain.
		batch, err := c.Fetch(int(min(max(left, 1), waitingMessages)), jetstream.FetchContext(ctx), jetstream.FetchHeartbeat(silence))
		if err != nil {
			return after, err
		}
		for m := range batch.Messages() {
			a, err := arrived(m, n)
			if err != nil {
				return after, err
			}
			if !each(&a) {
				return after, nil
			}
			if after, left, n = a.Position, a.Left, n+1; left == 0 {
				return after, nil
			}
		}
		if err := batch.Error(); err != nil {
			return after, err
		}
	}
}
