package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// calls are the instruments for the requests that a process sends.
type calls struct {
	requests        metric.Int64ObservableCounter
	window, waiting metric.Int64ObservableGauge
}

func newCalls(meter metric.Meter) (calls, error) {
	requests, err1 := meter.Int64ObservableCounter("spillgate.client.requests",
		metric.WithDescription("Attempts to send a request: answered, refused by a server, unsent because the client refused it, or failed. The reason is that of the refusal."))
	window, err2 := meter.Int64ObservableGauge("spillgate.client.window",
		metric.WithDescription("Requests that this client may have outstanding at the target. Missing while the target grants no credits."))
	waiting, err3 := meter.Int64ObservableGauge("spillgate.client.waiting",
		metric.WithDescription("Requests that wait at this client for a credit of the target."))
	return calls{requests, window, waiting}, errors.Join(err1, err2, err3)
}

func (c *calls) all() []metric.Observable {
	return []metric.Observable{c.requests, c.window, c.waiting}
}

// observe reports what from counted, with labels beside its own.
func (c *calls) observe(o metric.Observer, from *live.Calls, labels ...attribute.KeyValue) {
	from.Each(func(name string, t *live.Target) {
		with := func(more ...attribute.KeyValue) metric.MeasurementOption {
			return metric.WithAttributes(append(append(more, attribute.String("target", name)), labels...)...)
		}
		t.Counts(func(fate live.Fate, reason work.Reason, n uint64) {
			o.ObserveInt64(c.requests, int64(n), with(attribute.String("decision", fate.String()), attribute.String("reason", reason.String())))
		})
		state := t.State()
		o.ObserveInt64(c.waiting, int64(state.Waiting), with())
		if state.Credited {
			o.ObserveInt64(c.window, int64(state.Window), with())
		}
	})
}

// WatchCalls reports what became of the requests of a program without a gate, until stop is
// called. Those of a gate's handlers are reported by Gate.Watch.
//
//	sent := new(spillgate.Calls)
//	client := &http.Client{Transport: httpgate.Transport(nil, httpgate.CountCalls(sent))}
//	stop, err := telemetry.WatchCalls(otel.Meter("shop"), sent)
func WatchCalls(meter metric.Meter, sent *live.Calls) (stop func() error, err error) {
	c, err := newCalls(meter)
	if err != nil {
		return nil, err
	}
	registration, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		c.observe(o, sent)
		return nil
	}, c.all()...)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}
