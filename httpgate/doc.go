// Package httpgate puts a gate in front of net/http handlers, and credits behind
// net/http clients.
//
//	http.Client ── Transport ──▶ Spillgate: budget, rank, demand ──▶ Handler ── live.Gate ──▶ next
//	               live.Wallet ◀── Spillgate: credits, shed facts ──┘  refused: 429 503 504
//
// A refused request never reaches its handler. It is answered at once with a
// status, Retry-After, RateLimit fields, a problem+json body, and the exact
// facts in the Spillgate field; a gRPC request with a gRPC status.
//
// Credits. A client that keeps a wallet says so in its requests, and its account
// lives as long as its connections, if [Track] told of them; everybody else is a
// plain client, whom the delay AQM alone controls. HTTP/2 replies carry credits
// as a trailer, because what the client may send next is best known when the
// request has left. HTTP/1.1 replies carry them in the header: there a trailer
// needs a chunked body, and proxies and caches on the way drop it. The header
// leaves before the handler ends, so it tells what the client's last reply, or a
// grant since, made known: one reply late, which does no harm, because a grant
// is a window and the newest wins.
//
// Whom to believe. Budget, attempt and demand are taken from everybody: they
// can only shorten the sender's own request, and fill its own window. Class,
// priority and workflow rank a request above others, so they are taken only from
// peers that [Trust] names, and by default from nobody; or [Classify] says what each
// request is, whatever it says of itself.
//
// Slots. A request holds one from its admission until its handler returns, with
// four exceptions. A connection that is upgraded, and an answer of type
// text/event-stream, give it back with the header: a websocket stays for hours
// and does no work that a slot stands for. Any other answer gives it back when
// it is still being written [StreamAfter] after it was first flushed. And a
// two-way stream of HTTP/2 does so when its client leaves the reader of its body
// waiting for StreamAfter, so that streams which never speak hold no slots; the
// server's limit of streams a connection (HTTP2Config.MaxConcurrentStreams)
// bounds how many there are. None of these is a sample of service time. While an eighth
// of the slots or more are in use, such a stream asks for its slot only once its first
// bytes have come, or StreamAfter is over. And a body that is too long to be read before gives
// the slot back while its client is slow: see [Patience].
//
// Invariants: a ticket is returned exactly once, also when a handler panics,
// hijacks or never ends its stream; nothing from outside grows without a limit:
// identities per peer, accounts per connection and hosts per Transport are
// bounded by named constants.
//
// What this package does not do: it retries only what [Retries] allows, and it
// balances nothing.
package httpgate
