// Package etcd puts a gate in front of an etcd that runs inside a program, and tells it
// what etcd's requests hold inside.
//
//	call ──▶ gate ──▶ Guard ──▶ etcd
//	                   │ a wide range: holds the index until it is answered
//	                   │ all else:     waits for the index until it is answered
//	                   ▼
//	   gate's culprit engine: who keeps the others waiting? ──▶ that one's context ends
//
// etcd keeps its keys in one index. A range walks over all keys that it covers while it
// holds the index's lock for reading, count_only and limit or not; every write needs the
// lock alone. So one client that counts a million keys in a loop stops all writers, and
// behind these all readers. What waits inside of etcd cannot be seen from outside; what a
// request will do can: its message says which keys it covers, and the answers to earlier
// ranges how many keys that are.
//
//	gate, err := spillgate.NewWith(cfg)        // cfg.Culprit.Mode: spillgate.EnforceCulprits
//	guard, err := etcd.New(gate)
//	embedded.GRPCAdditionalServerOptions = guard.ServerOptions()   // of etcd's embed.Config
//
// A cancelled request fails with ABORTED, which etcd's client does not send again by
// itself as it does CANCELED; the token with which it may come again is in the details
// (grpcgate.Resend). Wide ranges are kinds of their own, by the order of magnitude of
// their width, so that the limit on a culprit's kind leaves gets and short lists alone.
// They are background work to the gate: last in line, and without an objective.
//
// Invariants: a request is never changed, and its messages are read before and after
// etcd, not meanwhile. What is remembered of ranges is bounded and holds no keys.
// Watches, leases that are kept alive, elections, locks, and what operators call
// (maintenance, members) pass without the gate: they are open for as long as a client
// likes, or must work when nothing else does.
//
// What this package does not do: it imports no etcd and works with any version whose
// messages are protocol buffers. It does not know when a request gets the lock: what
// waits for the disk waits for the index in its eyes, and no one is blamed for that but
// who holds it meanwhile, for longer than an objective. etcd ends a walk over the index
// at its end alone; a cancel frees what comes after, and the limit on the kind the rest.
package etcd
