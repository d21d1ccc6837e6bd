package catalogue

import "fmt"

const (
	pick   = `job=~"$job",gate=~"$gate"`
	job    = `job=~"$job"`
	byGate = "{{gate}}"
	// ofGate is a legend after a word.
	ofGate = " {{gate}}"
)

// value shows a gauge.
func value(metric, matching, legend string) Query {
	return Query{metric + "{" + matching + "}", legend}
}

// perSecond shows how fast a counter grows, by labels; without any, of all together.
func perSecond(metric, matching, by, legend string) Query {
	return Query{fmt.Sprintf(`sum by (%s) (rate(%s_total{%s}[$__rate_interval]))`, by, metric, matching), legend}
}

// quantile shows a quantile of a histogram.
func quantile(q float64, metric, matching, by, legend string) Query {
	return Query{fmt.Sprintf(`histogram_quantile(%g, sum by (%s, le) (rate(%s_bucket{%s}[$__rate_interval])))`, q, by, metric, matching), legend}
}

// rows returns the dashboard.
func rows() []Row {
	return []Row{
		{"Gates", gatePanels()}, {"Culprits", culpritPanels()}, {"Clients of Go services", clientPanels()}, {"Proxy", proxyPanels()},
		{"Workflows and classes", graphPanels()}, {"Guard", guardPanels()}, {"Broker", brokerPanels()},
	}
}

func gatePanels() []Panel {
	return []Panel{
		{"Requests by decision", "Requests per second. Refusals and late answers do not meet the objective.", "reqps",
			[]Query{perSecond("spillgate_requests", pick, "decision, outcome", "{{decision}} {{outcome}}")}, true},
		{"Refusals by reason", "Requests per second that were refused, or in mode monitor would have been.", "reqps",
			[]Query{perSecond("spillgate_requests", pick+`,decision=~"refuse|would_refuse"`, "decision, reason", "{{decision}} {{reason}}")}, true},
		{"SLO attainment", "Share of offered requests that were answered within the objective.", "percentunit",
			[]Query{{`sum by (gate) (rate(spillgate_requests_total{` + pick + `,outcome="done"}[$__rate_interval])) / sum by (gate) (rate(spillgate_requests_total{` + pick + `}[$__rate_interval]))`, byGate}}, false},
		{"Queue delay", "Time in the gate's queue: of requests that left it (p99), and of the oldest in it now.", "s",
			[]Query{quantile(0.99, "spillgate_queue_delay_seconds", pick, "gate", "p99"+ofGate), value("spillgate_delay_seconds", pick, "now"+ofGate), value("spillgate_objective_seconds", pick, "objective"+ofGate)}, false},
		{"Service time", "Time that a request holds its slot, and what the gate takes for the time without queues.", "s",
			[]Query{quantile(0.5, "spillgate_service_seconds", pick, "gate", "p50"+ofGate), quantile(0.99, "spillgate_service_seconds", pick, "gate", "p99"+ofGate), value("spillgate_service_estimate_seconds", pick, "estimate"+ofGate)}, false},
		{"Slots", "Concurrency limit, requests that hold a slot, and requests that wait.", "short",
			[]Query{value("spillgate_slots_limit", pick, "limit"+ofGate), value("spillgate_slots_in_use", pick, "in use"+ofGate), value("spillgate_waiting", pick, "waiting"+ofGate)}, false},
		{"Credits", "The pool, what clients hold of it, and clients that have none.", "short",
			[]Query{value("spillgate_credits", pick, "pool"+ofGate), value("spillgate_credits_issued", pick, "issued"+ofGate), value("spillgate_clients", pick, "clients"+ofGate), value("spillgate_clients_drained", pick, "drained"+ofGate)}, false},
		{"Mode and reach", "Mode: 0 enforce, 1 monitor, 2 off. Unreachable: 1 if the service takes longer than the objective although nothing waits.", "short",
			[]Query{value("spillgate_mode", pick, "mode"+ofGate), value("spillgate_objective_unreachable", pick, "unreachable"+ofGate)}, false},
		{"Builds", "The version of Spillgate and of Go of each process.", "short", []Query{value("spillgate_build_info", job, "{{instance}} {{version}} {{go}}")}, false},
	}
}

func culpritPanels() []Panel {
	return []Panel{
		{"Cancels", "Cancels, and those that mode monitor would have made.", "short",
			[]Query{{`sum by (gate, action) (increase(spillgate_culprit_cancels_total{` + pick + `}[$__rate_interval]))`, "{{action}}" + ofGate}}, false},
		{"Outcomes", "What cancels brought.", "short", []Query{{`sum by (gate, verdict) (increase(spillgate_culprit_outcomes_total{` + pick + `}[$__rate_interval]))`, "{{verdict}}" + ofGate}}, false},
		{"State", "The engine's state, 1 for the one that it is in.", "short", []Query{value("spillgate_culprit_state", pick, "{{state}}"+ofGate)}, true},
		{"Kinds kept out", "Kinds of requests that may not begin, tokens that are out, and lines of the audit file that were lost.", "short",
			[]Query{value("spillgate_culprit_limits", pick, "kinds"+ofGate), value("spillgate_culprit_tokens", pick, "tokens"+ofGate), perSecond("spillgate_culprit_audit_lost", pick, "gate", "audit lost"+ofGate)}, false},
		{"Kept out for a guard", "Requests that the proxy refused because the guard of the server behind it keeps their kind out, or in mode monitor would have refused.", "reqps",
			[]Query{{"sum(rate(spillgate_kept_out_total{" + job + "}[$__rate_interval]))", "kept out"}}, false},
	}
}

func clientPanels() []Panel {
	return []Panel{
		{"Calls by decision", "What becomes of the requests that services send. Unsent ones were refused by the client's own queue for credits.", "reqps",
			[]Query{perSecond("spillgate_client_requests", pick, "target, decision", "{{decision}} {{target}}")}, true},
		{"Window and waiting", "Requests that the servers of a target allow at once, and requests that wait for a credit.", "short",
			[]Query{value("spillgate_client_window", pick, "window {{target}}"), value("spillgate_client_waiting", pick, "waiting {{target}}")}, false},
		{"Calls without their request", "Calls that lost class, workflow and deadline, because a handler dropped its context.", "reqps",
			[]Query{perSecond("spillgate_untagged", pick, "gate, method", "{{method}}"+ofGate)}, false},
		{"Malformed tags", "Tags of clients that broke the format, and were ignored.", "reqps", []Query{perSecond("spillgate_malformed_tags", job, "job", "{{job}}")}, false},
	}
}

func proxyPanels() []Panel {
	return []Panel{
		{"Upstream failures", "Answers 500, 502, 503 and 504, and requests without an answer.", "reqps",
			[]Query{perSecond("spillgate_upstream_failures", job, "upstream", "{{upstream}}"), value("spillgate_upstream_out", job, "out {{upstream}}")}, false},
		{"Errors by kind", "Requests that the proxy could not answer from an upstream, and bad requests of clients.", "reqps",
			[]Query{perSecond("spillgate_upstream_errors", job, "kind", "upstream {{kind}}"), perSecond("spillgate_client_errors", job, "kind", "client {{kind}}")}, true},
		{"Rotation", "How often upstreams were put out, their checks, lookups that failed, and retries at other upstreams.", "reqps",
			[]Query{perSecond("spillgate_upstream_outs", job, "upstream", "out {{upstream}}"), perSecond("spillgate_upstream_checks", job, "upstream, result", "check {{result}} {{upstream}}"),
				perSecond("spillgate_name_errors", job, "name", "lookup failed {{name}}"), perSecond("spillgate_upstream_retries", job, "upstream, decision", "retry {{decision}} {{upstream}}")}, false},
		{"Limits", "What the proxy itself turned away: clients beyond their limits, connections that made room for others, requests beyond at_once of a rule, and requests of no group.", "reqps",
			[]Query{perSecond("spillgate_client_limited", job, "limit", "client {{limit}}"), perSecond("spillgate_connections_evicted", job, "job", "connections evicted"),
				perSecond("spillgate_rule_refusals", job, "rule", "rule {{rule}}"), perSecond("spillgate_unrouted", job, "job", "unrouted")}, false},
		{"Requests inside", "Requests that the proxy works on.", "short", []Query{value("spillgate_requests_inside", job, "{{instance}}")}, false},
		{"Connections", "Client connections: busy with a request, or idle.", "short", []Query{value("spillgate_connections", job, "{{state}}")}, false},
		{"Access log", "Lines per second.", "short", []Query{perSecond("spillgate_access_log_lines", job, "fate", "{{fate}}")}, false},
	}
}

func graphPanels() []Panel {
	return []Panel{
		{"Workflows", "Requests per second by workflow and decision.", "reqps",
			[]Query{perSecond("spillgate_workflow_requests", pick, "workflow, decision", "{{workflow}} {{decision}}")}, true},
		{"Workflows, p99", "Time that requests wait for their slot and hold it.", "s",
			[]Query{quantile(0.99, "spillgate_workflow_latency_seconds", pick, "workflow", "p99 {{workflow}}")}, false},
		{"Rates", "What each workflow asks for and what it may have, in requests per second, and requests that wait for their rate.", "reqps",
			[]Query{value("spillgate_workflow_offered", pick, "offered {{workflow}}"), value("spillgate_workflow_rate", pick, "{{bound}} {{workflow}}"), value("spillgate_workflow_shaping", pick, "shaping {{workflow}}")}, false},
		{"Share of interactive requests", "Their weight at each gate, and why it was last moved.", "short",
			[]Query{value("spillgate_share_weight", pick, "weight"+ofGate), perSecond("spillgate_share_decisions", pick, "gate, reason", "{{reason}}"+ofGate)}, false},
		{"Kinds by class", "Kinds of requests that are known.", "short", []Query{{`sum by (class, why) (spillgate_classes{` + job + `})`, "{{class}} {{why}}"}}, true},
		{"Requests without a slot", "Requests whose server waits for another one, and how many kept their slot because there were too many.", "short",
			[]Query{value("spillgate_away", pick, "away"+ofGate), perSecond("spillgate_away_kept", pick, "gate", "kept"+ofGate), value("spillgate_traced", job, "traced {{instance}}")}, false},
		{"Egress", "The upstreams' own calls, those that failed, and traces that could not be followed.", "reqps",
			[]Query{perSecond("spillgate_egress_calls", job, "egress, call", "{{call}} {{egress}}"), perSecond("spillgate_egress_failures", job, "egress", "failed {{egress}}"),
				perSecond("spillgate_traces_refused", job, "why", "trace {{why}}")}, false},
	}
}

func guardPanels() []Panel {
	return []Panel{
		{"Foreground", "Tasks inside the server, late ones, and late ones that wait.", "short",
			[]Query{value("spillgate_guard_in_flight", job, "inside {{server}}"), value("spillgate_guard_late", job, "late {{server}}"), value("spillgate_guard_stuck", job, "waiting {{server}}")}, false},
		{"Time lost", "Share of the time of tasks that is lost to a resource.", "percentunit",
			[]Query{value("spillgate_guard_lost", job, "{{server}} {{resource}}")}, true},
		{"Cancels", "By step and result; would counts mode monitor.", "short",
			[]Query{{`sum by (server, step, result) (increase(spillgate_guard_cancels_total{` + job + `}[$__rate_interval]))`, "{{server}} {{step}} {{result}}"},
				{`sum by (server, verdict) (increase(spillgate_guard_verdicts_total{` + job + `}[$__rate_interval]))`, "{{verdict}} {{server}}"}}, false},
		{"State", "The engine's state, 1 for the one that it is in, and whether the guard can see the server.", "short",
			[]Query{value("spillgate_guard_state", job, "{{state}} {{server}}"), value("spillgate_guard_connected", job, "connected {{server}}")}, true},
		{"Looks", "How often the guard looks, and fails to; throughput is what ends in the server.", "reqps",
			[]Query{perSecond("spillgate_guard_looks", job, "server", "looks {{server}}"), perSecond("spillgate_guard_failures", job, "server", "failures {{server}}"), value("spillgate_guard_throughput", job, "throughput {{server}}")}, false},
		{"Time of a look", "What the last look took.", "s", []Query{value("spillgate_guard_look_seconds", job, "{{server}}")}, false},
	}
}

func brokerPanels() []Panel {
	return []Panel{
		{"Messages", "Messages per second by limit and result, and those that had to wait.", "short",
			[]Query{perSecond("spillgate_broker_messages", job, "limit, result", "{{limit}} {{result}}"), perSecond("spillgate_broker_waited", job, "limit", "{{limit}} waited")}, false},
		{"Backlog", "Messages that wait for their topic's rate.", "short", []Query{value("spillgate_broker_backlog", job, "{{limit}}")}, false},
		{"Memory", "What waiting and retained messages take.", "bytes", []Query{value("spillgate_broker_backlog_bytes", job, "waiting {{limit}}"), value("spillgate_broker_retained_bytes", job, "retained")}, true},
		{"Delays, p99", "Access is the wait for the rate, processing all other time.", "s",
			[]Query{value("spillgate_broker_access_seconds", job+`,quantile="0.99"`, "access {{limit}}"), value("spillgate_broker_processing_seconds", job+`,quantile="0.99"`, "processing {{limit}}")}, false},
		{"Rates and topics", "The rate of each limit, and topics that are known.", "short",
			[]Query{value("spillgate_broker_rate", job, "rate {{limit}}"), value("spillgate_broker_topics", job, "topics {{limit}}")}, false},
		{"Clients", "Connections, sessions, subscriptions and retained messages.", "short",
			[]Query{value("spillgate_broker_connections", job, "connections {{protocol}}"), value("spillgate_broker_sessions", job, "sessions"), value("spillgate_broker_subscriptions", job, "subscriptions"), value("spillgate_broker_retained", job, "retained")}, false},
		{"Turned away and lost", "Connections closed, refused or turned away, messages dropped, and what a failure of storage lost.", "short",
			[]Query{perSecond("spillgate_broker_closed", job, "protocol, code", "closed {{protocol}} {{code}}"), perSecond("spillgate_broker_refused", job, "protocol", "refused {{protocol}}"),
				perSecond("spillgate_broker_turned_away", job, "protocol", "turned away {{protocol}}"), perSecond("spillgate_broker_dropped", job, "protocol, reason", "dropped {{protocol}} {{reason}}"), perSecond("spillgate_broker_lost", job, "job", "lost")}, false},
		{"Storing", "Messages that are being stored.", "short", []Query{value("spillgate_broker_storing", job, "{{instance}}")}, false},
	}
}
