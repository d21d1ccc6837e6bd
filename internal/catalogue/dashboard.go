package catalogue

import (
	"bytes"
	"encoding/json"
)

// Panel is one chart of the dashboard.
type Panel struct {
	Title, About, Unit string
	// Queries are expressions by the legend of their lines.
	Queries []Query
	// Stacked stacks the lines.
	Stacked bool
}

// Query is one expression of a panel.
type Query struct{ Expr, Legend string }

// Row is a row of panels, under a heading that can be folded.
type Row struct {
	Title  string
	Panels []Panel
}

const (
	pick   = `job=~"$job",gate=~"$gate"`
	byGate = "{{gate}}"
)

// Rows returns the dashboard.
func Rows() []Row {
	return []Row{
		{"Gates", []Panel{
			{"Requests by decision", "Requests per second. Refusals and late answers do not meet the objective.", "reqps",
				[]Query{{`sum by (decision, outcome) (rate(spillgate_requests_total{` + pick + `}[$__rate_interval]))`, "{{decision}} {{outcome}}"}}, true},
			{"Refusals by reason", "Requests per second that were refused, or in mode monitor would have been.", "reqps",
				[]Query{{`sum by (decision, reason) (rate(spillgate_requests_total{` + pick + `,decision=~"refuse|would_refuse"}[$__rate_interval]))`, "{{decision}} {{reason}}"}}, true},
			{"SLO attainment", "Share of offered requests that were answered within the objective.", "percentunit",
				[]Query{{`sum by (gate) (rate(spillgate_requests_total{` + pick + `,outcome="done"}[$__rate_interval])) / sum by (gate) (rate(spillgate_requests_total{` + pick + `}[$__rate_interval]))`, byGate}}, false},
			{"Queue delay, p99", "Time in the gate's queue.", "s",
				[]Query{{`histogram_quantile(0.99, sum by (gate, le) (rate(spillgate_queue_delay_seconds_bucket{` + pick + `}[$__rate_interval])))`, byGate},
					{`spillgate_objective_seconds{` + pick + `}`, "objective {{gate}}"}}, false},
			{"Service time, p50 and p99", "Time that a request holds its slot.", "s",
				[]Query{{`histogram_quantile(0.5, sum by (gate, le) (rate(spillgate_service_seconds_bucket{` + pick + `}[$__rate_interval])))`, "p50 {{gate}}"},
					{`histogram_quantile(0.99, sum by (gate, le) (rate(spillgate_service_seconds_bucket{` + pick + `}[$__rate_interval])))`, "p99 {{gate}}"}}, false},
			{"Slots", "Concurrency limit, requests that hold a slot, and requests that wait.", "short",
				[]Query{{`spillgate_slots_limit{` + pick + `}`, "limit {{gate}}"}, {`spillgate_slots_in_use{` + pick + `}`, "in use {{gate}}"}, {`spillgate_waiting{` + pick + `}`, "waiting {{gate}}"}}, false},
			{"Credits", "The pool, and what clients hold of it.", "short",
				[]Query{{`spillgate_credits{` + pick + `}`, "pool {{gate}}"}, {`spillgate_credits_issued{` + pick + `}`, "issued {{gate}}"}, {`spillgate_clients{` + pick + `}`, "clients {{gate}}"}}, false},
			{"Culprits", "Cancels, and those that mode monitor would have made.", "short",
				[]Query{{`sum by (gate, action) (increase(spillgate_culprit_cancels_total{` + pick + `}[$__rate_interval]))`, "{{action}} {{gate}}"}}, false},
		}},
		{"Proxy", []Panel{
			{"Upstream failures", "Answers 500, 502, 503 and 504, and requests without an answer.", "reqps",
				[]Query{{`sum by (upstream) (rate(spillgate_upstream_failures_total{job=~"$job"}[$__rate_interval]))`, "{{upstream}}"},
					{`spillgate_upstream_out{job=~"$job"}`, "out {{upstream}}"}}, false},
			{"Errors by kind", "Requests that the proxy could not answer from an upstream, and bad requests of clients.", "reqps",
				[]Query{{`sum by (kind) (rate(spillgate_upstream_errors_total{job=~"$job"}[$__rate_interval]))`, "upstream {{kind}}"},
					{`sum by (kind) (rate(spillgate_client_errors_total{job=~"$job"}[$__rate_interval]))`, "client {{kind}}"}}, true},
			{"Workflows", "Requests per second by workflow and decision.", "reqps",
				[]Query{{`sum by (workflow, decision) (rate(spillgate_workflow_requests_total{` + pick + `}[$__rate_interval]))`, "{{workflow}} {{decision}}"}}, true},
			{"Requests inside", "Requests that the proxy works on.", "short", []Query{{`spillgate_requests_inside{job=~"$job"}`, "{{instance}}"}}, false},
		}},
		{"Guard", []Panel{
			{"Foreground", "Tasks inside the server, late ones, and late ones that wait.", "short",
				[]Query{{`spillgate_guard_in_flight{job=~"$job"}`, "inside {{server}}"}, {`spillgate_guard_late{job=~"$job"}`, "late {{server}}"}, {`spillgate_guard_stuck{job=~"$job"}`, "waiting {{server}}"}}, false},
			{"Time lost", "Share of the time of tasks that is lost to a resource.", "percentunit",
				[]Query{{`spillgate_guard_lost{job=~"$job"}`, "{{server}} {{resource}}"}}, true},
			{"Cancels", "By step and result; would counts mode monitor.", "short",
				[]Query{{`sum by (server, step, result) (increase(spillgate_guard_cancels_total{job=~"$job"}[$__rate_interval]))`, "{{server}} {{step}} {{result}}"}}, false},
		}},
		{"Broker", []Panel{
			{"Messages", "Messages per second by limit and result.", "short",
				[]Query{{`sum by (limit, result) (rate(spillgate_broker_messages_total{job=~"$job"}[$__rate_interval]))`, "{{limit}} {{result}}"}}, true},
			{"Backlog", "Messages that wait for their topic's rate.", "short", []Query{{`spillgate_broker_backlog{job=~"$job"}`, "{{limit}}"}}, false},
			{"Delays, p99", "Access is the wait for the rate, processing all other time.", "s",
				[]Query{{`spillgate_broker_access_seconds{job=~"$job",quantile="0.99"}`, "access {{limit}}"}, {`spillgate_broker_processing_seconds{job=~"$job",quantile="0.99"}`, "processing {{limit}}"}}, false},
		}},
	}
}

// object is a JSON object of Grafana's.
type object = map[string]any

// source is the data source that the dashboard's variable chooses.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// Dashboard returns deploy/grafana/spillgate.json.
func Dashboard() []byte {
	var panels []object
	y, id := 0, 1
	for _, row := range Rows() {
		panels = append(panels, object{"type": "row", "id": id, "title": row.Title, "collapsed": false, "panels": []any{}, "gridPos": object{"x": 0, "y": y, "w": 24, "h": 1}})
		y, id = y+1, id+1
		for i, p := range row.Panels {
			panels = append(panels, p.object(id, i%2*12, y+i/2*8))
			id++
		}
		y += (len(row.Panels) + 1) / 2 * 8
	}
	variable := func(name, query string) object {
		return object{"name": name, "label": name, "type": "query", "datasource": source, "query": object{"query": query, "refId": name}, "definition": query,
			"includeAll": true, "allValue": ".*", "multi": true, "refresh": 2, "sort": 1, "current": object{"text": "All", "value": "$__all"}}
	}
	board := object{
		"title": "Spillgate", "uid": "spillgate", "tags": []string{"spillgate"}, "schemaVersion": 39, "version": 1, "editable": true, "refresh": "30s",
		"time": object{"from": "now-1h", "to": "now"}, "timezone": "browser",
		"description": "Made by go test ./internal/catalogue -rewrite; change internal/catalogue/dashboard.go.",
		"templating": object{"list": []object{
			{"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"},
			variable("job", `label_values({__name__=~"spillgate_mode|spillgate_guard_connected|spillgate_broker_connections"}, job)`), variable("gate", `label_values(spillgate_mode{job=~"$job"}, gate)`),
		}},
		"panels": panels,
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(board); err != nil {
		panic(err) // no value here that JSON does not have
	}
	return out.Bytes()
}

func (p *Panel) object(id, x, y int) object {
	var targets []object
	for i, q := range p.Queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.Expr, "legendFormat": q.Legend, "editorMode": "code", "range": true})
	}
	custom := object{"drawStyle": "line", "fillOpacity": 10, "showPoints": "never", "stacking": object{"mode": "none"}}
	if p.Stacked {
		custom["fillOpacity"], custom["stacking"] = 40, object{"mode": "normal"}
	}
	return object{
		"type": "timeseries", "id": id, "title": p.Title, "description": p.About, "datasource": source, "targets": targets,
		"gridPos":     object{"x": x, "y": y, "w": 12, "h": 8},
		"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0, "custom": custom}, "overrides": []any{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
}
