package catalogue

import (
	"bytes"
	"fmt"
	"strings"
)

// sections are the parts of the page in their order. A metric stands in the one of its
// package whose prefix is the longest that its name has.
var sections = [...]struct{ title, about, dir, prefix string }{
	{"Gates", "One gate per upstream in the proxy, and those that a Go service makes.", "telemetry", ""},
	{"Culprits", "Of each gate whose culprit mode is not off.", "telemetry", "spillgate.culprit."},
	{"Clients", "Of the requests that a Go service sends, if its clients count them (`httpgate.CountCalls`, `grpcgate.WithCalls`). A program without a gate (`telemetry.WatchCalls`) has no label `gate`.", "telemetry", "spillgate.client."},
	{"Proxy", "Of `spillgate proxy`.", "proxy", ""},
	{"Workflows", "Of `spillgate proxy`, by workflow.", "proxy", "spillgate.workflow."},
	{"Guard", "Of `spillgate guard`.", "guard", ""},
	{"Broker", "Of `spillgate broker`.", "broker", ""},
	{"Libraries", "Of the packages that a Go service imports.", "", ""},
}

// section returns the index of the section of a metric.
func section(m Metric) (best int) {
	dir, _, _ := strings.Cut(m.At, "/")
	best = len(sections) - 1
	for i, s := range sections[:best] {
		if s.dir == dir && strings.HasPrefix(m.Name, s.prefix) && (best == len(sections)-1 || len(s.prefix) > len(sections[best].prefix)) {
			best = i
		}
	}
	return best
}

// Page returns docs/metrics.md.
func Page(metrics []Metric) []byte {
	var out bytes.Buffer
	out.WriteString(`# Metrics

Every program serves its metrics at ` + "`/metrics`" + ` of its admin address, as Prometheus or OpenMetrics text. A Go service has them from package ` + "`telemetry`" + `: see [go.md](go.md#metrics).
There are also the metrics of the Go runtime and of the process, ` + "`go_…` and `process_…`" + `, under the names that Prometheus's Go client gives them.
Through OpenTelemetry (` + "`telemetry.Report`" + `) a metric has the name with dots, and its unit apart. Histograms are served with the classic buckets and as native histograms, for a Prometheus that scrapes those.

This page is made from the source: ` + "`go test ./internal/catalogue -rewrite`" + `. Labels come from the configuration or from enumerations; no label takes a value that a client sends,
except where the number of values is bounded below. "Most" is the largest number of values.

[deploy](../deploy/README.md) has a Grafana dashboard and Prometheus alert rules that use these metrics.

`)
	parts := make([]bytes.Buffer, len(sections))
	for _, m := range metrics {
		fmt.Fprintf(&parts[section(m)], "| `%s` | `%s` | %s | %s | %s |\n", m.Prometheus(), m.Name, m.Kind, m.Meaning, labelNames(m.Labels))
	}
	for i, s := range sections {
		if parts[i].Len() > 0 {
			fmt.Fprintf(&out, "## %s\n\n%s\n\n| metric | OpenTelemetry | kind | meaning | labels |\n|---|---|---|---|---|\n%s\n", s.title, s.about, parts[i].String())
		}
	}
	out.WriteString("## Labels\n\n| label | of | values | most |\n|---|---|---|---|\n")
	writeLabels(&out, metrics)
	out.WriteString(`
Classic buckets of histograms have the bounds 100 µs to 100 s, three to a decade. Native ones have eight buckets to an octave (schema 3).
The dashboard reads the classic ones; a Prometheus that scrapes native histograms keeps both with ` + "`always_scrape_classic_histograms: true`" + ` (before version 3 ` + "`scrape_classic_histograms`" + `).

## Queries

` + "```promql" + `
# refusals by reason, per second
sum by (gate, reason) (rate(spillgate_requests_total{decision="refuse"}[1m]))

# share of requests answered within the objective
sum by (gate) (rate(spillgate_requests_total{decision="admit",outcome="done"}[5m])) / sum by (gate) (rate(spillgate_requests_total[5m]))

# how full the slots are
spillgate_slots_in_use / spillgate_slots_limit
` + "```\n")
	return out.Bytes()
}

func labelNames(labels []Label) string {
	var names []string
	for _, l := range labels {
		names = append(names, "`"+l.Name+"`")
	}
	return strings.Join(names, ", ")
}

// writeLabels writes a row for each label, those that differ apart.
func writeLabels(out *bytes.Buffer, metrics []Metric) {
	var order []Label
	users := map[Label][]string{}
	for _, m := range metrics {
		for _, l := range m.Labels {
			if users[l] == nil {
				order = append(order, l)
			}
			users[l] = append(users[l], "`"+m.Prometheus()+"`")
		}
	}
	for _, l := range order {
		of := strings.Join(users[l], ", ")
		if len(users[l]) > 4 {
			of = fmt.Sprintf("%d metrics", len(users[l]))
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", l.Name, of, l.Values, l.Most)
	}
}
