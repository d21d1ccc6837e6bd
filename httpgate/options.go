package httpgate

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/urlpath"
	"github.com/spillgate/spillgate/internal/wire"
)

// StreamAfter is how long after its first flush an answer that is still being
// written counts as a stream, which holds no slot; and how long the client of a
// two-way stream may be silent before that. A second is far beyond what a
// service with an objective takes to write what it has computed.
const StreamAfter = time.Second

// Option changes how a Handler works.
type Option func(*options)

// Classifier decides what to believe of the tags of a request, and may set them for a
// request without tags, including its budget, which then is a deadline. It runs on the
// request's goroutine before everything else and must not block. claimed is what the
// request says, from trusted and untrusted senders alike, in tags or in baggage; r has no
// tags any more, and the classifier must not change it. It must not change Tags.Credits,
// Demand and Client, and must clear four fields of senders that it does not trust: Process
// and Claim give the sender a share of a workflow's rate and, while there are credits, let
// its requests past the rate; Total and Elapsed give it a place in the queue.
type Classifier func(r *http.Request, claimed wire.Tags) wire.Tags

type options struct {
	exempt      func(*http.Request) bool
	trust       func(*http.Request) bool
	urgent      func(*http.Request) bool
	proxies     func(*http.Request, netip.Addr) bool // nil: none
	classify    Classifier
	objective   func(*http.Request) time.Duration // nil: that of the gate
	kind        func(*http.Request) (kind string, cancel bool)
	streamAfter time.Duration
	malformed   func(*http.Request, error)
	patience    Patience
	badBody     func(*http.Request, error)
	overload    func(*http.Request) int // status; nil: 503
	onEnd       func(*http.Request) (tell func(End))
}

func applyOptions(opts []Option) options {
	o := options{exempt: Paths(ProbePaths()...), streamAfter: StreamAfter, patience: Patience{}.withDefaults()}
	for _, f := range opts {
		f(&o)
	}
	return o
}

// ProbePaths returns the paths that orchestrators commonly use for health checks.
func ProbePaths() []string { return slices.Clone(probePaths) }

var probePaths = []string{"/healthz", "/livez", "/readyz", "/health"}

// Exempt names requests that pass without a slot and are never refused: health
// checks, which must not fail because of load, and streams that wait for long
// before they answer anything. Many at once go on in turn, their senders one after another, at a gate that enforces: as many
// at a time as half of the free slots, or an eighth of all; each counts until it is answered, or has taken as long as requests
// mostly do, 100 ms at most, and a tenth of that behind one that has. Those for ProbePaths wait for none that are for other paths. Default Paths(ProbePaths()...), in place of which it stands: to
// exempt more, use ExemptPaths. Nil is none. Of several, the last counts.
func Exempt(exempt func(*http.Request) bool) Option {
	return func(o *options) { o.exempt = exempt }
}

// ExemptPaths exempts the requests that Paths reports, beside the health checks or what Exempt named before.
//
//	httpgate.Install(gate, server, httpgate.ExemptPaths("/metrics", "/polls/"))
func ExemptPaths(paths ...string) Option {
	more := Paths(paths...)
	return func(o *options) {
		before := o.exempt
		o.exempt = func(r *http.Request) bool { return before != nil && before(r) || more(r) }
	}
}

// Paths reports requests by path, for Exempt. A path that ends in a slash covers
// all below it. A request is reported if its path is under one of them as it is
// written, before and after its percent-encoding is decoded, and as every server would read it, whether or not that resolves
// "..", ";", "\" and encoded slashes: writing a path in another way exempts no request. One that needs this and is longer
// than 2 KiB, or has "\" or dots, or ";" beside dots, both as they are and encoded, may be read in any way, and is not reported.
func Paths(paths ...string) func(*http.Request) bool {
	exact := map[string]bool{}
	var trees []string
	for _, p := range paths {
		if strings.HasSuffix(p, "/") {
			trees = append(trees, p)
		} else {
			exact[p] = true
		}
	}
	under := func(path string) bool {
		return exact[path] || slices.ContainsFunc(trees, func(t string) bool { return strings.HasPrefix(path, t) })
	}
	return func(r *http.Request) bool {
		// As it is written first: for nearly all requests that is enough, and to resolve a path takes longer.
		path := r.URL.Path
		if !under(path) || r.URL.RawPath != "" && !under(r.URL.RawPath) || !under(urlpath.Canonical(path)) {
			return false
		}
		others, all := urlpath.Others(path, r.URL.RawPath)
		return all && !slices.ContainsFunc(others, func(other string) bool { return !under(other) })
	}
}

// Trust names requests whose class, priority and workflow are believed, and also their
// progress and sending process: those from your own services. Default: none. Of several,
// the last counts.
func Trust(trust func(*http.Request) bool) Option {
	return func(o *options) { o.trust = trust }
}

// Everyone reports every request, for Trust: of a server that only your own services reach.
func Everyone(*http.Request) bool { return true }

// Classify sets what is believed of a request's tags, in place of [Trust], which then
// is not asked. Where a request brought a rank in baggage, what f returned stands
// there afterwards, for handlers that pass headers on. classify.Rules.HTTP makes a
// Classifier of rules. Of several, the last counts.
func Classify(f Classifier) Option {
	return func(o *options) { o.classify = f }
}

// Networks reports requests by the address of the connection, for Trust. An address proves
// as much as the network guarantees; behind a proxy that does not remove the tags of
// strangers it proves nothing.
func Networks(networks ...netip.Prefix) func(*http.Request) bool {
	return func(r *http.Request) bool {
		a := peer(r.RemoteAddr)
		for _, n := range networks {
			if n.Contains(a) {
				return true
			}
		}
		return false
	}
}

// Urgent names requests whose deadline may put them before others, where the order of waiting
// requests is by deadline: a deadline of any other request counts as no earlier than the
// objective. Default: the requests that Trust names, or all where Classify is set. f is asked
// only at a gate with such an order. Of several, the last counts.
func Urgent(f func(*http.Request) bool) Option {
	return func(o *options) { o.urgent = f }
}

// Objectives returns the latency objective of a request that has one of its own: longer for
// exports, shorter for lookups. 0 is the gate's objective. f runs on the request's goroutine
// before the gate and must not block. Of several, the last counts.
func Objectives(f func(*http.Request) time.Duration) Option {
	return func(o *options) { o.objective = f }
}

// Kinds names what a request does, where Kind does not say it well enough (empty: as Kind
// has it), and says whether it can be cancelled: a server that goes on with what its
// caller gave up has nothing to gain from that, so its culprits are named and their kind
// is kept out. f runs on the request's goroutine before the gate and must not block. Of
// several, the last counts.
func Kinds(f func(*http.Request) (kind string, cancel bool)) Option {
	return func(o *options) { o.kind = f }
}

// ByPath gives objectives by path, for Objectives. A path that ends in a slash covers all
// below it; of several that cover a request the longest counts. What no path covers, and
// an objective that is not above 0, is left to the gate's; so is a path that servers read in
// several ways, such as /reports/..%2fa, if these have different objectives, and one that Paths
// does not report because it may be read in any way.
func ByPath(objectives map[string]time.Duration) func(*http.Request) time.Duration {
	known := make(map[string]time.Duration, len(objectives))
	for _, path := range slices.Sorted(maps.Keys(objectives)) {
		known[urlpath.Canonical(path)] = objectives[path]
	}
	of := func(path string) time.Duration {
		if d, ok := known[path]; ok {
			return d
		}
		for end := strings.LastIndexByte(path, '/'); end >= 0; end = strings.LastIndexByte(path[:end], '/') {
			if d, ok := known[path[:end+1]]; ok {
				return d
			}
		}
		return 0
	}
	return func(r *http.Request) time.Duration {
		d := of(urlpath.Canonical(r.URL.Path))
		others, all := urlpath.Others(r.URL.Path, r.URL.RawPath)
		if !all || slices.ContainsFunc(others, func(other string) bool { return of(other) != d }) {
			return 0
		}
		return d
	}
}

// HoldStreams sets how long after its first flush an unfinished answer gives its
// slot back, and after how much silence of its client a two-way stream. Default
// StreamAfter; 0 is with the first flush (and StreamAfter of silence), negative
// is never.
func HoldStreams(d time.Duration) Option {
	return func(o *options) { o.streamAfter = d }
}

// OnMalformed is told of tags that break the format. They are ignored, and the
// request is served as one without tags. f must not block.
func OnMalformed(f func(*http.Request, error)) Option {
	return func(o *options) { o.malformed = f }
}

// peer returns the address of a connection, without its port; the zero Addr if
// it has none, as of a Unix socket.
func peer(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}
