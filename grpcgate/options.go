package grpcgate

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// Option changes what ServerOptions installs.
type Option interface{ server(*serverOptions) }

// ClientOption changes what DialOptions installs.
type ClientOption interface{ client(*clientOptions) }

// SharedOption is an option of both sides.
type SharedOption interface {
	Option
	ClientOption
}

// Counters count what went wrong between peers, and control streams. A program
// passes one to WithCounters and reads it at any time.
type Counters struct {
	// Malformed counts metadata and messages of peers that were ignored because
	// they broke a rule of their format, came twice, or were of another version.
	Malformed atomic.Int64
	// ControlStreams is the number of control streams open now; ControlRefused
	// counts those refused because a server had as many as its limit.
	ControlStreams atomic.Int64
	ControlRefused atomic.Int64
	// StreamsRefused counts streams of clients that had as many as they may.
	StreamsRefused atomic.Int64
	// Retries counts the attempts that WithRetries made after the first;
	// RetriesDenied those it would have made with more budget.
	Retries       atomic.Int64
	RetriesDenied atomic.Int64
	// Uncredited counts calls that were answered and that another load balancing policy
	// sent, without credits: see BalancerName. Answers that come before the ClientConn calls
	// itself connected may be missing.
	Uncredited atomic.Int64
}

// Classifier decides what to believe of the tags of a request, and may set them for a
// request without tags. It runs on the request's goroutine before the gate and must not
// block. It must not change Tags.Credits, Demand and Client, and must clear four fields of
// senders that it does not trust: Process and Claim give the sender a share of a
// workflow's rate and, while there are credits, let its requests past the rate; Total and
// Elapsed give it a place in the queue. It is also called for questions about a rate, with
// the method of the control stream.
type Classifier func(ctx context.Context, method string, claimed wire.Tags) wire.Tags

type serverOptions struct {
	exempt       exemptions
	objectives   map[string]time.Duration // by method or service, without slashes around
	counters     *Counters
	trust        func(ctx context.Context, method string) bool // nil: no call
	classify     Classifier
	content      func(method string, req any) Content // nil: nobody looks
	tap          tap.ServerInHandle
	controlLimit int
	hold         time.Duration
	streams      int
	loadReports  bool
}

type clientOptions struct {
	exempt   exemptions
	counters *Counters
	untagged *live.Untagged
	wallet   credit.WalletConfig
	calls    *live.Calls
	retries  int
	hold     time.Duration
	service  string
}

type (
	serverOption func(*serverOptions)
	clientOption func(*clientOptions)
	sharedOption struct {
		serverOption
		clientOption
	}
)

func (f serverOption) server(o *serverOptions) { f(o) }
func (f clientOption) client(o *clientOptions) { f(o) }

// WithExempt lets methods pass without a ticket and a credit, in addition to those that
// always do. A name is a method, "/pkg.Service/Method", or a whole service,
// "pkg.Service". Use it for calls that stay open as long as a client does.
func WithExempt(names ...string) SharedOption {
	return sharedOption{
		func(o *serverOptions) { o.exempt.add(names) },
		func(o *clientOptions) { o.exempt.add(names) },
	}
}

// WithCounters counts events in c.
func WithCounters(c *Counters) SharedOption {
	return sharedOption{
		func(o *serverOptions) { o.counters = c },
		func(o *clientOptions) { o.counters = c },
	}
}

// WithTrust names the calls whose class, priority, workflow, progress and sending process
// are believed: those from your own services. Default: none. f is also asked about questions
// for a rate, with the method of the control stream; it runs on the call's goroutine and must
// not block. Of several, the last counts.
func WithTrust(f func(ctx context.Context, method string) bool) Option {
	return serverOption(func(o *serverOptions) { o.trust = f })
}

// Everyone reports every call, for WithTrust: of a server that only your own services reach.
func Everyone(context.Context, string) bool { return true }

// Networks reports calls by the address of their connection, for WithTrust. An address proves
// as much as the network guarantees; behind a proxy that does not remove the tags of
// strangers it proves nothing.
func Networks(networks ...netip.Prefix) func(ctx context.Context, method string) bool {
	return func(ctx context.Context, _ string) bool {
		p, ok := peer.FromContext(ctx)
		if !ok || p.Addr == nil {
			return false
		}
		addr, _ := netip.ParseAddrPort(p.Addr.String()) // of a Unix socket there is none
		a := addr.Addr().Unmap().WithZone("")
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
	}
}

// WithClassifier sets what a server believes of a request's tags, in place of WithTrust,
// which then is not asked. classify.Rules.GRPC makes a Classifier of rules. Of several, the
// last counts.
func WithClassifier(f Classifier) Option {
	return serverOption(func(o *serverOptions) { o.classify = f })
}

// WithObjectives gives methods a latency objective of their own: longer for exports,
// shorter for lookups. A name is a method or a service, as in WithExempt; a method's own
// entry wins. A method without an entry, or with one of 0 or less, has the gate's
// objective. Of several options, the last one for a name counts.
func WithObjectives(objectives map[string]time.Duration) Option {
	return serverOption(func(o *serverOptions) {
		if o.objectives == nil {
			o.objectives = make(map[string]time.Duration, len(objectives))
		}
		for name, d := range objectives {
			o.objectives[bare(name)] = d
		}
	})
}

// objective returns the objective of a method, "/pkg.Service/Method", 0 if it has none of
// its own.
func (o *serverOptions) objective(method string) time.Duration {
	if len(o.objectives) == 0 {
		return 0
	}
	method = bare(method)
	d, ok := o.objectives[method]
	if service, _, found := strings.Cut(method, "/"); found && !ok {
		d = o.objectives[service]
	}
	return d
}

// Content is what the message of a call says about it.
type Content struct {
	// Kind is what the call does, of which there are few; empty: its method says that.
	// After a culprit was cancelled, no call of its kind may begin for a while.
	Kind string
	// Background says that the call has no latency objective, as its work is large: it
	// gets the least priority, and is no victim of others.
	Background bool
	// NoCancel says that the call is never cancelled as a culprit, because its handler goes on with what it has begun. Its
	// kind may be kept from beginning.
	NoCancel bool
}

// WithContent calls f with the method, "/pkg.Service/Method", and the message of each
// unary call. f runs on the call's goroutine before the gate, must not block, and must not
// keep the message. Default: all calls of a method are of one kind.
func WithContent(f func(method string, req any) Content) Option {
	return serverOption(func(o *serverOptions) { o.content = f })
}

// WithTap calls next in the connection reader, after the tap handle of ServerOptions,
// because a server can have only one tap handle.
func WithTap(next tap.ServerInHandle) Option {
	return serverOption(func(o *serverOptions) { o.tap = next })
}

// defaultControlLimit keeps the memory for control under 1 KiB a client when
// there are 10,000: a control stream takes about 14 KB (8 of them stack) and the
// account and what a connection is watched with about 470 bytes. The experiment
// breakwater/clients-live measured 1,066 bytes a client with 512 streams and smaller
// accounts; TestMemoryPerClient has 963 with these.
const defaultControlLimit = 384

// WithControlLimit bounds the control streams of a server. Default 384; zero
// or less allows none. A client beyond it is told so and lives by Grant.Revive:
// after a lull its first request may wait for that long.
func WithControlLimit(n int) Option {
	return serverOption(func(o *serverOptions) { o.controlLimit = n })
}

// WithStreamHold sets how long a stream that does no work keeps its slot and its credit:
// after the handler's first message, and before that while the handler waits for a message
// of the client. Default 1 s. Larger suits streams that keep working after they began to
// answer; smaller frees slots sooner; negative holds them as long as the stream lives, so
// clients that keep streams open use up the slots.
func WithStreamHold(d time.Duration) SharedOption {
	return sharedOption{
		func(o *serverOptions) { o.hold = d },
		func(o *clientOptions) { o.hold = d },
	}
}

// WithStreamLimit bounds the open streams of one client, exempt ones not counted:
// of one that obeys credits by its account, of another by its connection. Default
// 250; zero or less is no bound. One more is refused with RESOURCE_EXHAUSTED.
func WithStreamLimit(n int) Option {
	return serverOption(func(o *serverOptions) { o.streams = n })
}

// WithLoadReports has each reply carry the gate's utilization as an ORCA report
// (endpoint-load-metrics-bin), for balancers that weigh servers by it.
func WithLoadReports() Option {
	return serverOption(func(o *serverOptions) { o.loadReports = true })
}

// WithWallet sizes the wallet of each ClientConn. A mistake in cfg fails every
// call, as FAILED_PRECONDITION.
func WithWallet(cfg credit.WalletConfig) ClientOption {
	return clientOption(func(o *clientOptions) { o.wallet = cfg })
}

// WithRetries lets a unary call that a server refused be sent again up to n
// times, if the server called it retryable, after the pushback it asked for, and
// within a budget of a tenth of the successful calls. Default 0. A call made
// while serving another is never sent again: only the edge retries.
func WithRetries(n int) ClientOption {
	return clientOption(func(o *clientOptions) { o.retries = n })
}

// WithUntagged counts in u, by method, the calls whose context is not that of the request
// they are made for. u is Gate.Untagged of the gate behind which the calls are made.
// Default: they are not counted.
func WithUntagged(u *live.Untagged) ClientOption {
	return clientOption(func(o *clientOptions) { o.untagged = u })
}

// WithCalls has what becomes of calls counted in c, by the target of their ClientConn: that
// of the gate behind which they are made, Gate.Calls, or one of the program's own. Default:
// they are not counted.
func WithCalls(c *live.Calls) ClientOption {
	return clientOption(func(o *clientOptions) { o.calls = c })
}

// WithServiceConfig sets the default service config, in JSON, into which the
// balancer's name is written. Use it in place of grpc.WithDefaultServiceConfig,
// which would put the balancer out.
func WithServiceConfig(json string) ClientOption {
	return clientOption(func(o *clientOptions) { o.service = json })
}

// exemptions is a set of methods and services.
type exemptions struct {
	names map[string]bool
	// lengths has a bit for each length of a name, modulo its size: every call is looked for, and nearly none is
	// found, so that most need no map.
	lengths uint64
}

func newExemptions() exemptions {
	e := exemptions{names: map[string]bool{}}
	e.add([]string{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
		"grpc.reflection.v1alpha.ServerReflection", controlService})
	return e
}

func (e *exemptions) add(names []string) {
	for _, name := range names {
		name = bare(name)
		e.names[name] = true
		e.lengths |= 1 << (len(name) % 64)
	}
}

// bare returns the name of a method or service without slashes around it.
func bare(name string) string { return strings.TrimPrefix(strings.TrimSuffix(name, "/"), "/") }

// has reports whether a method, "/pkg.Service/Method", is exempt.
func (e *exemptions) has(method string) bool {
	method = strings.TrimPrefix(method, "/")
	if i := strings.IndexByte(method, '/'); i >= 0 && e.named(method[:i]) {
		return true
	}
	return e.named(method)
}

func (e *exemptions) named(name string) bool {
	return e.lengths&(1<<(len(name)%64)) != 0 && e.names[name]
}
