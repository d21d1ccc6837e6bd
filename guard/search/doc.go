// Package search looks at an OpenSearch or Elasticsearch cluster through its public
// interface, or at a node of one through the task file of a plugin, tracer/opensearch or tracer/elasticsearch, and cancels what it is told to.
//
//	task file ── every look, where there is one ─▶ track.Look;  cancel word ◀── Act;  kinds ◀── KeepOut
//
// Without a task file:
//
//	GET _tasks ───── every look, in detail while that is cheap ─┐
//	GET _nodes/stats ─ pools, heap, totals ─────────────────────┴─▶ views ─▶ build ─▶ track.Look
//	POST _tasks/ID/_cancel ◀── Act, after the start of the task was compared
//
// What it knows of these servers:
//
//   - A task is what a client asked for. Its parts on the shards, which do the work, name it
//     as their parent, and count for it. Those of updates and gets name none: they are the tasks then.
//   - A part waits for its thread pool until a thread runs it. OpenSearch tells how many
//     threads run a part of a search. Otherwise, and with Elasticsearch, the largest parts of a node run, and of equals the oldest,
//     as many as the pool has threads, if the pool has a queue, and all of them if it has none.
//   - OpenSearch tells what each part of a search used of processors and heap. Where no server tells, the parts
//     that run are taken to share the node's processors equally.
//   - A list in detail has the text of each query, which the server writes anew each time. After a large
//     one some looks do without, so that no more than detailRate are asked for.
//   - Time that the collector takes is lost to those who fill the heap.
//   - A cancel ends all parts of a task. Searches and by-query tasks can be cancelled, a bulk
//     request cannot.
//
// Invariants: a task is cancelled only if a node still has it under the same number with the same
// start and action, because numbers begin again when a node is restarted. The server is sent
// nothing but reads, and cancels. An answer that is too large, late, or of another shape fails the look.
//
// What this package does not do: it chooses nothing. Literals of a query are never kept.
package search
