// Package nsq lets clients of NSQ (TCP protocol V2) publish to topics and consume
// from channels, beside those of the other protocols.
//
//	socket ─▶ link.Reader ─▶ commands of one read ─▶ engine.Batch ─▶ …
//	  ▲                        │ OK, in the order of commands, when the message has gone
//	  └── engine.Outbox ◀── channel: ready, deferred, in flight ◀── engine.Subscriber
//
// The topic a.b of NSQ is the topic a/b. A suffix #ephemeral of a topic says nothing
// here, since topics store nothing; of a channel it says that the channel ends with
// its last consumer. Other channels stay without consumers until they expire, and
// keep what comes, up to their limits.
//
// A message goes to one consumer of each channel that exists, never more than RDY
// at once, and again if it is not finished in time, requeued, or its consumer goes.
// Every message comes at least once while the process lives, in no certain order
// after the first requeue.
//
// A message that waits for its topic's rate is answered OK when it has been
// delivered, and one that is refused E_PUB_FAILED, E_MPUB_FAILED or E_DPUB_FAILED,
// after which the connection goes on; of an MPUB some may have been taken then. A
// deferred message takes its token when it is due.
//
// Users are those of access.Book; the secret of AUTH is "name:password". What a
// user may not do is answered E_UNAUTHORIZED, which closes the connection.
//
// Invariants: a command that is malformed closes its connection with an error and
// is counted; bytes from outside never panic and take memory in proportion to
// Limits; a message is in one state of one channel, or gone.
//
// What this package does not do: it keeps nothing when the process ends, has no
// compression, no sampling, no lookup daemon and no HTTP interface, and a message to
// a topic without channels is kept for nobody.
package nsq
