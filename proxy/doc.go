// Package proxy puts gates in front of servers that do not use Spillgate: a reverse proxy
// for HTTP/1.1, HTTP/2 and gRPC.
//
//	          ┌ limits: connections, headers ┐   ┌ least loaded ┐   ┌ adaptive slots, AQM ┐
//	client ──▶│ listener, TLS                │──▶│ choose       │──▶│ live.Gate / upstream│──▶ upstream
//	          └ rules: workflow, deadline    ┘   └──────────────┘   └ refuse: 429 503 504 ┘
//	upstream's calls ──▶ egress listener ──▶ other services; the slot is given back
//	operator ──▶ admin listener: /metrics, /.spillgate/{status,classes}, /.spillgate/health/{live,ready}
//
// Each upstream has its own gate, because capacity belongs to a server. A request goes to
// the upstream whose slots are least in use, in the group (Config.Groups) that its host and
// path belong to. To an upstream that uses Spillgate, the proxy is one client, which holds
// credits for all of its own clients. To a client that uses Spillgate, the proxy is a
// server, whose window is the sum over the upstreams.
//
// net/http and net/http/httputil do the protocol work, but for upstreams of HTTP/1, to which
// package http1 sends requests and pass.go forwards those that ask for no upgrade: bodies
// stream in both directions, trailers and upgrades pass, hop-by-hop fields do not. With
// https, the last handshake with the upstream says whether it is one of HTTP/1.
//
// Failures. If an upstream cannot be reached or breaks off, the answer is 502; if it is too
// slow, 504. Neither is a refusal or a sample of service time. A request of HTTP/2 that HTTP/1
// cannot say, or whose length is malformed, is answered 400, and is no failure of the upstream. A request of which nothing
// was sent, or which may be executed twice, is first retried at another upstream of its
// group (Limits.Retries), within a budget. When a client leaves, its request ends.
//
// Health. An upstream that fails at once would always be the least loaded one, so each
// failure counts as a request that is still inside for about a second. An upstream is put out of rotation
//
//   - after some failures in a row (Config.Health), or one failure to connect;
//   - if it answers nothing, or each request too late, while others of its group answer in time;
//   - if it fails its checks (Health.Check), until it passes them.
//
// It then gets single requests as probes, at growing distances, until one succeeds. One that answers nothing also gets
// glances: requests that may be executed twice, and that go on to another upstream after half of the objective. At most
// half of the upstreams of a group are out because of their answers or their silence, all but one because they cannot be reached, and all
// may be out because of their checks. Answers 500, 502, 503 and 504 are failures and
// no samples of service time; a refusal by an upstream's own gate is no failure. Metrics: spillgate_upstream_out, _outs, _failures, _checks and _retries.
//
// Workflows. Rules (package classify) say what each request is before anything decides
// about it; what strangers say about themselves is removed. The gates divide slots and
// rates among the workflows by the weights and guarantees of the configuration
// (Config.Schedule, Config.Rates). A deadline that the proxy sets ends the request with 504;
// like a client's deadline, it says nothing about the upstream's health. Metrics:
// spillgate_workflow_requests_total and, with rates, spillgate_workflow_offered, _rate and
// _shaping.
//
// Classes. A request that goes on to other services waits in several queues, so it may go
// first (package share). Which requests go on is seen at Config.Egress, where the upstream's
// own calls pass: a call belongs to the request whose trace it names. /.spillgate/classes
// shows what was learned by caller, callee and method, and what the controller of each
// upstream decides and why; so do the metrics spillgate_share_weight,
// _share_decisions_total{reason}, _classes{class,why} and _egress_calls_total{call}.
//
// An upstream that waits for another service works on nothing. With its first call, a
// request therefore gives its slot back, and does not take it again: what is left to do with
// the answers must be little, or be counted in Config.Slots. At most Limits.Away requests of
// an upstream are without a slot; one more keeps its own. With Config.Share the slot is also
// free once the upstream has a whole answer.
//
// How long a call takes without queues is what its callee says, if the callee is behind a
// proxy that trusts this one. Otherwise it is a low quantile of the times of such calls,
// which is too little where queues are short. It decides how far Share favours requests that
// go on; Share.MaxHarm bounds what that costs the others in either case.
//
// Changes. Reload takes a new configuration between two requests and closes no connection.
// A gate stays if it can be told what is new: rules, deadlines, ranks, weights and
// guarantees, and the objective. Otherwise a new gate, which begins with what the old one learned of the server,
// takes the next requests, and the old
// one finishes what it has; until then the upstream may have up to twice as many requests.
//
// Delay. The gates see only their own queues, not the time that requests lie in the proxy's
// sockets (live.Gate.WatchNetwork): that would measure the proxy's processor, and the slots
// are the upstream's. In front of a slow upstream (8 workers of 20 ms, 4 times the load),
// goodput was 385/s without that signal (305 to 388) and 363/s with it (154 to 384), medians
// of eight runs each on two shared cores. A proxy whose own processor is the bottleneck is
// not protected by its gates.
//
// Streams. A slot is for work, so a stream gives its slot back when it has been answered for
// a second or its client has been silent for one, as package httpgate says. If its
// client goes on before it was answered, it takes another slot. The first Limits.BodyBuffer bytes
// of a body come before the request asks for a slot; of one of unknown length, and unless the
// upstream is nearly idle, for as long as they come without a pause. A long upload gives its
// slot back while its client is slow, and takes another one before its end goes to the upstream,
// or is refused then. Limits.Streams bounds the open streams
// without a slot per connection of a client, Limits.Connections those of all clients.
//
// Floods. What connections send is worked on in turns, those first whose peers have cost the
// processor little (intake), because a proxy whose processor is short is not protected by its gates.
// Cleartext connections of HTTP/2 are read some frames at a time (ahead).
//
// Idle connections. A cleartext HTTP/1 connection that has no request for a second leaves its
// http.Server and waits with little memory until its client says something (parking).
//
// Kept connections. An HTTP/1 server without TLS that has a process for each connection may
// leave a request on a new connection unread while requests on kept ones are answered. From then on as many connections are
// kept as the server has processes (keeping). None is kept after the server closed one under a request.
//
// Clients. Limits.Requests bounds the requests inside, and a single client to half of them;
// Limits.ClientConnections and Limits.ClientRequests bound what one client may have
// at once; the metric spillgate_client_limited_total{limit} counts what exceeded them.
//
// Invariants: a mistake in the configuration is found before anything starts, and all
// mistakes are reported at once; a named limit bounds whatever a client can take; after Run
// nothing of the proxy is left, no goroutine and no connection.
//
// Names that callers give themselves are no proof: a client that uses another one's name
// gets that one's class, and no more than that class gets.
//
// An upstream with Resolve stands for the addresses of its name: each address is an
// upstream with its own gate, for as long as the name has it.
//
// What this package does not do: it does not cache, and it does not send a request again
// that a server may have begun to execute, unless the method makes that harmless.
package proxy
