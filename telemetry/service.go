package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/internal/live"
)

// Prometheus returns a handler that serves the metrics of a gate, under a name that becomes
// a label, to Prometheus. Earlier requests are not counted. Close the gate
// to end it. Refusals and culprits are logged to slog.Default.
//
//	metrics, err := telemetry.Prometheus(gate, "orders")
//	mux.Handle("/metrics", metrics)
//
// If mux is behind the gate, exempt the path (httpgate.ExemptPaths), or scrapes are refused under overload.
func Prometheus(gate *live.Gate, name string) (http.Handler, error) {
	t, err := New()
	if err != nil {
		return nil, err
	}
	if err := t.of(gate, name); err != nil {
		return nil, err
	}
	return t.Handler(), nil
}

// Register adds the metrics of a gate, under a name that becomes a label, to a registry that
// the service serves already, such as prometheus.DefaultRegisterer. Several gates may share a
// registry if their names differ: a second gate of a name is an error. Earlier requests are not
// counted. The metrics stay there for good, so a gate that takes the place of another needs
// another name.
//
//	err := telemetry.Register(prometheus.DefaultRegisterer, gate, "orders")
func Register(registry prometheus.Registerer, gate *live.Gate, name string) error {
	if registry == nil {
		return errors.New("telemetry: no registry, expected one such as prometheus.DefaultRegisterer")
	}
	if gate == nil {
		return errNoGate
	}
	if err := registry.Register(named(name)); err != nil {
		if _, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			return fmt.Errorf("telemetry: the registry has the metrics of a gate %q already, expected another name for each gate", name)
		}
		return fmt.Errorf("telemetry: gate %q: %w", name, err)
	}
	if err := registerAs(registry, gate, name); err != nil {
		registry.Unregister(named(name)) // a call without the mistake can have it
		return err
	}
	return nil
}

// registerAs adds the metrics of a gate whose name is taken.
func registerAs(registry prometheus.Registerer, gate *live.Gate, name string) error {
	t, err := newIn(registry)
	if err != nil {
		return err
	}
	if err := t.of(gate, name); err != nil {
		return errors.Join(err, t.Shutdown(context.Background()))
	}
	return nil
}

// named is the collector that takes a gate's name in a registry and has no metrics. Two gates of
// one name would have the same ones, for which a registry refuses to serve any.
type named string

// Describe implements prometheus.Collector.
func (n named) Describe(to chan<- *prometheus.Desc) {
	to <- prometheus.NewDesc("spillgate.gate", "Takes the name of a gate.", nil, prometheus.Labels{gateLabel: string(n)})
}

// Collect implements prometheus.Collector.
func (named) Collect(chan<- prometheus.Metric) {}

var errNoGate = errors.New("telemetry: no gate: make it first, with spillgate.New")

// MustRegister is Register for prometheus.DefaultRegisterer, which promhttp.Handler serves, and
// panics with Register's error, as prometheus.MustRegister does.
func MustRegister(gate *live.Gate, name string) {
	if err := Register(prometheus.DefaultRegisterer, gate, name); err != nil {
		panic(err)
	}
}

// of counts what gate does, under name.
func (t *Telemetry) of(gate *live.Gate, name string) error {
	g, err := t.NewGate(name, slog.Default())
	if err != nil {
		return err
	}
	_, err = g.of(gate)
	return err
}

// Report reports the metrics of a gate, under a name that becomes a label, through
// OpenTelemetry's global meter provider, whether that is set before or after, until
// stop is called. Earlier requests are not counted. After stop, the gate's observer goes on
// counting, and the counts are no longer read. A second report by a name, of the same gate too, is an error until then: they
// would be counted together.
//
//	stop, err := telemetry.Report(gate, "orders")
func Report(gate *live.Gate, name string) (stop func() error, err error) {
	return ReportTo(otel.GetMeterProvider(), gate, name)
}

// ReportTo is Report through another provider.
func ReportTo(provider metric.MeterProvider, gate *live.Gate, name string) (stop func() error, err error) {
	if provider == nil {
		return nil, errors.New("telemetry: no meter provider")
	}
	free, err := reported.take(provider, name)
	if err != nil {
		return nil, err
	}
	var unwatch func() error
	g, err := NewGate(provider.Meter(Scope), name, slog.Default())
	if err == nil {
		unwatch, err = g.of(gate)
	}
	if err != nil {
		free()
		return nil, err
	}
	return func() error {
		defer free()
		return unwatch()
	}, nil
}

// reported are the gates that are reported through providers of OpenTelemetry, which know no names that are taken.
var reported reports

type reports struct {
	mu    sync.Mutex
	taken map[report]bool
}

type report struct {
	provider metric.MeterProvider
	name     string
}

// take takes a name at a provider until free is called, any number of times.
func (r *reports) take(provider metric.MeterProvider, name string) (free func(), err error) {
	if !reflect.ValueOf(provider).Comparable() {
		return func() {}, nil // it cannot be told from others
	}
	key := report{provider, name}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken[key] {
		return nil, fmt.Errorf("telemetry: a gate %q is reported already, expected another name for each gate", name)
	}
	if r.taken == nil {
		r.taken = map[report]bool{}
	}
	r.taken[key] = true
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.taken, key)
	}), nil
}

// of has g observe gate and watch it.
func (g *Gate) of(gate *live.Gate) (stop func() error, err error) {
	if gate == nil {
		return nil, errNoGate
	}
	if stop, err = g.Watch(gate); err != nil {
		return nil, err
	}
	gate.Observe(g.Observe)
	gate.ObserveCulprits(g.Culprit)
	return stop, nil
}
