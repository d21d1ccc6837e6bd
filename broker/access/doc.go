// Package access says who a client is and which topics it may use.
//
//	CONNECT: name, password, ─▶ Book.Enter ─▶ Identity ─┬─ MayPublish(topic)
//	client certificate, address                         └─ MaySubscribe(filter)
//
// Passwords are kept as bcrypt hashes, in the configuration or in a file of lines
// "name:hash". A user may also be known by the common name of a client
// certificate. A client that does not say who it is, is anonymous: without users
// it may come from this machine, and with users from nowhere, unless
// Anonymous.From says otherwise.
//
// Invariants: passwords and hashes are in no log, error or status; an Identity does
// not change, and after a change of users Book.Stale says that it is not to be
// used further; comparing passwords, which is slow on purpose, takes at most half
// of the processors.
//
// What this package does not do: it speaks no protocol and closes no connection.
package access
