// Package telemetry turns what gates do into metrics and log lines for operators.
//
//	live.Gate ──Event──▶ Gate.Observe ──▶ counters, histograms ─┐
//	          ◀─Stats─── Gate.Watch   ──▶ gauges               ─┴▶ Telemetry.Handler ──▶ Prometheus
//	                     Gate.Observe ──▶ overload notices, at
//	                                      debug level requests ───▶ slog
//
// Everything goes through OpenTelemetry, so a program with a meter provider of its own
// passes its meter to NewGate and needs no Telemetry. Only the histograms of
// Telemetry.NewGate are a Timer's, because each request pays for them.
//
// docs/metrics.md lists every metric with its meaning, its labels and their values; it is
// made from this source.
//
// A service calls one function: Prometheus; Register where it serves a registry of Prometheus
// already; or Report where OpenTelemetry is set up.
//
// Invariants: the number of label values is bounded. The gate's name comes from the
// configuration; methods and targets are those that the process calls, at most
// live.MaxUntagged and live.MaxTargets of them; all other labels are enumerations. No input
// from a client becomes a label. Nothing is global. Observe does not block, and allocates only when it logs; above
// debug level, a flood of refusals makes one log line per Notice.
//
// What this package does not do: no control loop reads its numbers.
package telemetry
