package telemetry

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
)

// culpritMeters are the instruments that tell of culprits. All labels are of closed
// lists; what a culprit does is for the log alone.
type culpritMeters struct {
	state, limits, tokens metric.Int64ObservableGauge
	cancels, outcomes     metric.Int64ObservableCounter
	unwritten             metric.Int64ObservableCounter
}

func watchCulprits(meter metric.Meter) (m culpritMeters, err error) {
	var errs [6]error
	m.state, errs[0] = meter.Int64ObservableGauge("spillgate.culprit.state", metric.WithDescription("1 for the present state of the culprit engine, 0 for the others."))
	m.limits, errs[1] = meter.Int64ObservableGauge("spillgate.culprit.limits", metric.WithDescription("Kinds of requests that may not begin now, because a request of the kind was cancelled."))
	m.tokens, errs[2] = meter.Int64ObservableGauge("spillgate.culprit.tokens", metric.WithDescription("Cancelled requests that may be sent again with their token."))
	m.cancels, errs[3] = meter.Int64ObservableCounter("spillgate.culprit.cancels", metric.WithDescription("Requests that were cancelled because they blocked others, or would have been."))
	m.outcomes, errs[4] = meter.Int64ObservableCounter("spillgate.culprit.outcomes", metric.WithDescription("Cancels by their effect on the requests that waited."))
	m.unwritten, errs[5] = meter.Int64ObservableCounter("spillgate.culprit.audit_lost", metric.WithDescription("Lines of the audit log that could not be written."))
	return m, errors.Join(errs[:]...)
}

func (m *culpritMeters) all() []metric.Observable {
	return []metric.Observable{m.state, m.limits, m.tokens, m.cancels, m.outcomes, m.unwritten}
}

func (m *culpritMeters) observe(o metric.Observer, s live.CulpritStats, gate attribute.KeyValue) {
	if s.Mode == culprit.Off {
		return
	}
	own := metric.WithAttributes(gate)
	for state := culprit.Idle; state <= culprit.GivenUp; state++ {
		on := int64(0)
		if s.State == state {
			on = 1
		}
		o.ObserveInt64(m.state, on, metric.WithAttributes(gate, attribute.String("state", state.String())))
	}
	o.ObserveInt64(m.limits, int64(s.Limits), own)
	o.ObserveInt64(m.tokens, int64(s.Tokens), own)
	o.ObserveInt64(m.unwritten, int64(s.Unwritten), own)
	o.ObserveInt64(m.cancels, int64(s.Cancels), metric.WithAttributes(gate, attribute.String("action", "cancel")))
	o.ObserveInt64(m.cancels, int64(s.Would), metric.WithAttributes(gate, attribute.String("action", "would_cancel")))
	for v := culprit.Relieved; v <= culprit.Ignored; v++ {
		o.ObserveInt64(m.outcomes, int64(s.Outcomes[v]), metric.WithAttributes(gate, attribute.String("verdict", v.String())))
	}
}

// Culprit logs what a gate decides about culprits. It is made for spillgate.Culprit.Notify. Changes between states in
// which no request is to blame are logged at level debug: under load there is one every second or so, and what the gate
// refuses is logged apart.
func (g *Gate) Culprit(n live.CulpritNotice) {
	log := g.notice.log
	if log == nil {
		return
	}
	level, text := slog.LevelInfo, "culprit state"
	blames := n.State > culprit.Overload
	was := g.blamed.Swap(blames)
	attrs := []slog.Attr{slog.String("gate", g.name), slog.String("state", n.State.String())}
	if n.Why != culprit.WhyNot {
		attrs = append(attrs, slog.String("why", n.Why.String()))
	}
	if n.Kind != "" {
		attrs = append(attrs, slog.String("kind", n.Kind), slog.String("resource", n.Resource), slog.Float64("share", n.Score),
			slog.Float64("victims", n.Victims), slog.Duration("age", n.Age))
	}
	switch {
	case n.Step != culprit.NoStep && n.Would:
		level, text = slog.LevelWarn, "culprit would be cancelled"
	case n.Step != culprit.NoStep:
		level, text = slog.LevelWarn, "culprit cancelled"
	case n.Verdict != culprit.Pending:
		text = "culprit cancel verified"
		attrs = append(attrs, slog.String("verdict", n.Verdict.String()), slog.Duration("after", n.After))
	case !blames && !was:
		level = slog.LevelDebug
	}
	log.LogAttrs(context.Background(), level, text, attrs...)
}
