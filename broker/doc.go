// Package broker is a message broker whose topics have rates: `spillgate broker`.
//
//	MQTT 3.1.1 and 5 ─▶ broker/mqtt ─┐
//	NATS             ─▶ broker/nats ─┼▶ broker/engine: topic → token bucket → subscribers
//	NSQ              ─▶ broker/nsq  ─┘      │
//	admin address: metrics, status, health ◀┘ rate, backlog, access and processing delay, by limit
//
// Messages of a topic without a limit are carried as fast as they arrive. A topic with a
// limit may send its burst at once and then its rate. Messages beyond the limit wait, and
// with QoS 1 and 2 their acknowledgements wait too. A limit that polices refuses them
// instead. A flood on one topic therefore costs the others only the processor time to read
// it.
//
// All protocols share the topics: a/b of MQTT is a.b of NATS and NSQ. Package
// broker/access holds the rights of users, for every protocol. Clients on other machines
// need a name unless the configuration says otherwise.
//
// Invariants: every queue, table and buffer that clients can fill has a limit, see Config;
// a change of limits while the broker runs loses no message and no token.
//
// Several nodes (Config.Cluster) carry messages to each other's subscribers. They store
// messages of QoS 1 and 2 before they acknowledge them (broker/backplane). The bucket of a
// placed topic (broker/place) is divided among the nodes that hold its publishers
// (broker/share).
//
// What this package does not do: it checks no rights between nodes, which trust each
// other.
package broker
