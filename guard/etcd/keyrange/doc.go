// Package keyrange says which ranges of keys a request to etcd reads or deletes.
//
//	bytes of a request (KV/Range, Txn, DeleteRange) ──Each──▶ Range ──Covers──▶ prefixes
//
// A range costs etcd a walk over all of its keys in the index, under a lock that every
// write needs as well: whatever the request's limit is, for count_only too. So the cost
// of a request follows from how much its ranges cover, which the request says.
//
// Invariants: any bytes may come. What is malformed or cut off ends the walk; the ranges
// before it were told. Nothing is allocated, and the time is proportional to the bytes.
//
// What this package does not do: it does not know how many keys there are, and it reads
// no responses. Field numbers are those of etcd's rpc.proto, the same since etcd 3.0.
package keyrange
