// Package access identifies clients and decides which topics each may use.
//
//	CONNECT: name, password, ─▶ Book.Enter ─▶ Identity ─┬─ MayPublish(topic)
//	client certificate, address                         └─ MaySubscribe(filter)
//
// Passwords are kept as bcrypt hashes, in the configuration or in a file of lines
// "name:hash". A user may also be identified by the common name of a client
// certificate. A client without a name is anonymous. Without any users, anonymous
// clients may connect from this machine; with users, they are refused. Anonymous.From
// changes both.
//
// Invariants: passwords and hashes are in no log, error or status; an Identity does
// not change, and Book.Stale reports that a change of users has made it invalid;
// comparing passwords, which is slow on purpose, takes at most half of the
// processors.
//
// What this package does not do: it speaks no protocol and closes no connection.
package access
