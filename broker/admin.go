package broker

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/link"
)

// Admin serves metrics, status and health. It answers every request, so it belongs
// on a private address.
func (b *Broker) Admin() http.Handler {
	return b.metrics.Admin(func() any { return b.Status() }, func() (string, bool) {
		phase := b.phase.Load()
		return phaseNames[phase], phase == serving
	})
}

// Status is the broker at one instant. Durations are in seconds.
type Status struct {
	// Phase is starting, serving, leaving or draining.
	Phase         string  `json:"phase"`
	Uptime        float64 `json:"uptime_seconds"`
	Connections   int     `json:"connections"`
	Sessions      int     `json:"sessions"`
	Topics        int     `json:"topics"`
	Subscriptions int     `json:"subscriptions"`
	Retained      int     `json:"retained"`
	RetainedBytes int     `json:"retained_bytes"`
	// TurnedAway counts connections beyond the limit, Refused messages of clients that
	// were not taken.
	TurnedAway uint64 `json:"connections_turned_away"`
	Refused    uint64 `json:"refused"`
	// Dropped counts messages to clients, by reason; Closed the connections that the
	// broker closed, by the protocol's code or reason. All are those of Protocols added
	// up.
	Dropped map[string]uint64 `json:"dropped"`
	Closed  map[string]uint64 `json:"closed"`
	// Protocols are the same numbers by protocol.
	Protocols map[string]ProtocolStatus `json:"protocols"`
	// Cluster is what the node has to do with others; nil alone and in memory.
	Cluster *ClusterStatus `json:"cluster,omitempty"`
	// Limits are those of the configuration, in its order, then the parts of placed
	// topics' buckets, and last the topics without a limit.
	Limits []LimitStatus `json:"limits"`
}

// ClusterStatus is the node's part in a cluster.
type ClusterStatus struct {
	Node string `json:"node"`
	// Position is how far the node has delivered the log.
	Position uint64 `json:"position"`
	// Storing and Sending are the messages that wait to be stored, and to be sent to
	// other nodes.
	Storing int `json:"storing"`
	Sending int `json:"sending"`
	// Lost counts messages of QoS 0 to and from other nodes that found no room, Malformed what
	// came from other nodes and was no message.
	Lost      uint64 `json:"lost"`
	Malformed uint64 `json:"malformed"`
}

// ProtocolStatus is what the clients of one protocol do.
type ProtocolStatus struct {
	Connections int               `json:"connections"`
	TurnedAway  uint64            `json:"connections_turned_away"`
	Refused     uint64            `json:"refused"`
	Dropped     map[string]uint64 `json:"dropped,omitempty"`
	Closed      map[string]uint64 `json:"closed,omitempty"`
}

// protocol enters the numbers of one protocol.
func (s *Status) protocol(name string, p link.Stats) {
	s.Protocols[name] = ProtocolStatus{Connections: p.Connections, TurnedAway: p.Turned, Refused: p.Refused, Dropped: p.Dropped, Closed: p.Closed}
	s.Connections += p.Connections
	s.TurnedAway += p.Turned
	s.Refused += p.Refused
	for reason, n := range p.Dropped {
		s.Dropped[reason] += n
	}
	for code, n := range p.Closed {
		s.Closed[code] += n
	}
}

// LimitStatus is one limit. Rate and delays are those of the last 10 s.
type LimitStatus struct {
	Filter       string            `json:"filter"`
	Limit        float64           `json:"limit_per_second,omitempty"`
	Burst        float64           `json:"burst,omitempty"`
	Police       bool              `json:"police,omitempty"`
	Shared       bool              `json:"shared,omitempty"`
	Topics       int               `json:"topics"`
	Rate         float64           `json:"rate_per_second"`
	Backlog      int               `json:"backlog"`
	BacklogBytes int               `json:"backlog_bytes"`
	Released     uint64            `json:"released"`
	Waited       uint64            `json:"waited"`
	Refused      map[string]uint64 `json:"refused"`
	// Access is the wait for tokens, Processing all other time in the broker.
	Access     Quantiles `json:"access_seconds"`
	Processing Quantiles `json:"processing_seconds"`
}

// Quantiles are those of a delay, in seconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// noLimit is the filter of the topics without a limit in metrics and status.
const noLimit = "none"

// Status returns the state of the broker.
func (b *Broker) Status() Status {
	c := b.hub.Counts()
	s := Status{Phase: phaseNames[b.phase.Load()], Uptime: time.Since(b.started).Seconds(), Sessions: b.mqtt.Stats().Sessions, Topics: c.Topics,
		Subscriptions: c.Subscriptions, Retained: c.Retained, RetainedBytes: c.RetainedBytes, Dropped: map[string]uint64{}, Closed: map[string]uint64{},
		Protocols: map[string]ProtocolStatus{}}
	for protocol, e := range b.edges {
		s.protocol(protocol, e.Stats())
	}
	if b.plane != nil {
		p := b.plane.Stats()
		s.Cluster = &ClusterStatus{b.plane.Node(), p.Position, p.Storing, p.Sending, p.Lost, p.Malformed}
	}
	for _, l := range b.hub.Stats() {
		filter := l.Limit.Filter
		if filter == "" {
			filter = noLimit
		}
		s.Limits = append(s.Limits, LimitStatus{Filter: filter, Limit: l.Limit.Rate, Burst: l.Limit.Burst, Police: l.Limit.Police, Shared: l.Limit.Shared, Topics: l.Topics,
			Rate: l.Rate, Backlog: l.Backlog, BacklogBytes: l.BacklogBytes, Released: l.Released, Waited: l.Waited, Refused: l.Refused,
			Access: quantiles(l.Access), Processing: quantiles(l.Processing)})
	}
	return s
}

func quantiles(d engine.Delays) Quantiles {
	return Quantiles{d.P50.Seconds(), d.P95.Seconds(), d.P99.Seconds()}
}

// watch reports the status whenever metrics are collected:
//
//	spillgate_broker_messages_total{limit,result}       released, over_rate, queue_full
//	spillgate_broker_waited_total{limit}
//	spillgate_broker_topics, _rate, _backlog, _backlog_bytes{limit}
//	spillgate_broker_access_seconds, _processing_seconds{limit,quantile}
//	spillgate_broker_sessions, _subscriptions, _retained, _retained_bytes
//	spillgate_broker_connections, _turned_away_total, _refused_total{protocol}
//	spillgate_broker_dropped_total{protocol,reason}, _closed_total{protocol,code}
//	spillgate_broker_storing, _lost_total               where there are other nodes
//
// Labels come from the configuration and from enumerations.
func (b *Broker) watch(meter metric.Meter) error {
	var errs []error
	var all []metric.Observable
	counter := func(name, about string) metric.Int64ObservableCounter {
		i, err := meter.Int64ObservableCounter("spillgate.broker."+name, metric.WithDescription(about))
		errs, all = append(errs, err), append(all, i)
		return i
	}
	gauge := func(name, unit, about string) metric.Float64ObservableGauge {
		i, err := meter.Float64ObservableGauge("spillgate.broker."+name, metric.WithUnit(unit), metric.WithDescription(about))
		errs, all = append(errs, err), append(all, i)
		return i
	}
	in := instruments{
		messages: counter("messages", "Messages by the limit of their topic, and whether they were released or refused."), waited: counter("waited", "Released messages that had waited for their topic's rate."),
		turned: counter("turned_away", "Connections refused at clients.connections."), refused: counter("refused", "Messages from clients that were refused."),
		dropped: counter("dropped", "Messages to clients that were dropped, by the limit that was reached."), closed: counter("closed", "Connections that the broker closed, by the code or reason of the protocol."),
		topics: gauge("topics", "", "Topics that the limit matches."), rate: gauge("rate", "", "Messages released per second over the last 10 s."),
		backlog: gauge("backlog", "", "Messages that wait for their topic's rate."), bytes: gauge("backlog_bytes", "", "Bytes of messages that wait for their topic's rate."),
		access: gauge("access", "s", "Time that messages waited for their topic's rate, over the last 10 s."), processing: gauge("processing", "s", "All other time of messages, from arrival to the subscribers' sockets, over the last 10 s."),
		connections: gauge("connections", "", "Open client connections."), sessions: gauge("sessions", "", "Sessions, connected or not."),
		subscriptions: gauge("subscriptions", "", "Subscriptions of all sessions."), retained: gauge("retained", "", "Retained messages."), retainedBytes: gauge("retained_bytes", "", "Bytes of retained messages."),
	}
	if b.plane != nil {
		in.storing, in.lost = gauge("storing", "", "Messages that wait to be stored, which delays their acknowledgements."), counter("lost", "Messages of QoS 0 for and of other nodes that were dropped because a queue was full.")
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := b.Status()
		in.observe(o, &s)
		return nil
	}, all...)
	return err
}

type instruments struct {
	storing                                                       metric.Float64ObservableGauge // nil without other nodes, as lost
	lost                                                          metric.Int64ObservableCounter
	messages, waited, turned, refused, dropped, closed            metric.Int64ObservableCounter
	topics, rate, backlog, bytes, access, processing              metric.Float64ObservableGauge
	connections, sessions, subscriptions, retained, retainedBytes metric.Float64ObservableGauge
}

func (in *instruments) observe(o metric.Observer, s *Status) {
	for i := range s.Limits {
		in.limit(o, &s.Limits[i])
	}
	for name, p := range s.Protocols {
		protocol := attribute.String("protocol", name)
		o.ObserveFloat64(in.connections, float64(p.Connections), metric.WithAttributes(protocol))
		o.ObserveInt64(in.turned, int64(p.TurnedAway), metric.WithAttributes(protocol))
		o.ObserveInt64(in.refused, int64(p.Refused), metric.WithAttributes(protocol))
		for reason, n := range p.Dropped {
			o.ObserveInt64(in.dropped, int64(n), metric.WithAttributes(protocol, attribute.String("reason", reason)))
		}
		for code, n := range p.Closed {
			o.ObserveInt64(in.closed, int64(n), metric.WithAttributes(protocol, attribute.String("code", code)))
		}
	}
	if s.Cluster != nil {
		o.ObserveFloat64(in.storing, float64(s.Cluster.Storing))
		o.ObserveInt64(in.lost, int64(s.Cluster.Lost))
	}
	o.ObserveFloat64(in.sessions, float64(s.Sessions))
	o.ObserveFloat64(in.subscriptions, float64(s.Subscriptions))
	o.ObserveFloat64(in.retained, float64(s.Retained))
	o.ObserveFloat64(in.retainedBytes, float64(s.RetainedBytes))
}

func (in *instruments) limit(o metric.Observer, l *LimitStatus) {
	label := attribute.String("limit", l.Filter)
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributes(append(more, label)...)
	}
	o.ObserveInt64(in.messages, int64(l.Released), with(attribute.String("result", "released")))
	for verdict, n := range l.Refused {
		o.ObserveInt64(in.messages, int64(n), with(attribute.String("result", verdict)))
	}
	o.ObserveInt64(in.waited, int64(l.Waited), with())
	for _, g := range [...]struct {
		gauge metric.Float64ObservableGauge
		value float64
	}{{in.topics, float64(l.Topics)}, {in.rate, l.Rate}, {in.backlog, float64(l.Backlog)}, {in.bytes, float64(l.BacklogBytes)}} {
		o.ObserveFloat64(g.gauge, g.value, with())
	}
	for _, d := range [...]struct {
		gauge metric.Float64ObservableGauge
		q     Quantiles
	}{{in.access, l.Access}, {in.processing, l.Processing}} {
		for _, q := range [...]struct {
			name  string
			value float64
		}{{"0.5", d.q.P50}, {"0.95", d.q.P95}, {"0.99", d.q.P99}} {
			o.ObserveFloat64(d.gauge, q.value, with(attribute.String("quantile", q.name)))
		}
	}
}
