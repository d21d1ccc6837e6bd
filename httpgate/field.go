package httpgate

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// The fields in which messages travel, as net/http spells them.
const (
	field     = wire.HeaderName
	grpcField = "Spillgate-Bin" // wire.MetadataKey
	baggage   = "Baggage"
)

// isGRPC reports whether a message with this header is one of gRPC.
func isGRPC(h http.Header) bool {
	ct := h["Content-Type"]
	return len(ct) == 1 && strings.HasPrefix(ct[0], "application/grpc") &&
		(len(ct[0]) == len("application/grpc") || ct[0][len("application/grpc")] == '+' || ct[0][len("application/grpc")] == ';')
}

// fieldFor returns the name of the field for messages of a protocol.
func fieldFor(grpc bool) string {
	if grpc {
		return grpcField
	}
	return field
}

// decodeField returns the message in the values of a field.
func decodeField(values []string, grpc bool) ([]byte, error) {
	if len(values) != 1 {
		return nil, fmt.Errorf("%w: the field comes %d times, expected once", wire.ErrMalformed, len(values))
	}
	if !grpc {
		return wire.FromHeader(values[0])
	}
	v := strings.TrimRight(values[0], "=")
	if base64.RawStdEncoding.DecodedLen(len(v)) > wire.MaxLen {
		return nil, fmt.Errorf("%w: the metadata has %d characters, expected at most %d bytes", wire.ErrMalformed, len(v), wire.MaxLen)
	}
	msg, err := base64.RawStdEncoding.DecodeString(v)
	if err != nil {
		return nil, fmt.Errorf("%w: the metadata is not base64: %w", wire.ErrMalformed, err)
	}
	return msg, nil
}

// encodeField is the inverse of decodeField.
func encodeField(msg []byte, grpc bool) string {
	if grpc {
		return base64.RawStdEncoding.EncodeToString(msg)
	}
	return wire.Header(msg)
}

// readTags returns what to believe of what r says about itself and takes it off
// r.Header, so that a handler which passes headers on does not pass on what was meant
// for this hop. from is its connection, nil if nobody tracks them. speaks reports tags that could be read.
func (h *handler) readTags(r *http.Request, from *conn, grpc bool) (t wire.Tags, speaks bool) {
	ranked := false // by baggage
	for _, v := range r.Header[baggage] {
		ranked = ranked || strings.Contains(v, "spillgate.")
	}
	if h.classify != nil {
		claimed, speaks := h.claims(r, from, grpc, ranked)
		t = h.classify(r, claimed)
		t.Credits, t.Demand, t.Asks, t.Client = claimed.Credits, claimed.Demand, claimed.Asks, claimed.Client
		t.Token = claimed.Token
		if ranked {
			rerank(r.Header, t)
		}
		return t, speaks
	}
	if _, tagged := r.Header[fieldFor(grpc)]; !tagged && !ranked {
		return t, false
	}
	trusted := h.trusts(r)
	if ranked && !trusted {
		ranked = false
		rerank(r.Header, wire.Tags{})
	}
	if t, speaks = h.claims(r, from, grpc, ranked); !trusted {
		t = t.Untrusted()
	}
	return t, speaks
}

func (h *handler) trusts(r *http.Request) bool { return h.trust != nil && h.trust(r) }

// mayHurry reports whether r's deadline may put it before other requests: see Urgent.
func (h *handler) mayHurry(r *http.Request) bool {
	if h.urgent != nil {
		return h.urgent(r)
	}
	return h.classify != nil || h.trusts(r)
}

// claims returns what r says about itself, in tags, which it takes off, or, with
// ranked, in baggage.
func (h *handler) claims(r *http.Request, from *conn, grpc, ranked bool) (t wire.Tags, speaks bool) {
	if ranked {
		if err := wire.ParseBaggage(strings.Join(r.Header[baggage], ","), &t); err != nil {
			h.tellMalformed(r, err)
		}
	}
	name := fieldFor(grpc)
	values, tagged := r.Header[name]
	if !tagged {
		return t, false
	}
	delete(r.Header, name)
	own, err := parseField(from, values, grpc)
	if err != nil {
		h.tellMalformed(r, err)
		return t, false
	}
	if own.Workflow == "" && own.Class == 0 && own.Priority == 0 {
		own.Workflow, own.Class, own.Priority = t.Workflow, t.Class, t.Priority
	}
	return own, true
}

// parseField returns the tags in the values of a field, which the connection remembers.
func parseField(from *conn, values []string, grpc bool) (wire.Tags, error) {
	if grpc || len(values) != 1 {
		msg, err := decodeField(values, grpc)
		if err != nil {
			return wire.Tags{}, err
		}
		return wire.ParseTags(msg)
	}
	var heard *live.Heard
	if from != nil {
		heard = &from.heard
	}
	return heard.Tags(values[0], parseWeb)
}

func parseWeb(text string) (wire.Tags, error) {
	msg, err := wire.FromHeader(text)
	if err != nil {
		return wire.Tags{}, err
	}
	return wire.ParseTags(msg)
}

// rerank makes the rank in baggage that of t.
func rerank(header http.Header, t wire.Tags) {
	if b := wire.AppendBaggage(nil, strings.Join(header[baggage], ","), t); len(b) > 0 {
		header[baggage] = []string{string(b)}
	} else {
		delete(header, baggage)
	}
}

func (h *handler) tellMalformed(r *http.Request, err error) {
	if h.malformed != nil {
		h.malformed(r, err)
	}
}
