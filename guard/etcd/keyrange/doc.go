// Package keyrange says which ranges of keys a request to etcd reads or deletes.
//
//	bytes of a request (KV/Range, Txn, DeleteRange) ──Each──▶ Range ──Covers──▶ prefixes
//
// For every range, etcd walks over all of its keys in the index, under a lock that every
// write needs, even with a limit or count_only. So the cost of a request follows from the
// ranges that it names.
//
// Invariants: the input may be any bytes. Malformed or truncated input ends the walk after
// the ranges before it. Each allocates nothing, and takes time in proportion to the bytes.
//
// What this package does not do: it does not know how many keys there are, and it reads
// no responses. Field numbers are those of etcd's rpc.proto, the same since etcd 3.0.
package keyrange
