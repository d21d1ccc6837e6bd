package catalogue

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// Alert is one Prometheus alert rule.
type Alert struct {
	Name, Expr, For, Severity string
	// Summary is one line for the pager, About what it means and what to do.
	Summary, About string
}

// alerts returns the alert rules. Each stands for something that a person must look at:
// refusals alone are not, because refusing is what a gate is for.
func alerts() []Alert {
	return slices.Concat(gateAlerts(), proxyAlerts(), culpritAlerts(), brokerAlerts())
}

func gateAlerts() []Alert {
	return []Alert{
		{"SpillgateOverload",
			`sum by (job, gate) (rate(spillgate_requests_total{decision="refuse"}[5m])) / sum by (job, gate) (rate(spillgate_requests_total[5m])) > 0.05`, "10m", "warning",
			"Gate {{ $labels.gate }} refuses more than 5 % of its requests.",
			"Clients send more than the service can answer within its objective. Look at the reasons of the refusals, and add capacity if the load stays."},
		{"SpillgateObjectiveMissed",
			`sum by (job, gate) (rate(spillgate_requests_total{outcome="late"}[5m])) / sum by (job, gate) (rate(spillgate_requests_total{decision!="refuse"}[5m])) > 0.05`, "10m", "warning",
			"More than 5 % of the requests that gate {{ $labels.gate }} admitted are late.",
			"Admitted requests exceed the objective or their deadline. The service slows down faster than the gate learns it, or something blocks it: look at the culprit state."},
		{"SpillgateObjectiveUnreachable", `spillgate_objective_unreachable == 1`, "5m", "warning",
			"The service behind gate {{ $labels.gate }} cannot meet its objective.",
			"It takes longer than the objective although no request waits. The log has the time that was measured. Raise the objective, or make the service faster."},
		{"SpillgateNotEnforcing", `spillgate_mode > 0`, "1d", "info",
			"Gate {{ $labels.gate }} has not enforced for a day.",
			"Its mode is monitor or off, so it does not protect the service."},
	}
}

func proxyAlerts() []Alert {
	return []Alert{
		{"SpillgateUpstreamOut", `spillgate_upstream_out == 1`, "5m", "critical",
			"Upstream {{ $labels.upstream }} is out of rotation.",
			"It fails or cannot be reached, and gets only probes. Look at the upstream and at spillgate_upstream_errors_total."},
		{"SpillgateNameLookup", `sum by (job, name) (rate(spillgate_name_errors_total[5m])) > 0`, "10m", "warning",
			"The name {{ $labels.name }} of an upstream cannot be looked up.",
			"The upstream keeps the addresses that it has. Look at the resolver."},
		{"SpillgateConnectionsFull", `sum by (job) (rate(spillgate_connections_evicted_total[5m])) > 1`, "10m", "warning",
			"A proxy has as many connections as it may.",
			"Idle connections make room for new ones. Raise limits.connections, and the limit of open files with it, or find the clients that open them."},
		{"SpillgateAccessLogLost", `sum by (job) (rate(spillgate_access_log_lines_total{fate="dropped"}[5m])) > 0`, "10m", "info",
			"Lines of the access log are dropped.",
			"Writing is slower than requests come. Log a smaller share of them, or use a faster disk."},
		{"SpillgateRequestsFull", `sum by (job) (rate(spillgate_client_limited_total{limit="all_requests"}[5m])) > 0`, "5m", "warning",
			"A proxy refuses requests of clients that have more inside than there is room left for.",
			"limits.requests bounds those inside, streams included. The log names the clients (a client has reached its limit). Raise it, or find out what keeps their requests."},
		{"SpillgateOutOfFiles", `sum by (job, upstream) (rate(spillgate_upstream_errors_total{kind="no_files"}[5m])) > 0`, "1m", "critical",
			"The proxy in front of {{ $labels.upstream }} has no open files left.",
			"Raise the process's limit of open files, or lower limits.connections."},
	}
}

func culpritAlerts() []Alert {
	return []Alert{
		{"SpillgateCulprit", `sum by (job, gate) (increase(spillgate_culprit_cancels_total[10m])) > 0`, "0m", "info",
			"A request blocks the others at gate {{ $labels.gate }}.",
			"It was cancelled, or in mode monitor would have been. The log names its kind and what it holds."},
		{"SpillgateCulpritGivenUp", `spillgate_culprit_state{state="given up"} == 1`, "1m", "warning",
			"The culprit engine of gate {{ $labels.gate }} has given up.",
			"Several cancels in a row brought no relief. It starts again when the objective has been met for a minute."},
		{"SpillgateAuditLost", `sum by (job, gate) (increase(spillgate_culprit_audit_lost_total[10m])) > 0`, "0m", "warning",
			"Decisions about culprits at gate {{ $labels.gate }} are missing in the audit file.",
			"The file could not be written. Look at the disk and at the log."},
		{"SpillgateContextLost", `sum by (job, gate, method) (rate(spillgate_untagged_total[15m])) > 0`, "15m", "info",
			"Handlers behind gate {{ $labels.gate }} call {{ $labels.method }} without the context of their request.",
			"Those calls lose class, priority, workflow and deadline. Pass the request's context on."},
		{"SpillgateGuardBlind", `spillgate_guard_connected == 0`, "5m", "critical",
			"The guard cannot look at {{ $labels.server }}.",
			"It cancels nothing meanwhile. The log has the error."},
		{"SpillgateGuardCancel", `sum by (job, server, step) (increase(spillgate_guard_cancels_total{result=~"done|would"}[10m])) > 0`, "0m", "info",
			"The guard of {{ $labels.server }} found what blocks the others.",
			"It was cancelled ({{ $labels.step }}), or in mode monitor would have been. The log and spillgate top name it, and what it holds."},
		{"SpillgateGuardCancelFailed", `sum by (job, server) (increase(spillgate_guard_cancels_total{result="error"}[10m])) > 0`, "0m", "warning",
			"The guard of {{ $labels.server }} cannot cancel.",
			"The server refused a cancel; the log has the error. Compare the rights of the guard's role with what spillgate guard --print-setup prints."},
		{"SpillgateGuardMissed", `spillgate_guard_late > 0 and on (job, server) spillgate_guard_state{state="given up"} == 1`, "1m", "warning",
			"Tasks of {{ $labels.server }} are late and the guard has given up.",
			"Several cancels in a row brought no relief. Look at the status page of the guard for the candidates."},
	}
}

func brokerAlerts() []Alert {
	return []Alert{
		{"SpillgateBrokerBacklog", `spillgate_broker_backlog > 1000`, "10m", "warning",
			"More than 1,000 messages wait for the limit {{ $labels.limit }}.",
			"Publishers send faster than the limit's rate. Raise the rate, or find the publisher."},
		{"SpillgateBrokerDrops", `sum by (job, reason) (rate(spillgate_broker_dropped_total[5m])) > 0`, "5m", "warning",
			"The broker drops messages to subscribers ({{ $labels.reason }}).",
			"Subscribers read more slowly than messages arrive."},
		{"SpillgateBrokerLost", `sum by (job) (rate(spillgate_broker_lost_total[5m])) > 0`, "5m", "warning",
			"Messages of QoS 0 do not reach the other nodes of the broker.",
			"The queue to them is full: messages come faster than the connection or the other nodes take them."},
	}
}

// Rules returns deploy/prometheus/alerts.yaml.
func Rules() []byte {
	var out bytes.Buffer
	out.WriteString("# Alert rules for Prometheus. Made by go test ./internal/catalogue -rewrite; change internal/catalogue/alerts.go.\n")
	out.WriteString("groups:\n  - name: spillgate\n    rules:\n")
	for _, a := range alerts() {
		fmt.Fprintf(&out, "      - alert: %s\n        expr: %s\n        for: %s\n        labels:\n          severity: %s\n        annotations:\n          summary: %s\n          description: %s\n",
			a.Name, strconv.Quote(a.Expr), a.For, a.Severity, strconv.Quote(a.Summary), strconv.Quote(a.About))
	}
	return out.Bytes()
}
