package classify

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/urlpath"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// The fields in which tags travel, as net/http spells them.
const (
	tagsField   = wire.HeaderName
	binaryField = "Spillgate-Bin" // wire.MetadataKey
	baggage     = "Baggage"
)

// Stamp says what req is and writes it into the tags that req carries, so that who
// passes the request on passes that on, and a handler behind it may believe them:
// httpgate.Spread with httpgate.Trust of all requests. A server that answers itself
// uses HTTP. From senders who are not trusted nothing else is left that could be
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
	f := r.facts(req, trusted)
	f.Claims = Rank{own.Workflow, own.Class, own.Priority}
	if ranked && f.Claims == (Rank{}) && (trusted || r.any) {
		var t wire.Tags
		if err := wire.ParseBaggage(others, &t); err != nil {
			malformed = errors.Join(malformed, err)
		}
		f.Claims = Rank{t.Workflow, t.Class, t.Priority}
	}
	out := r.classify(now, &f, names, req.URL)
	if out.Deadline != 0 && timed(req, &own, grpc) {
		out.Deadline = 0
	}

	stamped := believed(own, out.Rank, trusted)
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
	return out, malformed
}

// HTTP returns what httpgate.Classify takes: what the rules say, and of what a request
// says about itself as much as Stamp leaves. trust, which may be nil for nobody, names
// requests whose tags are believed.
func (r *Rules) HTTP(names *Names, trust func(*http.Request) bool) func(req *http.Request, claimed wire.Tags) wire.Tags {
	return func(req *http.Request, claimed wire.Tags) wire.Tags {
		f := r.facts(req, trust != nil && trust(req))
		f.Claims = Rank{claimed.Workflow, claimed.Class, claimed.Priority}
		out := r.classify(live.Now(), &f, names, req.URL)
		t := believed(claimed, out.Rank, f.Trusted)
		if !timed(req, &claimed, isGRPC(req.Header)) {
			t.Budget = out.Deadline
		}
		return t
	}
}

// classify is Classify for what is sent to u. Servers read some paths in several ways, and a client that writes one so
// would buy what one rule grants for the work of another: what is granted by each reading counts.
func (r *Rules) classify(now mono.Time, f *Facts, names *Names, u *url.URL) Result {
	if len(r.rules) == 0 {
		return r.Classify(now, f, names)
	}
	f.Path = urlpath.Canonical(u.Path)
	others, all := urlpath.Others(u.Path, u.RawPath)
	if !all {
		return r.lowest(now, f, names)
	}
	out := r.Classify(now, f, names)
	for _, f.Path = range others {
		out = r.lower(out, r.Classify(now, f, names))
	}
	return out
}

// lowest is what a request is whose path may be any.
func (r *Rules) lowest(now mono.Time, f *Facts, names *Names) Result {
	out, some := Result{}, false
	for i := range len(r.rules) + 1 {
		if i == len(r.rules) {
			i = -1 // none matches
		} else if !r.rules[i].match(f) {
			continue
		}
		if what := r.by(i, now, f, names); some {
			out = r.lower(out, what)
		} else {
			out, some = what, true
		}
		if i >= 0 && len(r.rules[i].paths) == 0 {
			break // it matches all that come to it
		}
	}
	return out
}

// lower returns what a request is of which two readings say different things: of everything that one of them grants, what
// both do.
func (r *Rules) lower(a, b Result) Result {
	if cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(b.Priority, a.Priority)) > 0 {
		a, b = b, a
	}
	out := a
	out.Ruled = a.Ruled && b.Ruled || (a.Ruled || b.Class == a.Class && b.Ruled) && a.Class == work.Default
	out.Priority = max(a.Priority, b.Priority)
	ours, others := r.granted(a.Workflow), r.granted(b.Workflow)
	if cmp.Or(cmp.Compare(others.Guarantee, ours.Guarantee), cmp.Compare(others.weight(), ours.weight())) < 0 {
		out.Workflow = b.Workflow
	}
	if out.Deadline = max(a.Deadline, b.Deadline); a.Deadline == 0 || b.Deadline == 0 {
		out.Deadline = 0 // which any client may choose for itself, and it puts a request before no other
	}
	out.Objective = min(a.Objective, b.Objective) // 0: the gate's
	if a.Use.Holds == "" && b.Use.Holds != "" {
		out.Use = b.Use
	}
	if a.Use.Needs != b.Use.Needs {
		out.Use.Needs = "" // what holds it may be cancelled for the sake of those that need it
	}
	out.Use.NoCancel = a.Use.NoCancel || b.Use.NoCancel
	if out.Use.AtOnce = a.Use.AtOnce; b.Use.AtOnce > 0 && (a.Use.AtOnce == 0 || b.Use.AtOnce < a.Use.AtOnce) {
		out.Use.AtOnce = b.Use.AtOnce
	}
	for i := range out.Bound {
		out.Bound[i] = a.Bound[i] | b.Bound[i]
	}
	return out
}

// facts returns what rules look at, but for the claims and the path.
func (r *Rules) facts(req *http.Request, trusted bool) Facts {
	f := Facts{Method: req.Method, Host: req.Host, Header: req.Header, Trusted: trusted}
	if b, ok := req.Body.(*peeked); ok {
		f.Message = b.message
	}
	if len(r.rules) > 0 {
		f.Peer = parseAddr(req.RemoteAddr)
	}
	return f
}

// timed reports whether a deadline of the rules would not apply to req: it has one,
// or is an upgrade.
func timed(req *http.Request, own *wire.Tags, grpc bool) bool {
	if own.Budget != 0 || grpc && req.Header["Grpc-Timeout"] != nil || req.Header["Upgrade"] != nil {
		return true
	}
	_, has := req.Context().Deadline()
	return has
}

// believed returns what is left of the tags of a request of this rank: of a
// stranger's, what concerns this hop alone, and a token, which proves itself.
func believed(t wire.Tags, rank Rank, trusted bool) wire.Tags {
	if !trusted {
		t = t.Untrusted()
	}
	t.Workflow, t.Class, t.Priority = rank.Workflow, rank.Class, rank.Priority
	return t
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
