// Package engine carries messages from publishers to subscribers and holds each
// topic to its rate.
//
//	reader ─▶ Batch.Publish ─▶ Topic ─▶ lane: token bucket ──now──▶ Subscriber.Deliver ─▶ Outbox ─▶ Batch.End
//	(one read)                  │             │  later                   ▲                 (encoded     one write a
//	                            │             ▼                          │                  bytes)      subscriber
//	                            │        queue by due time ─one timer a lane, all that is due at once─┐
//	                            │                                        └────────────────────────────┘
//	                            └─ no limit: no lane, no lock
//
// While a subscriber is written to all the time, a batch for it lets the readers of other connections go first that are ready, and one
// write takes what all of them have (Batch.End).
//
// A limit covers the topics that its filter matches: each with a bucket of its
// own, or all with one (Limit.Shared). A message that finds no token waits in the
// lane's queue, or is refused (Limit.Police). The reader does not wait for it, but rests after a read all of whose messages found a full queue
// (Batch.EndRead). The source
// of a waiting message is told when the message has been released
// (Source.Released), so a protocol can withhold its acknowledgement until then.
//
// Invariants:
//
//   - Messages of one Source to one topic are delivered in the order in which they
//     were published, waiting or not, until the topic's bucket goes to another node: what waits
//     here goes on waiting, and later messages are sent there at once.
//   - A message is delivered before its Source is told that it was released.
//   - A message of at most smallMessage bytes that needs no copy allocates nothing,
//     and one that waits or is stored takes its copy from a pool.
//   - Every queue has a limit in messages and bytes. What comes beyond is refused
//     with a Verdict, and counted.
//   - No call blocks on a subscriber: an Outbox writes what the socket takes, and a
//     goroutine of its own, which exists only meanwhile, writes the rest.
//
// What this package does not do: it speaks no protocol, stores nothing on disk and
// knows no other node. Forwarder, Log, Diverter and Watcher are the places where
// broker/backplane does. With a Log, messages of QoS 1 and 2 are delivered in the order
// in which they were stored, apart from those of QoS 0.
package engine
