// Package proxy puts a gate in front of servers that know nothing of it: a
// reverse proxy for HTTP/1.1, HTTP/2 and gRPC.
//
//	          ┌ limits: connections, headers ┐   ┌ least loaded ┐   ┌ adaptive slots, AQM ┐
//	client ──▶│ listener, TLS                │──▶│ choose       │──▶│ live.Gate a upstream│──▶ upstream
//	          └ rules: workflow, deadline    ┘   └──────────────┘   └ refuse: 429 503 504 ┘
//	upstream's calls ──▶ egress listener ──▶ other services; the slot is given back
//	operator ──▶ admin listener: /metrics, /.spillgate/{status,classes}, /.spillgate/health/{live,ready}
//
// Each upstream has a gate of its own, because capacity belongs to a server; a
// request goes to the upstream whose slots are least in use, of the group (Config.Groups)
// that its host and path belong to. To an upstream
// that speaks Spillgate the proxy is one client, which holds credits for all of
// its own clients; to a client that speaks Spillgate it is a server, whose
// window is the sum over the upstreams.
//
// The protocol work is that of net/http and net/http/httputil: bodies stream in
// both directions, trailers and upgrades pass, hop-by-hop fields do not.
//
// Failures. An upstream that cannot be reached or breaks off answers 502, one
// that is too slow 504; neither is a refusal, nor a sample of service time. A request
// of which nothing was sent, or which may be executed twice, goes on to another upstream
// of its group first (Limits.Retries), within a budget. A
// client that leaves takes its request with it.
//
// Health. An upstream that fails at once is always the least loaded, so each
// failure counts as a request that is still there for about a second. After some
// failures in a row (Config.Health), or one to connect, the upstream is put out:
// it gets single requests as probes, ever further apart, until one goes well. At
// most half of the upstreams are out for what they answer, all but one for not
// being reached, so there is always one to choose. Answers 500, 502, 503 and 504
// are failures, and no samples of service time; a refusal by an upstream's own
// gate is none. Health.Check asks the upstreams besides: one that fails is out until
// it is well, and all may be. Metrics: spillgate_upstream_out, _outs, _failures, _checks
// and _retries.
//
// Workflows. Rules (package classify) say what each request is, before anything
// decides about it; what strangers say about themselves is taken off. The gates
// divide slots and rates among the workflows by the weights and guarantees of the
// configuration (Config.Schedule, Config.Rates). A deadline that the proxy sets ends
// the request with 504 and, as one that the client set, says nothing about the
// upstream's health. Metrics: spillgate_workflow_requests_total and, with rates,
// spillgate_workflow_offered, _rate and _shaping.
//
// Classes. Requests that go on to other services queue at several of them, so they
// may go first (package share). Which do is seen where the upstream's own calls pass,
// at Config.Egress: a call is of the request whose trace it names. What is learned by
// caller, callee and method, what the controller of each upstream decides and why is
// shown at /.spillgate/classes, and in the metrics spillgate_share_weight,
// _share_decisions_total{reason}, _classes{class,why} and _egress_calls_total{call}.
//
// An upstream that waits for another one works on nothing. So with its first call a
// request gives its slot back, and does not take it again: what is left to do with
// the answers must be little, or be counted in Config.Slots. At most Limits.Away
// requests of an upstream are without a slot; one more keeps its own. With
// Config.Share the slot is also free once the upstream has a whole answer.
//
// How long a call takes without queues its callee says, if it is behind a proxy that
// trusts this one; else a low quantile of the times of such calls is taken, which is
// too little where queues are short. It decides how far Share favours who goes on;
// what that costs others is bounded by Share.MaxHarm either way.
//
// Changes. Reload takes a new configuration between two requests and closes no
// connection. Gates stay where they can be told what is new: rules, deadlines,
// ranks, weights and guarantees. Where they cannot, a new gate takes the next
// requests, with as many slots, and the old one finishes what it has; until then the
// upstream may have up to twice as many requests.
//
// Delay. The gates see their own queues only, not the time that requests lie in
// the proxy's sockets (live.Gate.WatchNetwork): the processor that would be
// measured is the proxy's, and the slots are the upstream's. In front of a slow
// upstream (8 workers of 20 ms, 4 times the load) goodput was 385/s without that
// signal (305 to 388) and 363/s with it (154 to 384), medians of eight runs each on
// two shared cores. A proxy whose own processor is the bottleneck is not protected
// by its gates.
//
// Streams. A slot is for work, so a stream gives its own back when it was answered
// for a second or its client was silent for one, as package httpgate says; one that says
// nothing from the start asks for none for a second, unless the upstream is nearly idle. A long
// upload gives its slot back while its client is slow, and takes another before its end goes
// to the upstream, or is refused then. Open
// streams without a slot are bounded by Limits.Streams for each connection of a
// client and by Limits.Connections for all.
//
// Clients. Limits bound what one of them may have (ClientConnections, ClientRequests); the
// metric spillgate_client_limited_total{limit} counts what was too much.
//
// Invariants: a mistake in the configuration is found before anything starts,
// and all at once; whatever a client can take is bounded by a named limit; after
// Run nothing of the proxy is left, no goroutine and no connection.
//
// Names that callers give themselves are no proof: who calls himself as another gets
// its class, and no more than that class gets.
//
// Upstreams with Resolve stand for the addresses of their name: each is an upstream, with a
// gate, for as long as the name has it.
//
// What this package does not do: it caches nothing, and sends no request again that a
// server may have begun to execute, unless its method says that this does no harm.
package proxy
