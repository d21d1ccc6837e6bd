package grpcgate

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/metadata"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// incoming is a request that a server works on, as a context, so that stamp,
// tags and context cost one allocation together.
type incoming struct {
	context.Context
	conn    *connection // that it came by, also that of a plain client
	account *account    // of a client that obeys credits
	method  string
	kind    *string     // nil: the method
	tags    wire.Tags   // nobody writes to them once the handler runs; see read
	ticket  live.Ticket // to be looked at once admitted
	arrived mono.Time   // at the connection reader
	// downstream is set when a call made while serving this one was refused for
	// want of capacity.
	downstream atomic.Bool
	admitted   bool
	inner      bool // made inside the process, for a call whose trailer is not its own
	// unread is the header of a call whose tags nobody has looked at, at server.
	unread metadata.MD
	server *server
}

// read reads the tags, in the call's own goroutine: in the one that reads the
// connection it made a stack of 4 KB one of 8, and with 10,000 clients that is 4 KB a
// client. The first call is before the handler, and the context has one user then.
func (in *incoming) read() *incoming {
	if in == nil || in.unread == nil {
		return in
	}
	header := in.unread
	in.unread = nil
	in.conn = in.server.connectionOf(in.Context)
	var heard *live.Heard
	if in.conn != nil {
		heard = &in.conn.heard
	}
	in.tags = tagsOf(header, heard, &in.server.o.counters.Malformed)
	if in.tags != (wire.Tags{}) && in.tags.Budget == 0 {
		if d, ok := in.Context.Deadline(); ok {
			in.tags.Budget = max(live.Instant(d).Sub(in.arrived), 1) // which grpc said
		}
	}
	return in
}

// Kind is what the call does: see live.Kind.
func (in *incoming) Kind() string {
	if in.kind != nil {
		return *in.kind
	}
	return in.method
}

type incomingKey struct{}

func (in *incoming) Value(key any) any {
	switch key {
	case incomingKey{}, live.ServingKey{}:
		return in
	case live.TagsKey{}:
		return &in.read().tags
	}
	if in.admitted {
		switch key {
		case live.TicketKey{}:
			return &in.ticket
		case live.SpanKey{}:
			return in.ticket.Span()
		}
	}
	return in.Context.Value(key)
}

func incomingFrom(ctx context.Context) *incoming {
	in, _ := ctx.Value(incomingKey{}).(*incoming)
	return in.read()
}

// RefusedBelow notes that a call made on behalf of in was refused: see live.RefusedBelow.
func (in *incoming) RefusedBelow() { in.downstream.Store(true) }

// believe takes off the tags of a call what the server does not believe, and reports whether
// the sender is trusted. What a classifier returned is believed.
func (s *server) believe(ctx context.Context, method string, t *wire.Tags) bool {
	switch {
	case s.o.classify != nil:
		claimed := *t
		*t = s.o.classify(ctx, method, claimed)
		t.Credits, t.Demand, t.Asks, t.Client, t.Token = claimed.Credits, claimed.Demand, claimed.Asks, claimed.Client, claimed.Token
	case s.o.trust == nil || !s.o.trust(ctx, method):
		*t = t.Untrusted()
		return false
	}
	return true
}

// attemptsKey is the metadata by which grpc's own retry policy says how many attempts of
// the call were made before.
const attemptsKey = "grpc-previous-rpc-attempts"

// tagsOf reads the tags in a request's metadata, and which attempt it is: what they say,
// or grpc's own retry policy if that is more.
func tagsOf(md metadata.MD, heard *live.Heard, count *atomic.Int64) wire.Tags {
	t := ownTags(md, heard, count)
	if v := md[attemptsKey]; len(v) == 1 {
		if n, err := strconv.ParseUint(v[0], 10, 31); err == nil {
			t.Attempt = max(t.Attempt, int(min(n, wire.MaxAttempt)))
		}
	}
	return t
}

// ownTags reads the tags in a request's metadata: those of Spillgate, or where
// there are none, those in baggage. What is malformed or comes twice is counted
// and ignored. heard, if not nil, is what the connection brought before.
func ownTags(md metadata.MD, heard *live.Heard, count *atomic.Int64) wire.Tags {
	var t wire.Tags
	switch values := md[wire.MetadataKey]; len(values) {
	case 0:
	case 1:
		var err error
		if t, err = heard.Tags(values[0], parseTags); err != nil {
			count.Add(1)
		}
		return t
	default:
		count.Add(1)
		return t
	}
	if values := md["baggage"]; len(values) > 0 {
		// Several baggage headers are one list (RFC 9110 §5.3): what comes in two
		// of them comes twice, and their lengths add up.
		if err := wire.ParseBaggage(strings.Join(values, ","), &t); err != nil {
			count.Add(1)
		}
	}
	return t
}

func parseTags(text string) (wire.Tags, error) { return wire.ParseTags([]byte(text)) }

// replyOf reads the reply in a call's trailer.
func replyOf(md metadata.MD, count *atomic.Int64) wire.Reply {
	values := md[wire.MetadataKey]
	if len(values) == 0 {
		return wire.Reply{}
	}
	if len(values) > 1 {
		count.Add(1)
		return wire.Reply{}
	}
	r, err := wire.ParseReply([]byte(values[0]))
	if err != nil {
		count.Add(1)
	}
	return r
}
