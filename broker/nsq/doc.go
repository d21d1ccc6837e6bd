// Package nsq lets clients of NSQ (TCP protocol V2) publish to topics and consume
// from channels, beside those of the other protocols.
//
//	socket ─▶ link.Reader ─▶ commands of one read ─▶ engine.Batch ─▶ …
//	  ▲                        │ OK, in the order of commands, when the message has gone
//	  └── engine.Outbox ◀── channel: ready, deferred, in flight ◀── engine.Subscriber
//
// The topic a.b of NSQ is the topic a/b. The suffix #ephemeral means nothing on a
// topic, because topics store nothing; a channel with it ends with its last consumer.
// Other channels stay without consumers until they expire, and keep messages up to
// their limits.
//
// A message goes to one consumer of each existing channel, at most RDY at once. It
// goes out again if it is not finished in time or is requeued, or if its consumer
// leaves. Each message is delivered at least once while the process lives, in no
// certain order after the first requeue.
//
// A message that waits for its topic's rate is answered OK when it has been
// delivered, and one that is refused E_PUB_FAILED, E_MPUB_FAILED or E_DPUB_FAILED,
// after which the connection goes on; some messages of an MPUB may have been released
// by then. A deferred message takes its token when it is due.
//
// Users are those of access.Book; the secret of AUTH is "name:password". A command
// without the right to it is answered E_UNAUTHORIZED, which closes the connection.
//
// Invariants: a malformed command closes its connection with an error and is
// counted; bytes from outside never panic and take memory in proportion to
// Limits; a message is in one state of one channel, or gone.
//
// Where the broker stores, PUB and MPUB are answered OK when the messages are stored, and a channel is one of all nodes, which outlives
// them (stored.go). An ephemeral channel is one of its node and its process. Deferred messages wait in memory.
//
// What this package does not do: it has no compression, no sampling, and no HTTP interface but that of Lookup, and drops messages
// to topics without channels.
package nsq
