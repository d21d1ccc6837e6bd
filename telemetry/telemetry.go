package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// Scope is the name of the instrumentation scope of all instruments.
const Scope = "github.com/spillgate/spillgate"

// Telemetry is a meter provider with a Prometheus endpoint. Its methods may be
// called at once from any goroutine.
type Telemetry struct {
	provider *sdkmetric.MeterProvider
	registry *prometheus.Registry // nil: it is the service's own
	register prometheus.Registerer

	queued, served *Timer // by gate
}

// New returns a provider of its own, registered nowhere else. It also has the metrics of the Go
// runtime and of the process (go_…, process_…), and spillgate_build_info.
func New() (*Telemetry, error) {
	registry := prometheus.NewRegistry()
	t, err := newIn(registry)
	if err != nil {
		return nil, err
	}
	t.registry = registry
	for _, c := range [...]prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		err = errors.Join(err, registry.Register(c))
	}
	if err = errors.Join(err, t.watchBuild()); err != nil {
		return nil, fmt.Errorf("telemetry: the process's own metrics: %w", err)
	}
	return t, nil
}

// watchBuild has the metrics say which build runs.
func (t *Telemetry) watchBuild() error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = builtAs(info)
	}
	build := metric.WithAttributes(attribute.String("version", version), attribute.String("go", runtime.Version()))
	_, err := t.Meter().Int64ObservableGauge("spillgate.build.info", metric.WithDescription("1, with the version of Spillgate and of Go that the process was built with."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(1, build)
			return nil
		}))
	return err
}

// builtAs returns the version of Spillgate in a program, which may be Spillgate's own.
func builtAs(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == Scope && m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
}

// newIn returns a provider whose metrics are part of a registry, which may have those of other
// providers.
func newIn(registry prometheus.Registerer) (*Telemetry, error) {
	t := &Telemetry{register: registry}
	var errQueued, errServed error
	t.queued, errQueued = t.Timer(queueDelay, queueDelayMeaning, gateLabel)
	t.served, errServed = t.Timer(service, serviceMeaning, gateLabel)
	if err := errors.Join(errQueued, errServed); err != nil {
		return nil, err
	}
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo(),
		otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, fmt.Errorf("telemetry: Prometheus exporter: %w", err)
	}
	// The default bounds are for milliseconds.
	inSeconds := sdkmetric.NewView(sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram, Unit: "s"},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: secondsBuckets()}})
	t.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithView(inSeconds))
	return t, nil
}

// NewGate is the function NewGate with the meter of t, except for the histograms, which are
// a Timer's. Handler serves the same.
func (t *Telemetry) NewGate(name string, log *slog.Logger) (*Gate, error) {
	queued, errQueued := t.queued.With(name)
	served, errServed := t.served.With(name)
	if err := errors.Join(errQueued, errServed); err != nil {
		return nil, fmt.Errorf("telemetry: a gate called %q: %w", name, err)
	}
	return &Gate{meter: t.Meter(), name: name, queued: queued, served: served, notice: notice{log: log, gate: name}}, nil
}

// ForgetGate drops the histograms of the gate called name, which is gone for good: a program whose
// gates come and go under ever new names would otherwise keep those of all.
func (t *Telemetry) ForgetGate(name string) {
	t.queued.Forget(name)
	t.served.Forget(name)
}

// Meter returns the meter for gates and for a program's own instruments.
func (t *Telemetry) Meter() metric.Meter { return t.provider.Meter(Scope) }

// Handler serves the metrics in Prometheus's text format, and in OpenMetrics if the client
// asks for it.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 4})
}

// Shutdown ends the provider; instruments made from its meter do nothing
// afterwards.
func (t *Telemetry) Shutdown(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// secondsBuckets are the upper bounds of the histograms: 100 µs to 100 s, three
// to a decade, because objectives from a millisecond to ten seconds are common.
func secondsBuckets() []float64 {
	return slices.Clone(buckets[:])
}

var buckets = [...]float64{
	0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
	0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100,
}
