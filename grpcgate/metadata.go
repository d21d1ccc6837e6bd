package grpcgate

import (
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// A call takes its metadata from its context, where package metadata puts it under a key of its own. Most calls
// say the same as the one before, so outgoing answers to that key with what NewOutgoingContext made once: a
// context a call, which all lookups on the way to the connection have to pass, and its value are spared.

// outgoingMetadata is the key under which NewOutgoingContext puts metadata, nil if that is not how it does.
var outgoingMetadata = func() any {
	var asked spy
	metadata.FromOutgoingContext(&asked)
	if asked.key == nil {
		return nil
	}
	md := metadata.MD{wire.MetadataKey: {"x"}}
	found := metadata.NewOutgoingContext(context.Background(), md).Value(asked.key)
	if got, ok := metadata.FromOutgoingContext(context.WithValue(context.Background(), asked.key, found)); !ok || got[wire.MetadataKey][0] != "x" {
		return nil
	}
	return asked.key
}()

// spy is a context that notes what it is asked for.
type spy struct {
	context.Context
	key any
}

func (l *spy) Value(key any) any {
	l.key = key
	return nil
}

// said is tags as grpc sends them.
type said struct {
	text string
	// value is what AppendToOutgoingContext makes of text, without a map, nil without outgoingMetadata.
	value any
}

func asMetadata(tags wire.Tags) any {
	s := &said{text: text(&tags)}
	if outgoingMetadata != nil {
		s.value = metadata.AppendToOutgoingContext(context.Background(), wire.MetadataKey, s.text).Value(outgoingMetadata)
	}
	return s
}

func text(tags *wire.Tags) string {
	var buf [wire.MaxTags]byte
	return string(tags.Append(buf[:0]))
}

// withTags returns the context of the call with tags in its metadata. The budget is not among them, as grpc
// says it itself.
func (o *outgoing) withTags(tags *wire.Tags) context.Context {
	if o.permit == nil {
		return o.withText(text(tags))
	}
	s := o.permit.Server().Said().Form(tags, asMetadata).(*said)
	if s.value == nil || o.Context.Value(outgoingMetadata) != nil { // the caller has metadata too
		return o.withText(s.text)
	}
	o.said = s
	return o
}

// withText returns the context of the call with tags, if text is not empty, beside the caller's metadata. In those may be other
// tags, if the caller passes on what the request that it serves came with, or makes this call for another one: they are of
// that one alone, and a server that finds two believes neither.
func (o *outgoing) withText(text string) context.Context {
	if live.Serving(o.Context) || outgoingFrom(o.Context) != nil {
		if md := tagged(o.Context); md != nil {
			if md[wire.MetadataKey] = []string{text}; text == "" {
				delete(md, wire.MetadataKey)
			}
			return metadata.NewOutgoingContext(o, md)
		}
	}
	if text == "" {
		return o
	}
	return metadata.AppendToOutgoingContext(o, wire.MetadataKey, text)
}

// tagged returns a copy of the metadata that a call with ctx sends, nil if there are no tags in it.
func tagged(ctx context.Context) metadata.MD {
	md, _ := metadata.FromOutgoingContext(ctx)
	if len(md[wire.MetadataKey]) == 0 {
		return nil
	}
	return md
}
