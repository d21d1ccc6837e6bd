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
// holds the index's lock for reading, even with count_only or a limit; every write needs the
// lock exclusively. So one client that counts a million keys in a loop stops all writers, and
// all readers behind them. Waits inside etcd cannot be seen from outside. The cost of a
// request can be predicted: its message says which keys it covers, and the answers to earlier
// ranges say how many keys that is.
//
//	gate, err := spillgate.NewWith(cfg)        // cfg.Culprit.Mode: spillgate.EnforceCulprits
//	guard, err := etcd.New(gate)
//	embedded.GRPCAdditionalServerOptions = guard.ServerOptions()   // of etcd's embed.Config
//
// A cancelled request fails with ABORTED, which etcd's client does not retry by itself
// (it does retry CANCELED). The details hold the token with which the request may come
// again (grpcgate.Resend). Wide ranges are kinds of their own, by the order of magnitude of
// their width, so that the limit on a culprit's kind leaves gets and short lists alone.
// They are background work to the gate: last in line, and without an objective.
//
// Invariants: a request is never changed, and its messages are read before and after
// etcd handles them, not in between. The memory of past ranges is bounded and holds no
// keys. Watches, lease keep-alives, elections, locks and operator calls (maintenance,
// members) bypass the gate: they stay open as long as a client likes, or must work during
// an overload.
//
// What this package does not do: it imports no etcd and works with any version whose
// messages are protocol buffers. It does not see when a request gets the lock, so a wait
// for the disk counts as a wait for the index. Only a request that holds the index
// meanwhile, for longer than an objective, is blamed for it. etcd does not interrupt a
// walk over the index: a cancel prevents the walks that would follow it, and the limit on
// the kind prevents new ones. What writes is never cancelled, because etcd applies what it has proposed whether or not
// the caller waits: its kind is kept out.
package etcd
