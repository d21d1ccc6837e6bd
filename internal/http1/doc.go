// Package http1 sends requests to one server over HTTP/1.1, on connections that it keeps. It is what the
// proxy speaks with upstreams in place of http.Transport, which hands every request to two goroutines of
// its connection and back.
//
//	           ┌ get: the connection used last ┐          ┌ header, body in memory: one write ┐
//	request ──▶│ look: is it closed? ─▶ discard│─────────▶│                                   │──▶ server
//	           └ none: dial, or one that is    ┘          └ body that streams: second goroutine┘
//	             given back meanwhile                                                        │
//	answer  ◀── 1xx handed on ◀── http.ReadResponse ◀── first byte, or send again ◀──────────┘
//	              └ end of the body ──▶ given back, if nothing speaks against it
//
// The goroutine of a request writes it and reads the answer. A second one exists only for a body that
// streams or is long, because a server may answer before the end of a body. A connection that no request
// uses has no goroutine: once a second, and before it is used again, it is looked at without waiting.
//
// Sent again. A request is sent again only on a connection that was used before, if no byte of an answer
// came, and if it has no body or Request.GetBody, and if either nothing of it was written, or its method or an
// Idempotency-Key says that it may be executed twice. These are the rules of http.Transport.
//
// Invariants: a connection is given back only if both sides said all and nothing else, neither asked for
// its end, the request was not cancelled, and no byte came after the answer. What decides about framing is
// checked as it is written: no field has a line break or a NUL, no target a blank, no body is longer or shorter than said.
// RoundTrip returns an error only when nothing reads the request's body any more. After the end of an
// answer, or Close of its body, no goroutine is left but one that waits for the request's body.
//
// What this package does not do: HTTP/2, CONNECT, proxies, compression, redirects, cookies, a limit on
// connections in use. Of httptrace it calls only Got1xxResponse, for whoever has no [Watch]. A request header of up to 16 KiB is
// written before anything is read, because every system takes as much without its reader.
package http1
