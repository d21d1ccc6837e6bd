package backplane

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// askPause is between two attempts of ask.
const askPause = 100 * time.Millisecond

// ask has NATS do something, again and again until ctx ends, while a stream has no leader:
// then some requests are answered by nobody, and others with an error.
func (p *Plane) ask(ctx context.Context, do func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, ackTime)
		err := do(try)
		cancel()
		if err == nil || ctx.Err() != nil || p.ctx.Err() != nil || !leaderless(err) {
			return err
		}
		p.sleep(askPause)
	}
}

// leaderless reports whether an error is of a stream that may have no leader at the moment.
func leaderless(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrNoStreamResponse) || errors.As(err, &api) && api.Code == 503 && !full(err)
}

// hopeless reports whether an error is not worth another attempt: the log is full, or the
// only disk, or the message is not one that it takes.
func (p *Plane) hopeless(err error) bool {
	var api *jetstream.APIError
	return p.alone && p.full.Load() || full(err) || errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && api.Code == 400
}

// full reports whether an error says that there is no room to store anything.
func full(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.Code == 503 && strings.Contains(api.Description, "resource") || strings.Contains(api.Description, "maximum bytes") ||
		strings.Contains(api.Description, "maximum messages") || strings.Contains(api.Description, "storage"))
}
