package proxy

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments are the counters of a proxy as a whole.
type instruments struct {
	errors    metric.Int64Counter // of upstreams
	crowds    metric.Int64Counter // by at_once
	clients   metric.Int64Counter // what they did wrong
	evicted   metric.Int64Counter // connections
	retried   metric.Int64Counter // requests that could go to another upstream
	lookups   metric.Int64Counter // of names, that failed
	perClient metric.Int64Counter // refused for what their client has
}

// count makes the counters.
func (i *instruments) count(meter metric.Meter) error {
	var all []error
	for _, c := range [...]struct {
		to            *metric.Int64Counter
		name, meaning string
	}{
		{&i.errors, "spillgate_upstream_errors", "Requests that an upstream did not answer, by kind of failure."},
		{&i.crowds, "spillgate_rule_refusals", "Requests that were, or in mode monitor would have been, refused because as many of their rule were inside as may be, by the rule's place."},
		{&i.clients, "spillgate_client_errors", "Requests that were answered 400 or 408, before they asked for a slot, because of their body, and connections closed because of their PROXY protocol header, by kind."},
		{&i.evicted, "spillgate_connections_evicted", "Client connections that were closed because all places were taken and no request ran on them."},
		{&i.retried, "spillgate_upstream_retries", "Requests that an upstream did not take and that may go to another one, by what was decided: sent, or not sent because of the budget."},
		{&i.lookups, "spillgate_name_errors", "Lookups of an upstream's name that failed; its addresses stay as they were."},
		{&i.perClient, "spillgate_client_limited", "Connections closed and requests refused because their client had as many as it may, by limit."},
	} {
		made, err := meter.Int64Counter(c.name, metric.WithDescription(c.meaning))
		*c.to = made
		all = append(all, err)
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
	_, err1 := meter.Int64ObservableGauge("spillgate_requests_inside", metric.WithDescription("Requests that the proxy works on, upgraded connections and streams included."),
		metric.WithInt64Callback(shows(p.active.Load)))
	_, err2 := meter.Int64ObservableCounter("spillgate_malformed_tags", metric.WithDescription("Requests whose tags broke the format and were ignored."),
		metric.WithInt64Callback(shows(p.malformed.Load)))
	_, err3 := meter.Int64ObservableCounter("spillgate_unrouted", metric.WithDescription("Requests that were answered 404 because no group of upstreams is for their host and path."),
		metric.WithInt64Callback(shows(p.unrouted.Load)))
	_, err4 := meter.Int64ObservableCounter("spillgate_access_log_lines", metric.WithDescription("Lines of the access log, by what became of them: written, or dropped because writing was too slow or failed."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if l := p.access.Load(); l != nil {
				o.Observe(l.written.Load(), metric.WithAttributes(attribute.String("fate", "written")))
				o.Observe(l.dropped.Load(), metric.WithAttributes(attribute.String("fate", "dropped")))
			}
			return nil
		}))
	return errors.Join(err1, err2, err3, err4)
}
