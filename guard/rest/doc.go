// Package rest asks servers that answer in JSON over HTTP, for the adapters of guards.
//
//	URL ─▶ Parse ─▶ Target ─▶ New ─▶ Client ── Do ──▶ one answer, or what is wrong with it
//
// Invariants: an answer is bounded in time and bytes. A redirect is an error, so that a password goes to
// no other server. No error shows a password.
//
// What this package does not do: it reads no answer and sends no body.
package rest
