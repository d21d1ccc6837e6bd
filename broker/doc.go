// Package broker is a message broker whose topics have rates: `spillgate broker`.
//
//	MQTT 3.1.1 and 5 ─▶ broker/mqtt ─▶ broker/engine: topic → token bucket → subscribers
//	                                        │
//	admin address: metrics, status, health ◀┘ rate, backlog, access and processing delay, by limit
//
// Messages of a topic without a limit are carried as fast as they arrive. A topic with a
// limit may send its burst at once and then its rate. Messages beyond it wait, and with
// QoS 1 and 2 so do their acknowledgements; or they are refused, if the limit polices. A
// flood on one topic therefore costs the others only the processor time to read it.
//
// Invariants: everything that clients can make grow has a limit, see Config; a change of
// limits while the broker runs loses no message and no token.
//
// What this package does not do: it is one node. Messages for subscribers elsewhere go
// through engine.Forwarder, which has no implementation yet. Users and rights, TLS,
// storage that outlives the process, and protocols other than MQTT do not exist yet.
package broker
