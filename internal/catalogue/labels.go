package catalogue

import (
	"fmt"
	"strings"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
)

// Label is one label of a metric.
type Label struct {
	Name string
	// Values says what it can be, in the words of the page.
	Values string
	// Most is the largest number of values, in words where the configuration decides.
	Most string
}

// closed is a label whose values are an enumeration.
func closed(name string, values ...string) Label {
	return Label{name, "`" + strings.Join(values, "`, `") + "`", fmt.Sprint(len(values))}
}

// strings of an enumeration from first to last.
func words[E interface {
	~uint8
	fmt.Stringer
}](first, last E) (all []string) {
	for e := first; e <= last; e++ {
		all = append(all, e.String())
	}
	return all
}

// labelsOf returns the labels of each metric, by its OpenTelemetry name. A metric without
// labels has an empty entry.
func labelsOf() map[string][]Label {
	var (
		gate     = Label{"gate", "the gate's name: the upstream's in the proxy, in Go what `NewGate` was told", "one per gate"}
		upstream = Label{"upstream", "the upstream's name in the configuration", "one per upstream"}
		workflow = Label{"workflow", "a listed workflow, or the first 64 others; `(other)` for the rest, `default` for none", "listed + 66"}
		reason   = closed("reason", words(work.Reason(0), work.Reason(work.NumReasons-1))...)
		class    = closed("class", words(work.Class(0), work.Class(work.NumClasses-1))...)
		state    = closed("state", words(culprit.Idle, culprit.GivenUp)...)
		verdict  = closed("verdict", words(culprit.Relieved, culprit.Ignored)...)
		server   = Label{"server", "the server's name in the configuration", "one per server"}
		limit    = Label{"limit", "the limit's filter in the configuration; `none` for topics without one", "limits + 1"}
		egress   = Label{"egress", "the egress address's name in the configuration", "one per address"}
		protocol = closed("protocol", "mqtt", "nats", "nsq")
		target   = Label{"target", "a called host or gRPC target", fmt.Sprintf("%d, then `%s`", live.MaxTargets, live.TargetRest)}
		quantile = closed("quantile", "0.5", "0.95", "0.99")
		labels   = map[string][]Label{
			"spillgate.requests": {gate, closed("decision", "admit", "refuse", "would_refuse", "cancel"), reason, class,
				closed("outcome", words(work.Outcome(0), work.Outcome(work.NumOutcomes-1))...)},
			"spillgate.untagged": {gate, {"method", "the called method, or method and host", fmt.Sprintf("%d, then `%s`", live.MaxUntagged, live.UntaggedRest)}},

			"spillgate.culprit.state":    {gate, state},
			"spillgate.culprit.cancels":  {gate, closed("action", "cancel", "would_cancel")},
			"spillgate.culprit.outcomes": {gate, verdict},

			"spillgate.upstream.out": {upstream}, "spillgate.upstream.outs": {upstream}, "spillgate.upstream.failures": {upstream},
			"spillgate.upstream.errors":     {upstream, closed("kind", "connect", "timeout", "reset", "large_header", "truncated", "client_left", "client_slow", "client_malformed", "no_files")},
			"spillgate.client.errors":       {closed("kind", "client_slow", "client_malformed", "proxy_protocol")},
			"spillgate.rule_refusals":       {{"rule", "the rule's place in the configuration, from 1", "256"}},
			"spillgate.kept_out":            {},
			"spillgate.connections_evicted": nil, "spillgate.requests_inside": nil, "spillgate.malformed_tags": nil, "spillgate.traced": nil,
			"spillgate.connections":      {closed("state", "busy", "idle")},
			"spillgate.upstream.retries": {upstream, closed("decision", "sent", "budget")},
			"spillgate.upstream.checks":  {upstream, closed("result", "good", "bad")},
			"spillgate.name_errors":      {{"name", "the name of an upstream in the configuration", "one per name"}},
			"spillgate.client.limited":   {closed("limit", "connections", "requests", "all_requests")},
			"spillgate.access_log.lines": {closed("fate", "written", "dropped")},
			"spillgate.unrouted":         nil,

			"spillgate.client.requests": {gate, target, closed("decision", "answered", "refused", "unsent", "failed"), reason},
			"spillgate.client.window":   {gate, target}, "spillgate.client.waiting": {gate, target},

			"spillgate.workflow.requests": {gate, workflow, closed("decision", "admit", "refuse", "would_refuse"), reason},
			"spillgate.workflow.latency":  {gate, workflow},
			"spillgate.build.info":        {{"version", "the version of Spillgate; `(devel)` for a build from a clone, `unknown` for one that knows none", "1"}, {"go", "the version of Go", "1"}},
			"spillgate.workflow.offered":  {gate, workflow}, "spillgate.workflow.shaping": {gate, workflow},
			"spillgate.workflow.rate": {gate, workflow, closed("bound", "limit", "own", "downstream")},

			"spillgate.share.weight": {gate}, "spillgate.away": {gate}, "spillgate.away_kept": {gate},
			"spillgate.share.decisions": {gate, closed("reason", words(share.Early, share.Neutral)...)},
			"spillgate.classes":         {class, closed("why", words(share.ByOverride, share.ByNeither)...)},
			"spillgate.egress.calls":    {egress, closed("call", "matched", "strange", "untraced")},
			"spillgate.egress.failures": {egress},
			"spillgate.traces_refused":  {closed("why", "malformed", "crowded")},

			"spillgate.guard.cancels": {server, closed("step", words(culprit.Throttle, culprit.Session)...), closed("result", "done", "would", "gone", "error")},
			"spillgate.guard.state":   {server, state}, "spillgate.guard.verdicts": {server, verdict},
			"spillgate.guard.lost": {server, {"resource", "a resource that the adapter knows, such as a lock or a pool", "tens per server"}},

			"spillgate.broker.messages": {limit, closed("result", "released", "over_rate", "queue_full")},
			"spillgate.broker.access":   {limit, quantile}, "spillgate.broker.processing": {limit, quantile},
			"spillgate.broker.dropped":     {protocol, closed("reason", "session_queue", "outbound", "packet_size", "subject", "channel_queue", "message_size", "rights", "stream")},
			"spillgate.broker.closed":      {protocol, {"code", "MQTT: a reason code of version 5, in hexadecimal; NATS and NSQ: an error or reason", "tens"}},
			"spillgate.broker.connections": {protocol}, "spillgate.broker.turned_away": {protocol}, "spillgate.broker.refused": {protocol},
		}
	)
	for _, name := range []string{"queue.delay", "service", "objective", "objective_unreachable", "service_estimate", "slots.limit", "slots.in_use", "waiting",
		"delay", "credits", "credits_issued", "clients", "clients_drained", "mode", "culprit.limits", "culprit.tokens", "culprit.audit_lost"} {
		labels["spillgate."+name] = []Label{gate}
	}
	for _, name := range []string{"looks", "failures", "in_flight", "late", "stuck", "throughput", "look", "connected"} {
		labels["spillgate.guard."+name] = []Label{server}
	}
	for _, name := range []string{"waited", "topics", "rate", "backlog", "backlog_bytes"} {
		labels["spillgate.broker."+name] = []Label{limit}
	}
	for _, name := range []string{"sessions", "subscriptions", "retained", "retained_bytes", "storing", "lost"} {
		labels["spillgate.broker."+name] = nil
	}
	return labels
}

// Metric is an instrument with its labels.
type Metric struct {
	Instrument
	Labels []Label
}

// dirs are the packages that make instruments.
func dirs() []string {
	return []string{"telemetry", "proxy", "guard", "broker", "httpgate", "grpcgate", "internal/live"}
}

// Metrics returns every metric of the source below root, with its labels, or every
// difference between the source and Labels.
func Metrics(root string) (all []Metric, err error) {
	found, err := scan(root, dirs()...)
	if err != nil {
		return nil, err
	}
	labels := labelsOf()
	for _, i := range found {
		l, ok := labels[i.Name]
		if !ok {
			return nil, fmt.Errorf("catalogue: %s makes %s; add its labels to Labels", i.At, i.Name)
		}
		if i.Meaning == "" {
			return nil, fmt.Errorf("catalogue: %s makes %s without a description", i.At, i.Name)
		}
		delete(labels, i.Name)
		all = append(all, Metric{i, l})
	}
	for name := range labels {
		return nil, fmt.Errorf("catalogue: no source makes %s any more; take it out of Labels", name)
	}
	return all, nil
}
