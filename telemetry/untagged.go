package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/live"
)

// WatchUntagged reports the calls that lost the request they were made for, by
// method, until stop is called: spillgate_untagged_total{method}. There are at most
// live.MaxUntagged methods and live.UntaggedRest.
func WatchUntagged(meter metric.Meter, u *live.Untagged) (stop func() error, err error) {
	counter, err := meter.Int64ObservableCounter("spillgate_untagged",
		metric.WithDescription("Calls without tags of a process that serves requests with tags: handlers that dropped their context."))
	if err != nil {
		return nil, err
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		u.Each(func(method string, n uint64) {
			o.ObserveInt64(counter, int64(n), metric.WithAttributes(attribute.String("method", method)))
		})
		return nil
	}, counter)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}
