package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// decision is the outcome of admission, as a label.
type decision uint8

const (
	admit decision = iota
	refuse
	wouldRefuse // ran, because the gate only monitors
	stopped     // ran, and was cancelled as a culprit
	numDecisions
)

var decisionNames = [...]string{admit: "admit", refuse: "refuse", wouldRefuse: "would_refuse", stopped: "cancel"}

// Gate counts and times what one gate does. Its methods may be called at
// once from any goroutine.
type Gate struct {
	meter  metric.Meter
	name   string
	counts [numDecisions][work.NumReasons][work.NumClasses][work.NumOutcomes]atomic.Int64
	queued histogram
	served histogram
	notice notice
	blamed atomic.Bool // the last state of the culprit engine had a request to blame
}

// The histograms of a gate.
const (
	queueDelay        = "spillgate.queue.delay"
	queueDelayMeaning = "Time that a request waited in the gate's queue, of requests that ran."
	service           = "spillgate.service"
	serviceMeaning    = "Time that a request held its slot, of requests that ran."
	gateLabel         = "gate"
)

// histogram takes times.
type histogram interface{ Observe(time.Duration) }

// instrument is a histogram of OpenTelemetry for one gate.
type instrument struct {
	metric.Float64Histogram
	labels []metric.RecordOption
}

// Observe implements histogram.
func (i instrument) Observe(d time.Duration) {
	i.Record(context.Background(), d.Seconds(), i.labels...)
}

// NewGate returns the instruments for a gate called name. The name becomes a label,
// so there must be few of them. Pass its Observe to spillgate.NewWith, and the gate to
// Watch. log, if not nil, gets the overload notices, and at debug level every
// request.
//
//	metrics, err := telemetry.NewGate(meter, "orders", logger)
//	gate, err := spillgate.NewWith(spillgate.Config{Config: cfg, Observe: metrics.Observe})
//	stop, err := metrics.Watch(gate)
func NewGate(meter metric.Meter, name string, log *slog.Logger) (*Gate, error) {
	var errs []error
	labels := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attribute.String(gateLabel, name)))}
	timed := func(what, meaning string) histogram {
		h, err := meter.Float64Histogram(what, metric.WithUnit("s"), metric.WithDescription(meaning), metric.WithExplicitBucketBoundaries(secondsBuckets()...))
		errs = append(errs, err)
		return instrument{h, labels}
	}
	queued, served := timed(queueDelay, queueDelayMeaning), timed(service, serviceMeaning)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Gate{meter: meter, name: name, queued: queued, served: served, notice: notice{log: log, gate: name}}, nil
}

// Observe takes the end of one request's passage. It is made for
// spillgate.Config.Observe.
func (g *Gate) Observe(e live.Event) {
	d := admit
	switch {
	case e.Outcome == work.Cancelled:
		d = stopped
	case e.Reason != work.None && e.Enforced:
		d = refuse
	case e.Reason != work.None:
		d = wouldRefuse
	}
	if int(e.Reason) >= work.NumReasons || e.Class >= work.NumClasses || int(e.Outcome) >= work.NumOutcomes {
		return
	}
	g.counts[d][e.Reason][e.Class][e.Outcome].Add(1)
	if e.Reach != nil {
		g.notice.reach(*e.Reach)
	}
	if log := g.notice.log; log != nil && log.Enabled(context.Background(), slog.LevelDebug) {
		g.line(log, d, e)
	}
	switch d {
	case refuse:
		g.notice.refused(e.Reason)
		return
	case stopped: // no sample
		return
	}
	g.queued.Observe(e.Queued)
	g.served.Observe(e.Service)
}

// line logs one request: what was decided and why, and how long it waited and held
// its slot until now.
func (g *Gate) line(log *slog.Logger, d decision, e live.Event) {
	attrs := []slog.Attr{
		slog.String("gate", g.name), slog.String("decision", decisionNames[d]), slog.String("reason", e.Reason.String()),
		slog.String("class", e.Class.String()), slog.String("workflow", e.Workflow), slog.Duration("queued", e.Queued),
	}
	if d != refuse {
		attrs = append(attrs, slog.Duration("service", e.Service), slog.String("outcome", e.Outcome.String()))
	}
	log.LogAttrs(context.Background(), slog.LevelDebug, "request", attrs...)
}

// Watch reports the state of gate, what Observe counted, and the calls of its
// handlers that lost their request, whenever metrics are collected, until stop is
// called.
func (g *Gate) Watch(gate *live.Gate) (stop func() error, err error) {
	var errs []error
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		i, err := g.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return i
	}
	requests, err := g.meter.Int64ObservableCounter("spillgate.requests", metric.WithDescription("Requests by the gate's decision, the reason of a refusal, and the outcome."))
	errs = append(errs, err)
	untagged, err := g.meter.Int64ObservableCounter("spillgate.untagged", metric.WithDescription("Calls whose handler dropped the context of the request that it serves, by method. They go out without class, priority, workflow and deadline."))
	errs = append(errs, err)
	delay, err := g.meter.Float64ObservableGauge("spillgate.delay", metric.WithUnit("s"), metric.WithDescription("Queueing delay now: in the gate's queue, and in sockets that a busy process has not read."))
	errs = append(errs, err)
	objective, err := g.meter.Float64ObservableGauge("spillgate.objective", metric.WithUnit("s"), metric.WithDescription("Latency objective of the gate."))
	errs = append(errs, err)
	estimate, err := g.meter.Float64ObservableGauge("spillgate.service_estimate", metric.WithUnit("s"), metric.WithDescription("Estimate of the service time of a request that does not wait behind the gate."))
	errs = append(errs, err)
	var (
		unreachable = gauge("spillgate.objective_unreachable", "", "1 while the service takes longer than the objective although no request waits.")
		limit       = gauge("spillgate.slots.limit", "", "Concurrency limit: the most requests that may run at once.")
		inUse       = gauge("spillgate.slots.in_use", "", "Requests that run: with a slot, or without one since they take longer than the objective.")
		waiting     = gauge("spillgate.waiting", "", "Requests that wait in the gate's queue.")
		credits     = gauge("spillgate.credits", "", "Credits in the pool: the sum that clients may hold.")
		issued      = gauge("spillgate.credits_issued", "", "Credits that clients hold now.")
		clients     = gauge("spillgate.clients", "", "Clients that use credits and have an account.")
		drained     = gauge("spillgate.clients_drained", "", "Clients that use credits and hold none.")
		mode        = gauge("spillgate.mode", "", "Mode of the gate: 0 enforce, 1 monitor, 2 off.")
	)
	culprits, err := watchCulprits(g.meter)
	errs = append(errs, err)
	sent, err := newCalls(g.meter)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	name := attribute.String(gateLabel, g.name)
	own := metric.WithAttributeSet(attribute.NewSet(name))
	registration, err := g.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := gate.Stats()
		o.ObserveInt64(limit, int64(s.Limit), own)
		o.ObserveInt64(inUse, int64(s.Running), own)
		o.ObserveInt64(waiting, int64(s.Waiting), own)
		o.ObserveInt64(credits, int64(s.Credits), own)
		o.ObserveInt64(issued, int64(s.Issued), own)
		o.ObserveInt64(clients, int64(s.Clients), own)
		o.ObserveInt64(drained, int64(s.Drained), own)
		o.ObserveInt64(mode, int64(s.Mode), own)
		o.ObserveFloat64(delay, s.Delay.Seconds(), own)
		o.ObserveFloat64(objective, s.Objective.Seconds(), own)
		o.ObserveFloat64(estimate, s.Service.Seconds(), own)
		out := int64(0)
		if s.Unreachable {
			out = 1
		}
		o.ObserveInt64(unreachable, out, own)
		culprits.observe(o, gate.Culprits(), name)
		sent.observe(o, gate.Calls(), name)
		g.count(func(n int64, labels ...attribute.KeyValue) {
			o.ObserveInt64(requests, n, metric.WithAttributes(append(labels, name)...))
		})
		gate.Untagged().Each(func(method string, n uint64) {
			o.ObserveInt64(untagged, int64(n), metric.WithAttributes(name, attribute.String("method", method)))
		})
		return nil
	}, append(append(culprits.all(), sent.all()...), requests, untagged, delay, objective, estimate, unreachable, limit, inUse, waiting, credits, issued, clients, drained, mode)...)
	if err != nil {
		return nil, err
	}
	g.notice.watched.Store(gate)
	return registration.Unregister, nil
}

// count calls f for every combination of labels that has occurred.
// A refused request has no outcome.
func (g *Gate) count(f func(n int64, labels ...attribute.KeyValue)) {
	for d := range g.counts {
		for r := range g.counts[d] {
			for c := range g.counts[d][r] {
				for o := range g.counts[d][r][c] {
					n := g.counts[d][r][c][o].Load()
					if n == 0 {
						continue
					}
					labels := []attribute.KeyValue{
						attribute.String("decision", decisionNames[d]), attribute.String("reason", work.Reason(r).String()),
						attribute.String("class", work.Class(c).String()),
					}
					if decision(d) != refuse {
						labels = append(labels, attribute.String("outcome", work.Outcome(o).String()))
					}
					f(n, labels...)
				}
			}
		}
	}
}
