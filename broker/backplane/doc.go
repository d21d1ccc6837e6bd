// Package backplane joins the brokers of several nodes over NATS, and stores messages and
// sessions that must outlive a process.
//
//	             node 1                                   node 2
//	hub ── QoS 0 ──▶ Forward ──▶ spillgate.live.… ──▶ wanted? ──▶ hub: subscribers there
//	hub ── QoS 1, 2 ▶ Append ──▶ stream log, R copies ─▶ feed: wanted? ──▶ hub: subscribers of every node
//	                     ◀── stored ──┘ then PUBACK, PUBREC
//	                     log ─▶ Group: a member of a shared subscription, or a consumer of a channel, at any node
//	hub ── retained ▶ stream retained, one a topic ────▶ every node keeps them
//	hub ── bucket is elsewhere ▶ Divert ▶ spillgate.publish.NODE ──▶ hub there ── stored ──▶ PUBACK
//	session ── subscriptions, position in the log ──▶ KV ──▶ whichever node the client comes back to
//	will ── while its client is connected ──▶ KV ──▶ the other nodes, if that node is silent
//
// Each node has a NATS server in its process (Config.Cluster joins them), or uses one
// that runs elsewhere (Config.URL). Interest travels by NATS: a filter that a client of
// this node subscribes to is a NATS subscription, so a message of QoS 0 goes only to nodes
// that want it, and among several nodes each reads from the log only what its clients subscribe to (feed.go).
//
// Invariants:
//
//   - A message of QoS 1 or 2 is acknowledged after the log has it. With one node that
//     is the file system, with three a majority of them: the death of any one process
//     loses none. A log that is full, or has no majority, refuses messages.
//   - A stream is read on within seconds after the death of any one node, since a consumer that
//     says nothing is replaced (package follow). A session, and a message by its position, are read
//     from their stream's leader: other copies may lack what was stored a moment ago.
//   - A session is stored by the connection that loaded it last (Session.Writer).
//   - A message goes to each node once: a node delivers a received message and sends it
//     no further, and numbers identify copies that arrive by two filters.
//   - A will is dropped after it was published: one of QoS 1 or 2 is in the log once, whoever publishes it.
//   - Of a shared subscription one member in the whole cluster gets a message. What the log has for one of MQTT, or for a channel of NSQ, is drawn
//     again, by any node, unless a member has acknowledged it.
//   - No call blocks the engine. Every queue has a limit; a node that is behind loses
//     messages of QoS 0, which are counted, and delays no other node.
//   - The log keeps the messages that a session or a shared subscription still needs, for at most Config.MaxAge.
//
// What this package does not do: it does not flush each message to the disk, so messages
// can be lost if all machines with a copy lose power together. A message on its way to a member of a queue group of NATS is lost if that
// node dies. It has no users: keep its ports private.
package backplane
