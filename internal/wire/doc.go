// Package wire defines the tags and replies that travel between a client and a
// server beside the request itself, and refuses malformed ones.
//
//	client ── Tags: budget, workflow, class, priority, attempt, demand, progress, claim ──▶ server
//	       ◀── Reply: grant, shed{reason, retryable, pushback}, progress, rate ──
//
// Both are one version byte and a list of fields (FORMAT.md is normative):
//
//	┌─────────┬───────┬────────┬───────┬───────┬────────┬───────┬──
//	│ version │ field │ length │ value │ field │ length │ value │ …
//	└─────────┴───────┴────────┴───────┴───────┴────────┴───────┴──
//
// Over gRPC they are the binary metadata [MetadataKey], in the request's headers
// and the reply's trailers; over HTTP the header [HeaderName], as text. What
// follows a request through services that do not know Spillgate is carried by
// W3C baggage.
//
// Invariants: a decoder returns an error for every input that breaks a bound
// and never panics; unknown fields are skipped, so that a newer peer can say
// more; what an encoder writes, the decoder of the same version accepts.
// Encoding into a buffer with room does not allocate.
//
// What this package does not do: it does not decide which peers to trust. An edge
// that faces strangers drops or maps their tags before anything acts on them.
package wire
