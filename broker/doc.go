// Package broker is a message broker whose topics have rates: `spillgate broker`.
//
//	MQTT 3.1.1 and 5 ─▶ broker/mqtt ─┐
//	NATS             ─▶ broker/nats ─┼▶ broker/engine: topic → token bucket → subscribers
//	NSQ              ─▶ broker/nsq  ─┘      │
//	admin address: metrics, status, health ◀┘ rate, backlog, access and processing delay, by limit
//
// A topic without a limit is carried as fast as it comes. One with a limit lets
// its burst through at once and then its rate; what comes faster waits, and with
// QoS 1 and 2 so does its acknowledgement, or is refused where the limit polices.
// One topic that is flooded therefore costs the others nothing but the processor
// time of reading it.
//
// All protocols share the topics: a/b of MQTT is a.b of NATS and NSQ. Who may do what
// is in broker/access, for every protocol; clients of other machines need a name
// unless the configuration says otherwise.
//
// Invariants: everything that clients can make grow has a limit, see Config; a
// change of limits while the broker runs loses no message and no token.
//
// Several nodes (Config.Cluster) carry messages to each other's subscribers, and store
// those of QoS 1 and 2 before they acknowledge them (broker/backplane). A topic that is
// placed (broker/place) has a part of its bucket at each node that holds publishers of
// it (broker/share).
//
// What this package does not do: it checks no rights between nodes, which trust each
// other.
package broker
