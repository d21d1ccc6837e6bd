// Package nats lets clients of NATS publish and subscribe, beside those of the
// other protocols and to the same topics.
//
//	socket ─▶ link.Reader ─▶ commands of one read ─▶ engine.Batch ─▶ …
//	  ▲
//	  └── engine.Outbox ◀── sub, one for each subscription ◀── engine.Subscriber
//
// The subject a.b.c is the topic a/b/c. A slash inside a token is a dot inside a
// level, and the other way round, so that both directions are exact. "*" is "+",
// and ">" is "+/#", because ">" stands for at least one level. A subject with + or #
// is refused. Topics that are not valid subjects do not reach NATS subscribers, and
// are counted: those with an empty level (also a slash at either end), a space or
// control character, or a level that is "*" or ">". As in all subscriptions here, a
// wildcard in the first level does not match topics that begin with $.
//
// Headers travel as user properties of MQTT 5 and the reply subject as the response
// topic, in both directions, so that a request of one protocol may be answered by
// the other. A request that nobody gets, here or at another node, is answered with status
// 503. A status in the first line of a header is not passed on. A queue group
// is a shared subscription of that name and filter.
//
// NATS has no acknowledgements, so a message that waits for its topic's rate waits
// here. A refused message is answered with status 429 if it is a request of a client
// with headers. Otherwise it is dropped and counted, and the client gets a
// "Permissions Violation", the one error of the protocol that does not close the
// connection, at most once a second. Messages have QoS 0.
//
// Lines are answered as nats-server answers them, byte for byte (beside_test.go). Exceptions: a malformed command is always
// told the client, a message with an invalid subject goes to nobody, and the client is told so although it is not pedantic.
//
// Invariants: a malformed command closes its connection with an -ERR and is counted;
// bytes from outside never panic and take memory in proportion to Limits; a message
// whose client is too far behind is dropped and counted, and delays no other client.
//
// Where the broker stores, clients use JetStream, which NATS behind the broker keeps (Streams). Requests,
// acknowledgements and what consumers send pass through: each subscription of a client that waits for them has
// one of NATS behind it, so that both end together. Requests that concern the broker's own streams, other servers or
// data without a topic are refused. A user needs the right to publish to the subject of a request, as with nats-server,
// and gets no message of a topic that it may not subscribe to, whoever made the consumer. What is published reaches
// a stream after its topic's bucket, over any protocol; the stream's answer is the only sign that it is stored there.
//
// What this package does not do: push consumers that are durable or have a group, and streams that copy others.
// There are no accounts, no authentication except by name and password or by
// certificate, no connections to other servers, and no WebSocket. Of several nodes, a member of a queue
// group that is the only one at its node may get its own messages even with echo off.
package nats
