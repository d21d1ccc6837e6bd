package follow

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Changing follows the messages of a stream on subjects that Change replaces meanwhile.
type Changing struct {
	stream Stream
	after  atomic.Uint64
	next   chan prepared
}

// prepared is a consumer that is to be read from.
type prepared struct {
	jetstream.Consumer
	subjects []string
	instead  chan string // is sent the name of the one before
}

// endTime bounds how long NATS may take to end a consumer that is read from no more.
const endTime = time.Second

// NewChanging returns one that begins after a position of the stream.
func NewChanging(s Stream, after uint64) *Changing {
	f := &Changing{stream: s, next: make(chan prepared)}
	f.after.Store(after)
	return f
}

// Run calls handle as Stream.Follow does, for messages on subjects, which do not overlap, until Change replaces these or ctx ends.
func (f *Changing) Run(ctx context.Context, subjects []string, handle func([]Message)) {
	for ctx.Err() == nil {
		s := f.stream
		s.filters = subjects
		var next prepared
		c, err := s.consumer(ctx, f.after.Load())
		for next.Consumer = c; err == nil; {
			next, err = s.once(ctx, next.Consumer, &f.after, f.next, handle)
			if err == nil {
				subjects = next.subjects
			}
		}
		if ctx.Err() != nil {
			return
		}
		s.Log.Debug("a stream is read anew", "stream", s.Name, "after", f.after.Load(), "because", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Change has Run handle the messages on other subjects. When it returns, those that the stream takes from then on will be handled, and
// until then it is as before: the new consumer is there before the old one is given up. It returns an error where it has changed nothing. It is
// not to be called by handle.
func (f *Changing) Change(ctx context.Context, subjects []string) error {
	s := f.stream
	s.filters = subjects
	c, err := s.consumer(ctx, f.after.Load())
	if err != nil {
		return err
	}
	p := prepared{c, subjects, make(chan string, 1)}
	select {
	case f.next <- p: // nothing comes by the old one any more
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	_ = s.JS.DeleteConsumer(ctx, s.Name, <-p.instead) // if not, it ends after unusedTime
	return nil
}
