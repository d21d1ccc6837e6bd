// Package catalogue lists every metric of the project, and makes from the list what
// operators read and load.
//
//	source of telemetry, proxy, guard, broker ──Scan──▶ name, kind, unit, meaning
//	                                  labels (here) ──┐        │
//	                                                  ▼        ▼
//	docs/metrics.md, deploy/grafana, deploy/prometheus ◀── Metric
//
// The source is the only place that says what a metric means; this package adds the
// labels and the number of their values. The test of this package writes the files
// (go test ./internal/catalogue -rewrite), and fails if a file differs from the source.
//
// Invariants: a metric in the source without an entry here, or the other way round, is
// an error; an expression of the dashboard or of an alert names only metrics and labels
// that exist.
//
// What this package does not do: it is not part of any program.
package catalogue
