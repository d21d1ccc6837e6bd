// Package mqtt lets clients of MQTT 3.1.1 and 5 publish and subscribe.
//
//	socket ─▶ conn: one goroutine reads ─▶ packets of one read ─▶ engine.Batch ─▶ …
//	  ▲                                        │ acknowledgements
//	  └── engine.Outbox ◀── session: packet identifiers, window, queue ◀── engine.Subscriber
//
// A session outlives its connection if the client asks for it: subscriptions,
// what was not acknowledged, and what waits stay until the session expires, in memory,
// or with a backplane (Server.Join) stored, so that the client may come back to any
// node. A second connection of the same client takes the session over.
//
// A message of QoS 1 or 2 that waits for its topic's rate is acknowledged when it
// has been delivered, so that a client that keeps the Receive Maximum slows down
// by itself. A message that is refused (over a policed rate, or as many wait as
// may) gets reason code 0x97, quota exceeded. MQTT 3.1.1 has no such answer: there
// QoS 0 is dropped and counted, and QoS 1 and 2 close the connection, since the
// client must not take it for delivered.
//
// Packets are coded by github.com/mochi-mqtt/server/v2/packets, but for PUBLISH
// without properties and acknowledgements, which are most of the traffic and
// must not allocate.
//
// Invariants: a packet that is malformed, or that the protocol forbids, closes its
// connection with a reason code, and is counted; bytes from outside never panic
// and take memory in proportion to Limits; nothing a client does, or does not
// read, delays another client.
//
// Users are those of access.Book. What a user may not do is answered 0x87, or 0x86
// where name or password are wrong; a message of QoS 0 is dropped and counted, and
// MQTT 3.1.1, which has no code for it, is treated as above. A session belongs to
// the user that began it.
//
// A client that says so (PropertyRedirect) is sent to the node where it belongs, by
// reason code 0x9C and a Server Reference, as it connects or while it publishes. Other user properties of CONNECT name the topic,
// the group and the objective that it is placed by.
//
// With a backplane, a shared subscription belongs to the cluster: what is published to it with QoS 1 or 2 waits in the log while no
// member takes it (pool.go), and a will outlives the node of its client (wills.go).
//
// What MQTT 5 forbids is refused as its numbered statements say (statements_test.go), beyond what the codec looks at.
//
// What this package does not do: it speaks no TLS itself (its listener may), no WebSocket and no MQTT 3.1. It offers no topic
// aliases and no extended authentication. Without a backplane, a delayed will is lost if its node ends before the delay. A retained message of QoS 2
// that was sent because of a subscription is not sent again by another connection.
package mqtt
