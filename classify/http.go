package classify

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/spillgate/spillgate/live"
	"github.com/spillgate/spillgate/mono"
	"github.com/spillgate/spillgate/wire"
)

// The fields in which tags travel, as net/http spells them.
const (
	tagsField   = wire.HeaderName
	binaryField = "Spillgate-Bin" // wire.MetadataKey
	baggage     = "Baggage"
)

// Stamp says what req is and writes it into the tags that req carries, so that a
// handler behind it may believe them: httpgate.Handler with httpgate.Trust of all
// requests. From senders who are not trusted nothing else is left that could be
// believed but what concerns this hop alone: the budget, the attempt, and credits.
// Tags that break the format are taken off, and the error wraps wire.ErrMalformed.
//
// Deadline is zero where it would not apply: req brought one, or is an upgrade,
// after which a connection is open for as long as its two ends like.
func (r *Rules) Stamp(now mono.Time, req *http.Request, names *Names, trusted bool) (Result, error) {
	grpc := isGRPC(req.Header)
	field := tagsField
	if grpc {
		field = binaryField
	}
	var own wire.Tags
	var malformed error
	values, tagged := req.Header[field]
	if tagged {
		if own, malformed = parseTags(values, grpc); malformed != nil {
			delete(req.Header, field)
			own, tagged = wire.Tags{}, false
		}
	}
	others, ranked := joinBaggage(req.Header[baggage])
	f := Facts{Method: req.Method, Host: req.Host, Path: req.URL.Path, Header: req.Header, Trusted: trusted}
	if len(r.rules) > 0 {
		f.Peer = parseAddr(req.RemoteAddr)
	}
	f.Claims = Rank{own.Workflow, own.Class, own.Priority}
	if ranked && f.Claims == (Rank{}) && (trusted || r.any) {
		var t wire.Tags
		if err := wire.ParseBaggage(others, &t); err != nil {
			malformed = errors.Join(malformed, err)
		}
		f.Claims = Rank{t.Workflow, t.Class, t.Priority}
	}
	out := r.Classify(now, &f, names)

	stamped := own
	if !trusted {
		stamped = wire.Tags{Budget: own.Budget, Attempt: own.Attempt, Credits: own.Credits, Demand: own.Demand, Client: own.Client}
	}
	stamped.Workflow, stamped.Class, stamped.Priority = out.Workflow, out.Class, out.Priority
	if tagged && stamped != own {
		msg := stamped.Append(nil)
		if grpc {
			req.Header[field] = []string{base64.RawStdEncoding.EncodeToString(msg)}
		} else {
			req.Header[field] = []string{wire.Header(msg)}
		}
	}
	// Tags that say nothing about the rank leave it to baggage. A request without
	// tags gets none, for it would be answered with tags.
	if ranked || !tagged && out.Rank != (Rank{}) {
		if b := wire.AppendBaggage(nil, others, wire.Tags{Workflow: out.Workflow, Class: out.Class, Priority: out.Priority}); len(b) > 0 {
			req.Header[baggage] = []string{string(b)}
		} else {
			delete(req.Header, baggage)
		}
	}
	if own.Budget != 0 || grpc && req.Header["Grpc-Timeout"] != nil || req.Header["Upgrade"] != nil {
		out.Deadline = 0
	}
	return out, malformed
}

// Handler stamps each request by r before next serves it, and sets the deadline
// that r gives. next is an httpgate.Handler with httpgate.Trust of all requests;
// trust, which may be nil for nobody, names those whose tags are believed.
func (r *Rules) Handler(next http.Handler, names *Names, trust func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		out, _ := r.Stamp(live.Now(), req, names, trust != nil && trust(req))
		if out.Deadline > 0 {
			ctx, cancel := context.WithTimeout(req.Context(), out.Deadline)
			defer cancel()
			req = req.WithContext(ctx)
		}
		next.ServeHTTP(w, req)
	})
}

// isGRPC reports whether a message with this header is one of gRPC.
func isGRPC(h http.Header) bool {
	ct := h["Content-Type"]
	if len(ct) != 1 {
		return false
	}
	rest, ok := strings.CutPrefix(ct[0], "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// parseTags returns the tags in the values of a field.
func parseTags(values []string, binary bool) (wire.Tags, error) {
	if len(values) != 1 {
		return wire.Tags{}, fmt.Errorf("%w: the field comes %d times, expected once", wire.ErrMalformed, len(values))
	}
	if !binary {
		msg, err := wire.FromHeader(values[0])
		if err != nil {
			return wire.Tags{}, err
		}
		return wire.ParseTags(msg)
	}
	text := strings.TrimRight(values[0], "=")
	if base64.RawStdEncoding.DecodedLen(len(text)) > wire.MaxLen {
		return wire.Tags{}, fmt.Errorf("%w: the metadata has %d characters, expected at most %d bytes", wire.ErrMalformed, len(text), wire.MaxLen)
	}
	msg, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return wire.Tags{}, fmt.Errorf("%w: the metadata is not base64: %w", wire.ErrMalformed, err)
	}
	return wire.ParseTags(msg)
}

// joinBaggage returns the one list that several baggage headers are (RFC 9110
// §5.3), and whether it may name members of Spillgate.
func joinBaggage(values []string) (list string, ranked bool) {
	for _, v := range values {
		ranked = ranked || strings.Contains(v, "spillgate.")
	}
	switch {
	case len(values) == 1:
		return values[0], ranked
	case len(values) > 1:
		return strings.Join(values, ","), ranked
	}
	return "", false
}

// parseAddr returns the address in host:port; the zero Addr if there is none.
func parseAddr(remote string) netip.Addr {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap().WithZone("")
}
