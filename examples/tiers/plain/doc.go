// Package plain is two services as many are: an HTTP edge in front of a gRPC store, with health
// checks, Prometheus metrics and retries. Package gated is the same with Spillgate.
//
//	users ── GET /orders ──▶ Edge ── gRPC ──▶ Store
package plain
