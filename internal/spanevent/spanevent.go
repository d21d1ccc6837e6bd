// Package spanevent writes what a gate did to a request into the request's OpenTelemetry span.
//
//	edge: waited for a slot, was refused ──▶ span of the server's request   ┐
//	edge: waited for a credit, was not sent ▶ span of the client's request  ┴▶ events
//
// An event is written only to a span that records, of a tracer that the service set up; otherwise a call takes a
// look-up in the context and allocates nothing.
//
// What this package does not do: it begins no spans, and reads no trace headers.
package spanevent

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// The events. Times are in seconds.
const (
	// SlotWait: the request waited in the gate's queue; attribute spillgate.wait.
	SlotWait = "spillgate.slot_wait"
	// CreditWait: the request waited at its client for a credit of the server; attribute spillgate.wait.
	CreditWait = "spillgate.credit_wait"
	// Refusal: the request was refused, by the gate or by its client before it was sent; attributes
	// spillgate.reason, spillgate.refusal where the gate explains it, and spillgate.retry_after unless a
	// retry is of no use.
	Refusal = "spillgate.refused"
)

// Waited writes that the request of ctx waited for d, which is SlotWait or CreditWait. A request that did not wait
// has no event.
func Waited(ctx context.Context, what string, d time.Duration) {
	if d <= 0 {
		return
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(what, trace.WithAttributes(attribute.Float64("spillgate.wait", d.Seconds())))
	}
}

// Refused writes that the request of ctx was refused with err. An error that is no refusal has no event, nor has a
// caller that left.
func Refused(ctx context.Context, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	var refusal *live.Refusal
	if !errors.As(err, &refusal) || refusal.Reason == work.Canceled {
		return
	}
	attributes := []attribute.KeyValue{attribute.String("spillgate.reason", refusal.Reason.String())}
	if refusal.ID != 0 {
		attributes = append(attributes, attribute.String("spillgate.refusal", refusal.ID.String()))
	}
	if refusal.Pushback >= 0 {
		attributes = append(attributes, attribute.Float64("spillgate.retry_after", refusal.Pushback.Seconds()))
	}
	span.AddEvent(Refusal, trace.WithAttributes(attributes...))
}
