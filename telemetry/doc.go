// Package telemetry turns what gates do into metrics and log lines that an
// operator can read.
//
//	live.Gate ──Event──▶ Gate.Observe ──▶ counters, histograms ─┐
//	          ◀─Stats─── Gate.Watch   ──▶ gauges               ─┴▶ Telemetry.Handler ──▶ Prometheus
//	                     Gate.Observe ──▶ overload notices, at
//	                                      debug level requests ───▶ slog
//
// Everything goes through OpenTelemetry, so that a program which has a meter
// provider of its own passes its meter to NewGate and needs no Telemetry. The
// histograms of Telemetry.NewGate alone are Prometheus's, because each request pays
// for them.
//
//	spillgate_requests_total{gate,decision,reason,class,outcome}
//	                                                      decision: admit, refuse, would_refuse,
//	                                                      cancel (ran, and was cancelled as a culprit)
//	                                                      outcome, of requests that ran: done, late
//	                                                      (executed after the deadline of the caller
//	                                                      or the objective), ignored, dropped,
//	                                                      cancelled
//	spillgate_queue_delay_seconds{gate}                   histogram, of requests that ran
//	spillgate_service_seconds{gate}                       histogram, of requests that ran
//	spillgate_objective_seconds, _service_estimate_seconds, _objective_unreachable,
//	spillgate_slots_limit, _slots_in_use, _waiting, _delay_seconds,
//	spillgate_credits, _credits_issued, _clients, _clients_drained, _mode{gate}
//	spillgate_culprit_state{gate,state}                   1 for the state of the service
//	spillgate_culprit_cancels_total{gate,action}          action: cancel, would_cancel
//	spillgate_culprit_outcomes_total{gate,verdict}        verdict: relieved, futile, ignored
//	spillgate_culprit_limits, _tokens, _audit_lost_total{gate}
//	spillgate_untagged_total{gate,method}                 calls that lost their request
//	spillgate_client_requests_total{target,decision,reason}
//	                                                      attempts to send; decision: answered,
//	                                                      refused, unsent (by the wallet), failed
//	spillgate_client_window, _client_waiting{target}      credits, and requests that wait for one
//
// A service needs one line of it: Prometheus, or Report where OpenTelemetry is set up.
//
// Invariants: labels are bounded: the name of the gate comes from the
// configuration, method and target from what the process calls, at most live.MaxUntagged
// and live.MaxTargets of them, the others from enumerations, and nothing a client sends becomes one. Nothing is global. Observe does not block and does not allocate
// unless it logs; above debug level a flood of refusals makes one log line per Notice.
//
// What this package does not do: no control loop reads its numbers.
package telemetry
