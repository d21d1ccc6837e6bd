package guard

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/internal/culprit"
)

// watchMetrics reports every guard whenever metrics are collected:
//
//	spillgate_guard_looks_total{server}, _failures_total{server}
//	spillgate_guard_cancels_total{server,step,result}   done, would, gone, error
//	spillgate_guard_verdicts_total{server,verdict}
//	spillgate_guard_in_flight, _late, _stuck, _throughput, _look_seconds, _connected,
//	spillgate_guard_state{server,state}                 1 for the present state
//	spillgate_guard_lost{server,resource}               share of in-flight time
//
// Labels come from the configuration and from enumerations.
func watchMetrics(meter metric.Meter, guards []*Guard) error {
	var errs []error
	counter := func(name, about string) metric.Int64ObservableCounter {
		i, err := meter.Int64ObservableCounter("spillgate.guard."+name, metric.WithDescription(about))
		errs = append(errs, err)
		return i
	}
	gauge := func(name, unit, about string) metric.Float64ObservableGauge {
		i, err := meter.Float64ObservableGauge("spillgate.guard."+name, metric.WithUnit(unit), metric.WithDescription(about))
		errs = append(errs, err)
		return i
	}
	var (
		looks    = counter("looks", "Times that the guard looked at the server.")
		failures = counter("failures", "Looks that failed.")
		cancels  = counter("cancels", "Cancels by step (statement or session) and result; would counts those of mode monitor.")
		verdicts = counter("verdicts", "Cancels by their effect on the tasks that waited.")
		inFlight = gauge("in_flight", "", "Foreground tasks inside the server.")
		late     = gauge("late", "", "Foreground tasks older than the objective.")
		stuck    = gauge("stuck", "", "Foreground tasks that are older than the objective and wait.")
		rate     = gauge("throughput", "", "Foreground tasks that end per second.")
		took     = gauge("look", "s", "Duration of the last look.")
		there    = gauge("connected", "", "1 while the guard can look at the server.")
		state    = gauge("state", "", "1 for the present state of the culprit engine.")
		lost     = gauge("lost", "", "Share of the time of tasks inside the server that is lost to a resource.")
	)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, g := range guards {
			s, c := g.snapshot()
			server := attribute.String("server", s.Server)
			with := func(labels ...attribute.KeyValue) metric.MeasurementOption {
				return metric.WithAttributes(append(labels, server)...)
			}
			o.ObserveInt64(looks, int64(c.looks), with())
			o.ObserveInt64(failures, int64(c.failures), with())
			for step := culprit.Throttle; step <= culprit.Session; step++ {
				for result, n := range map[string]uint64{"done": c.cancels[step], "would": c.would[step], "gone": c.gone[step], "error": c.wrong[step]} {
					o.ObserveInt64(cancels, int64(n), with(attribute.String("step", step.String()), attribute.String("result", result))) // from 0 on: the first is seen to happen
				}
			}
			for v := culprit.Relieved; v <= culprit.Ignored; v++ {
				o.ObserveInt64(verdicts, int64(c.verdicts[v]), with(attribute.String("verdict", v.String())))
			}
			o.ObserveFloat64(inFlight, float64(s.InFlight), with())
			o.ObserveFloat64(late, float64(s.Late), with())
			o.ObserveFloat64(stuck, float64(s.Stuck), with())
			o.ObserveFloat64(rate, s.Throughput, with())
			o.ObserveFloat64(took, s.LookTime, with())
			connected := 0.0
			if s.Connected {
				connected = 1
			}
			o.ObserveFloat64(there, connected, with())
			o.ObserveFloat64(state, 1, with(attribute.String("state", s.State)))
			for resource, share := range s.Lost {
				o.ObserveFloat64(lost, share, with(attribute.String("resource", resource)))
			}
		}
		return nil
	}, looks, failures, cancels, verdicts, inFlight, late, stuck, rate, took, there, state, lost)
	return err
}

// snapshot returns status and totals of one instant.
func (g *Guard) snapshot() (Status, counts) {
	s := g.Status()
	g.mu.Lock()
	defer g.mu.Unlock()
	return s, g.counts
}
