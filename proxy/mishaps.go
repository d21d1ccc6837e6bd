package proxy

import (
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// mishaps counts, by a word, what seldom happens at an upstream. The upstream has them, and not a counter with its name:
// addresses come and go under a name that is looked up again, and such a counter would keep those of all. The zero
// mishaps is empty; it may be used at once from any goroutine.
type mishaps struct {
	mu sync.Mutex
	n  map[string]int64
}

func (m *mishaps) add(word string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == nil {
		m.n = map[string]int64{}
	}
	m.n[word]++
}

// all returns how often each of the words was added. Those that never were are 0, because a counter that begins with its
// first event hides that event from rate() and increase().
func (m *mishaps) all(words ...string) map[string]int64 {
	out := make(map[string]int64, len(words))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, word := range words {
		out[word] = m.n[word]
	}
	return out
}

// watchMishaps makes the instruments for those of all upstreams.
func (p *Proxy) watchMishaps() error {
	failed, err1 := p.metrics.Meter().Int64ObservableCounter("spillgate.upstream.errors",
		metric.WithDescription("Requests that the proxy could not answer from an upstream, or not to the end, by kind of failure."))
	retried, err2 := p.metrics.Meter().Int64ObservableCounter("spillgate.upstream.retries",
		metric.WithDescription("Requests that an upstream did not accept and that another one may get: sent, or not sent because of the retry budget."))
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return p.observeUpstreams(func(o metric.Observer, u *upstream) {
		name := attribute.String("upstream", u.name)
		for kind, n := range u.failed.all(allKinds[:]...) {
			o.ObserveInt64(failed, n, metric.WithAttributes(name, attribute.String("kind", kind)))
		}
		for decision, n := range u.retried.all("sent", "budget") {
			o.ObserveInt64(retried, n, metric.WithAttributes(name, attribute.String("decision", decision)))
		}
	}, failed, retried)
}
