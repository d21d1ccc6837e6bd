package proxy

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/telemetry"
)

// instruments are the counters of a proxy as a whole.
type instruments struct {
	crowds    metric.Int64Counter // by at_once
	keptOut   metric.Int64Counter // by a guard
	clients   metric.Int64Counter // what they did wrong
	evicted   metric.Int64Counter // connections
	lookups   metric.Int64Counter // of names, that failed
	perClient metric.Int64Counter // refused for what their client has

	latency *telemetry.Timer // by workflow
}

// count makes the counters.
func (i *instruments) count(meter metric.Meter) error {
	var all []error
	for _, c := range [...]struct {
		to            *metric.Int64Counter
		label         string // empty: it has none. Without values these come from the configuration
		values        []string
		name, meaning string
	}{
		{&i.crowds, "rule", nil, "spillgate.rule_refusals", "Requests refused because at_once requests of their rule were inside, or in mode monitor those that would have been."},
		{&i.keptOut, "", nil, "spillgate.kept_out", "Requests refused because the guard of the server behind keeps their kind out, or in mode monitor those that would have been."},
		{&i.clients, "kind", []string{string(clientSlow), string(clientFoul), "proxy_protocol"}, "spillgate.client.errors", "Requests answered 400 or 408 before they asked for a slot, because their body was malformed or too slow, and connections closed because of their PROXY protocol header."},
		{&i.evicted, "", nil, "spillgate.connections_evicted", "Idle client connections that were closed to make room for new ones at limits.connections."},
		{&i.lookups, "name", nil, "spillgate.name_errors", "Lookups of an upstream's name that failed. The upstream keeps its addresses."},
		{&i.perClient, "limit", []string{"connections", "requests", "all_requests"}, "spillgate.client.limited", "Connections closed and requests refused because their client had reached its limit, by limit."},
	} {
		made, err := meter.Int64Counter(c.name, metric.WithDescription(c.meaning))
		*c.to = made
		if all = append(all, err); err != nil {
			continue
		}
		// A counter that begins with its first event hides that event from rate() and increase().
		if c.label == "" {
			made.Add(context.Background(), 0)
		}
		for _, v := range c.values {
			made.Add(context.Background(), 0, metric.WithAttributes(attribute.String(c.label, v)))
		}
	}
	return errors.Join(all...)
}

// watchSelf makes the instruments that show what the proxy counts anyway.
func (p *Proxy) watchSelf() error {
	meter := p.metrics.Meter()
	shows := func(read func() int64) metric.Int64Callback {
		return func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(read())
			return nil
		}
	}
	_, err1 := meter.Int64ObservableGauge("spillgate.requests_inside", metric.WithDescription("Requests inside the proxy, upgraded connections and streams included."),
		metric.WithInt64Callback(shows(p.active.Load)))
	_, err2 := meter.Int64ObservableCounter("spillgate.malformed_tags", metric.WithDescription("Requests whose Spillgate tags were malformed and therefore ignored."),
		metric.WithInt64Callback(shows(p.malformed.Load)))
	_, err3 := meter.Int64ObservableCounter("spillgate.unrouted", metric.WithDescription("Requests answered 404 because no group of upstreams matches their host and path."),
		metric.WithInt64Callback(shows(p.unrouted.Load)))
	_, err4 := meter.Int64ObservableCounter("spillgate.access_log.lines", metric.WithDescription("Lines of the access log: written, or dropped because writing was too slow or failed."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if l := p.access.Load(); l != nil {
				o.Observe(l.written.Load(), metric.WithAttributes(attribute.String("fate", "written")))
				o.Observe(l.dropped.Load(), metric.WithAttributes(attribute.String("fate", "dropped")))
			}
			return nil
		}))
	_, err5 := meter.Int64ObservableGauge("spillgate.connections", metric.WithDescription("Client connections that are open: busy with a request, or idle. Limits.connections bounds their sum."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			open, idle := p.places.Load().load()
			o.Observe(open-idle, metric.WithAttributes(attribute.String("state", "busy")))
			o.Observe(idle, metric.WithAttributes(attribute.String("state", "idle")))
			return nil
		}))
	return errors.Join(err1, err2, err3, err4, err5)
}
