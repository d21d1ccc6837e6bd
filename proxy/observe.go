package proxy

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// observeUpstreams has tell called for each upstream that is there whenever the instruments are read.
func (p *Proxy) observeUpstreams(tell func(metric.Observer, *upstream), instruments ...metric.Observable) error {
	_, err := p.metrics.Meter().RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := p.state.Load()
		if s == nil {
			return nil
		}
		for _, u := range s.upstreams {
			tell(o, u)
		}
		return nil
	}, instruments...)
	return err
}
