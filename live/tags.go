package live

import (
	"context"

	"github.com/spillgate/spillgate/wire"
)

// TagsKey is the key under which a context holds a wire.Tags. An edge that has a
// context of its own for each request answers to it; others use WithTags.
type TagsKey struct{}

// WithTags returns a context whose requests carry t: edges of servers set what a
// request said about itself, edges of clients send it on, so that class,
// priority and workflow follow a request through a service, whatever protocols
// it speaks on either side. Budget, Credits, Demand and Client are of one hop
// and are not sent on; the budget that is left is that of the context's
// deadline.
func WithTags(ctx context.Context, t wire.Tags) context.Context {
	return context.WithValue(ctx, TagsKey{}, t)
}

// TagsFrom returns the tags of the request that ctx belongs to, zero Tags if it
// has none.
func TagsFrom(ctx context.Context) wire.Tags {
	t, _ := ctx.Value(TagsKey{}).(wire.Tags)
	return t
}
