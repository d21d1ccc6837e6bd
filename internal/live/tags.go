package live

import (
	"context"

	"github.com/spillgate/spillgate/internal/wire"
)

// TagsKey is the key under which a context holds a *wire.Tags, which nobody writes
// to any more. An edge that has a context of its own for each request answers to
// it; others use WithTags.
type TagsKey struct{}

// WithTags returns a context whose requests carry t: edges of servers set what a
// request said about itself, edges of clients send it on, so that class,
// priority and workflow follow a request through a service, whatever protocols
// it speaks on either side.
//
// Budget, Credits, Demand, Asks, Client, Process, Claim, Waited and Token are of one hop and are not
// sent on; the budget that is left is that of the context's deadline. Workflow, Class,
// Priority, Attempt and Total go on as they came. So does Elapsed, with what the
// request received here: see Onward.
func WithTags(ctx context.Context, t wire.Tags) context.Context {
	return context.WithValue(ctx, TagsKey{}, &t)
}

// TagsFrom returns the tags of the request that ctx belongs to, zero Tags if it
// has none.
func TagsFrom(ctx context.Context) wire.Tags {
	if t := tagsIn(ctx); t != nil {
		return *t
	}
	return wire.Tags{}
}

func tagsIn(ctx context.Context) *wire.Tags {
	t, _ := ctx.Value(TagsKey{}).(*wire.Tags)
	return t
}

// Onward returns the tags of a call made for the request that ctx belongs to:
// those that go on, with the progress up to now if ctx has a Span. What is of one
// hop is zero, for the edge that makes the call to fill in.
func Onward(ctx context.Context) wire.Tags {
	t := TagsFrom(ctx)
	t.Budget, t.Credits, t.Demand, t.Asks, t.Client, t.Process, t.Claim, t.Waited, t.Token = 0, false, 0, false, 0, 0, 0, 0, wire.Token{}
	if s := SpanFrom(ctx); s != nil {
		t.Elapsed = s.Elapsed()
	}
	return t
}
