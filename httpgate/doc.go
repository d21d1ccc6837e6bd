// Package httpgate puts a gate in front of net/http handlers and credits into net/http
// clients.
//
//	http.Client ── Transport ──▶ Spillgate: budget, rank, demand ──▶ Handler ── live.Gate ──▶ next
//	               live.Wallet ◀── Spillgate: credits, shed facts ──┘  refused: 429 503 504
//
// A refused request never reaches its handler. It is answered at once with a status,
// Retry-After, RateLimit fields, a problem+json body, and the exact facts in the
// Spillgate field; a gRPC request is answered with a gRPC status.
//
// Credits. A client with a wallet says so in its requests. Its account lives as long as
// its connections, if [Install] or [Track] was called for the server. Every other client is a
// non-credit client, which only the delay AQM controls. HTTP/2 replies carry credits in
// a trailer, because what the client may send next is known best when the request has
// left. HTTP/1.1 replies carry them in the header: a trailer would need a chunked body,
// and proxies and caches drop it. The header leaves before the handler ends, so it tells
// what was known at the client's last reply or at a later grant. That is one reply late
// and does no harm, because a grant is a window and the newest one counts.
//
// Trust. Budget, attempt and demand are believed of every client: they can only shorten
// the sender's own request and fill its own window. Class, priority and workflow rank a
// request above others, so they are believed only of the peers that [Trust] names, by
// default of none. Alternatively, [Classify] decides what each request is.
//
// Slots. A request holds a slot from its admission until its handler returns, with four
// exceptions. An upgraded connection, and an answer of type text/event-stream, give the
// slot back with the header, because such a connection may stay open for hours without
// work. Any other answer gives it back if it is still being written [StreamAfter] after it
// was first flushed. A two-way stream of HTTP/2 gives it back when its client leaves the
// reader of its body waiting for StreamAfter, so silent streams hold no slots; the
// server's limit of streams per connection (HTTP2Config.MaxConcurrentStreams) bounds
// their number. If the client goes on before the answer has begun, the request takes
// another slot before the handler sees what came, or is refused then. None of these requests is a
// sample of service time, with one exception: of an answer that was flushed, or whose type says that it is a stream, the time up
// to its beginning is one. A stream that flushes at once and works afterwards has no limit.
//
// While an eighth of the slots or more are in use, a request with a body of unknown length asks
// for its slot once the body has ended, or as much of it has come as is gathered of any body,
// or the first message of a gRPC call. A client that stops before that for [Patience].Blocked,
// or says nothing for StreamAfter, has no slot until it goes on: a call with its next message,
// any other request at the end of its body. Requests of such clients go on in turn, with half of the free slots for the moment
// in which the handler begins; one whose client goes on before its turn waits for the end of its body instead. A body that is cut off or malformed before that is answered
// 400 without a slot. A body that is too long to be read first gives the
// slot back while its client is slow, and so does an answer that its client does not take: see
// [Patience].
//
// Invariants: a ticket is returned exactly once, also if a handler panics, hijacks the
// connection or never ends its stream; nothing that comes from outside grows without a
// limit: named constants bound the identities per peer, the accounts per connection and
// the hosts per Transport.
//
// What this package does not do: it retries only what [Retries] allows, and it balances
// no load.
package httpgate
