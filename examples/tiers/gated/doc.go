// Package gated is package plain with Spillgate: gates, credits, metrics, retries within the
// budget of credits, and the store's refusals passed on.
//
//	diff -u examples/tiers/plain/edge.go examples/tiers/gated/edge.go
//
// The test beside it counts the lines that differ.
package gated
